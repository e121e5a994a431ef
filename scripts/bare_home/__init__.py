"""A bare Home Assistant, in a process of its own, that gets a release of Local LLM and is asked to turn on a light."""
