"""Fixtures of this room."""

from tests.engine.numeric import one_thread, poisoned_empty

__all__ = ["one_thread", "poisoned_empty"]
