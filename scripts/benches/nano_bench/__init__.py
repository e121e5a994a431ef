"""The bench of nano: held-out houses in a real Home Assistant, questions to it, and what became of them."""
