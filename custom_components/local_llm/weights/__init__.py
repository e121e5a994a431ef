"""Converted weights: made once, with progress that people see, and kept where backups leave them out."""
