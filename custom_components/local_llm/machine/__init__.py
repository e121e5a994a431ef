"""What this machine can do: PyTorch, memory and disk, found out before anything is loaded."""
