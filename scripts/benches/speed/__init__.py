"""The bench of speed: prefill, decode and the first token, beside llama.cpp and what the machine could give."""
