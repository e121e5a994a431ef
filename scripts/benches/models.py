"""Makes model folders to measure with: what scripts/models takes."""

import argparse
from pathlib import Path
import signal
import sys

from demo_house.arguments import folder

from .random_weights import SIZES, random_model


def main() -> int:
    """Read the command line, make the folder that it names, and print where it is."""
    parser = argparse.ArgumentParser(
        prog="scripts/models", description="Makes model folders to measure with."
    )
    commands = parser.add_subparsers(required=True, metavar="KIND")
    command = commands.add_parser(
        "random", help="a model of a real size with random weights: it knows nothing"
    )
    command.add_argument("size", choices=SIZES, metavar="SIZE", help=", ".join(SIZES))
    command.add_argument(
        "--into",
        type=folder,
        default=Path(),
        metavar="FOLDER",
        help="where its folder is made (here if left out)",
    )
    options = parser.parse_args()
    print(random_model(options.size, options.into))
    return 0


if __name__ == "__main__":
    # Interrupted, it ends quietly: the next one makes anew what is half there.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
