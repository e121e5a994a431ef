"""The architectures: configuration and arithmetic of each, read top to bottom."""
