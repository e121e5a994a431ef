"""What the benches' peers have in common: the environment that they run in, as if ours were not there."""

import os

# The engine's package sets it for its own process, and llama.cpp is much slower with it.
_OURS = "OMP_WAIT_POLICY"


def peer_environment() -> dict[str, str]:
    """Return the variables of this process, but for what the engine has set."""
    return {name: value for name, value in os.environ.items() if name != _OURS}
