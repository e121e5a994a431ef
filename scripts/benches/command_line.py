"""The benches' command line: what scripts/bench takes."""

import argparse
from pathlib import Path

from demo_house.arguments import folder, new_file

from . import cache_speed, loading, loop_lag, quality
from .random_weights import SIZES
from .reread.bench import bench as reread


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
    _add_model(command)
    _add_json(command)
    command = commands.add_parser(
        "cache", help="what the prompt cache itself costs: lookups and copies"
    )
    command.set_defaults(bench=cache_speed.bench)
    _add_json(command)
    command = commands.add_parser(
        "quality", help="what quantized weights cost in quality"
    )
    command.set_defaults(bench=quality.bench)
    _add_model(command)
    command.add_argument(
        "--tokens", type=int, default=4_000, metavar="N", help="tokens to compare"
    )
    _add_json(command)
    command = commands.add_parser(
        "loading",
        help="how long a model in our own formats takes to load, and how much memory",
    )
    command.set_defaults(bench=loading.bench)
    models = command.add_mutually_exclusive_group()
    _add_model(models)
    _add_random_weights(models)
    _add_json(command)
    _add_reread(
        commands.add_parser(
            "reread", help="how much of a home's prompts is read again, and why"
        )
    )
    options = parser.parse_args()
    result: int = options.bench(options)
    return result


def _add_reread(command: argparse.ArgumentParser) -> None:
    command.set_defaults(bench=reread)
    models = command.add_mutually_exclusive_group()
    _add_model(models)
    _add_random_weights(models)
    command.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="where ours runs"
    )
    command.add_argument(
        "--threads", type=int, metavar="N", help="threads for ours and for the peer"
    )
    command.add_argument(
        "--peer", type=Path, metavar="FILE", help="a llama-server to ask beside ours"
    )
    command.add_argument(
        "--peer-model", type=Path, metavar="FILE", help="the peer's model, a .gguf"
    )
    command.add_argument(
        "--quick", action="store_true", help="4 satellites, short foreign prompts"
    )
    command.add_argument(
        "--chart", type=Path, metavar="FOLDER", help="draw reread.png and reread.svg"
    )
    _add_json(command)


def _add_model(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--model",
        type=folder,
        metavar="FOLDER",
        help="answer from another model than the built-in one",
    )


def _add_random_weights(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--random-weights",
        choices=SIZES,
        metavar="SIZE",
        help=f"a model of this size that knows nothing: {', '.join(SIZES)}",
    )


def _add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--json", type=new_file, metavar="FILE", help="write the figures to a file too"
    )
