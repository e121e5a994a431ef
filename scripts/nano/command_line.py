"""The command line of nano's making: what `scripts/nano` takes."""

import argparse
from pathlib import Path
from random import Random

import torch

from .config import NanoConfig
from .corpus import tokenizer_texts
from .export import export
from .tokenizer import build_tokenizer, write_tokenizer
from .training import CHECKPOINT, Plan, Run


def main() -> int:
    """Read the command line and do what it names."""
    parser = argparse.ArgumentParser(
        prog="scripts/nano", description="Makes the built-in model."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("tokenizer", help="make the tokenizer of a run")
    command.set_defaults(work=_tokenizer)
    command.add_argument("folder", type=Path, help="the run's folder")
    command = commands.add_parser(
        "train", help="train, or go on training; stop it whenever you like"
    )
    command.set_defaults(work=_train)
    command.add_argument("folder", type=Path, help="the run's folder")
    command.add_argument(
        "--from",
        dest="model",
        type=Path,
        metavar="MODEL",
        help="begin a run with the weights and the tokenizer of a model that was exported",
    )
    command.add_argument("--threads", type=int, default=2, metavar="N")
    command.add_argument(
        "--steps",
        type=int,
        default=Plan.__dataclass_fields__["steps"].default,
        metavar="N",
        help="where training ends",
    )
    command.add_argument(
        "--finish",
        type=int,
        default=Plan.__dataclass_fields__["finish"].default,
        metavar="N",
        help="for so many steps before that, learn ever more slowly",
    )
    command = commands.add_parser(
        "export", help="write a run's model as the engine loads it"
    )
    command.set_defaults(work=_export)
    command.add_argument("folder", type=Path, help="the run's folder")
    command.add_argument("into", type=Path, help="the model's folder")
    options = parser.parse_args()
    result: int = options.work(options)
    return result


def _tokenizer(options: argparse.Namespace) -> int:
    options.folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(build_tokenizer(tokenizer_texts(Random(1))), options.folder)
    return 0


def _export(options: argparse.Namespace) -> int:
    kept = torch.load(
        options.folder / CHECKPOINT, map_location="cpu", weights_only=True
    )
    export(
        kept["average"],
        NanoConfig(**kept["config"]),
        options.folder / "tokenizer.json",
        options.into,
        kept["step"],
    )
    print(f"{options.into}: the model after {kept['step']} steps")
    return 0


def _train(options: argparse.Namespace) -> int:
    torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    plan = Plan(steps=options.steps, finish=options.finish)
    Run(options.folder, plan, NanoConfig(), options.model).train()
    return 0
