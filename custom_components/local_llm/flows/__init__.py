"""The steps of the forms: where a model comes from, agents and AI tasks."""
