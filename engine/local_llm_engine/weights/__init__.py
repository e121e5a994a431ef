"""Weights files: reading, checking and handing out tensors by name."""
