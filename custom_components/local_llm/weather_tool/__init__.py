"""The weather in words and numbers that a small model can read out."""
