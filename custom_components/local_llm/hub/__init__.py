"""Models of Hugging Face: finding them, bringing them here, and where they lie."""
