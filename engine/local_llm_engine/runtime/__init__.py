"""Live sequences: who goes next, one step at a time, on the one thread that owns torch."""
