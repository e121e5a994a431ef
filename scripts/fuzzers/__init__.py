"""Fuzzers: they damage files of small models and see that each is refused in one clear line, or works."""
