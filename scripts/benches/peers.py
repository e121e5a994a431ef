"""What the benches' peers have in common: how they are asked for, and the environment that they run in."""

import argparse
import os

# The engine's package sets them for its own process; a peer waits as it likes.
_OURS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def peer_environment() -> dict[str, str]:
    """Return the variables of this process, but for those that say how the engine's threads wait."""
    return {name: value for name, value in os.environ.items() if name not in _OURS}


def peer_fault(options: argparse.Namespace) -> str | None:
    """Say what is wrong with the `--peer` and `--peer-model` that were asked for, if anything is."""
    if bool(options.peer) != bool(options.peer_model):
        return "--peer and --peer-model want each other."
    for file in (options.peer, options.peer_model):
        if file and not file.is_file():
            return f"There is no file {file}."
    return None
