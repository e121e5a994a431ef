"""Finds what changes faster than daily in the instructions of an agent."""
