"""What has been read before: state types, checkpoints, and the prompt cache that keeps them."""
