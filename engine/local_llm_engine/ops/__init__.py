"""The arithmetic: a plain reference and a fast form of each operation, with one signature."""
