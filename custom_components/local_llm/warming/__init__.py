"""Who will ask, and having their prompts read before they do."""
