"""Mends the tool calls that small models write, or says what would be right."""
