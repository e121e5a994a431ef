"""From messages to token ids with breakpoints, and from token ids back to deltas; no torch here."""
