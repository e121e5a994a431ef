"""The benches' command line: what scripts/bench takes."""

import argparse
from pathlib import Path

from . import loop_lag


def main() -> int:
    """Read the command line and run the bench that it names."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measures what the project promises."
    )
    commands = parser.add_subparsers(required=True, metavar="BENCH")
    command = commands.add_parser(
        "loop-lag",
        help="how late Home Assistant's event loop is while the engine works",
    )
    command.set_defaults(bench=loop_lag.bench)
    command.add_argument(
        "--model",
        type=Path,
        metavar="FOLDER",
        help="answer from another model than the built-in one",
    )
    command.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures to a file too"
    )
    options = parser.parse_args()
    result: int = options.bench(options)
    return result
