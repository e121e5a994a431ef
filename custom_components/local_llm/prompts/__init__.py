"""What the engine is asked, laid out from what changes least to what changes most."""
