"""Benches: each measures one promise of the project and prints it as a table and as JSON."""
