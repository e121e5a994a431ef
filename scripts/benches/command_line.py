"""The benches' command line: what scripts/bench takes."""

import argparse
from pathlib import Path

from demo_house.arguments import folder, folder_or_file, new_file, old_file

from local_llm_engine.errors import ModelLoadError

from . import agreement, cache_speed, loading, loop_lag
from .quality.bench import bench as quality
from .random_weights import SIZES
from .reread.bench import bench as reread
from .speed.bench import bench as speed
from .speed.cases import CASES


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
    command.set_defaults(bench=quality)
    command.add_argument(
        "--model",
        type=folder_or_file,
        metavar="PATH",
        help="measure another model than the built-in one: a folder, or a .gguf",
    )
    command.add_argument(
        "--tokens", type=_positive, default=4_000, metavar="N", help="tokens to compare"
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
    _add_nano(
        commands.add_parser(
            "nano", help="how often the built-in model does what it is told"
        )
    )
    _add_reread(
        commands.add_parser(
            "reread", help="how much of a home's prompts is read again, and why"
        )
    )
    command = commands.add_parser(
        "agreement",
        help="whether llama.cpp names the same next tokens of a GGUF file",
    )
    command.set_defaults(bench=agreement.bench)
    command.add_argument(
        "--model", type=old_file, required=True, metavar="FILE", help="a .gguf"
    )
    command.add_argument(
        "--peer-library",
        type=folder,
        required=True,
        metavar="FOLDER",
        help="where llama-cpp-python is installed: pip install --target FOLDER llama-cpp-python",
    )
    _add_json(command)
    _add_speed(
        commands.add_parser(
            "speed", help="how many tokens a second are read and written"
        )
    )
    options = parser.parse_args()
    try:
        result: int = options.bench(options)
    except ModelLoadError as error:
        parser.error(f"this model cannot be loaded: {error}")
    return result


def _nano(options: argparse.Namespace) -> int:
    # Home Assistant and its tests' own means take seconds to load.
    from .nano_bench.bench import bench  # noqa: PLC0415

    return bench(options)


def _add_nano(command: argparse.ArgumentParser) -> None:
    command.set_defaults(bench=_nano)
    _add_model(command)
    command.add_argument(
        "--languages",
        nargs="+",
        default=["en"],
        metavar="LANGUAGE",
        help="such as en de",
    )
    command.add_argument(
        "--sizes",
        nargs="+",
        type=int,
        default=[10, 20, 40, 80],
        metavar="N",
        help="things in a house",
    )
    command.add_argument(
        "--houses", type=int, default=6, metavar="N", help="houses of each size"
    )
    command.add_argument(
        "--questions", type=int, default=20, metavar="N", help="questions in each house"
    )
    command.add_argument(
        "--weights",
        nargs="+",
        default=[],
        choices=("int8", "int4"),
        help="ask once more with these",
    )
    command.add_argument(
        "--cold", action="store_true", help="ask once more without a prompt cache"
    )
    _add_json(command)


def _add_reread(command: argparse.ArgumentParser) -> None:
    command.set_defaults(bench=reread)
    models = command.add_mutually_exclusive_group()
    _add_model(models)
    _add_random_weights(models)
    command.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="where ours runs"
    )
    _add_peer(command, "a llama-server to ask beside ours")
    command.add_argument(
        "--quick", action="store_true", help="4 satellites, short foreign prompts"
    )
    command.add_argument(
        "--chart", type=Path, metavar="FOLDER", help="draw reread.png and reread.svg"
    )
    _add_json(command)


def _add_speed(command: argparse.ArgumentParser) -> None:
    command.set_defaults(bench=speed)
    models = command.add_mutually_exclusive_group()
    _add_model(models)
    _add_random_weights(models)
    command.add_argument(
        "--weights", choices=("bf16", "int8", "int4"), default="int4", help="of ours"
    )
    names = [case.name for case in CASES]
    command.add_argument(
        "--cases",
        nargs="+",
        choices=names,
        metavar="CASE",
        help=f"only these of {', '.join(names)}",
    )
    command.add_argument(
        "--repetitions",
        type=_positive,
        default=5,
        metavar="N",
        help="samples of each case, in turns with the peer",
    )
    _add_peer(command, "a llama-bench to run in turns with ours")
    command.add_argument(
        "--no-avx512",
        action="store_true",
        help="ours as on a processor without AVX-512; no limit holds for it",
    )
    command.add_argument(
        "--profile", action="store_true", help="tell the operations of each case, too"
    )
    command.add_argument(
        "--chart", type=Path, metavar="FOLDER", help="draw speed.png and speed.svg"
    )
    _add_json(command)


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(
            f"a whole number of at least 1 is wanted, not {text}"
        )
    return number


def _add_peer(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument(
        "--threads", type=int, metavar="N", help="threads for ours and for the peer"
    )
    command.add_argument("--peer", type=Path, metavar="FILE", help=what)
    command.add_argument(
        "--peer-model", type=Path, metavar="FILE", help="the peer's model, a .gguf"
    )


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
