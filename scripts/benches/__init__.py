"""Benches: each measures one promise of the project and prints it as a table and as JSON."""

# It tells OpenMP how its threads are to wait, which must be told before torch is loaded: what is measured is
# to be as quick as it is in Home Assistant, and no quicker.
import local_llm_engine  # noqa: F401
