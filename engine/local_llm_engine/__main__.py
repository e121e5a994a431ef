"""The command line: the only reader of argv."""

import argparse
import asyncio
from functools import partial
import json
import math
from pathlib import Path
import sys
from typing import TYPE_CHECKING, get_args

from .builtin import NANO_PATH
from .cache.report import read_records, report
from .config import GIB, EngineConfig, KvCache, Weights
from .errors import EngineError, InvalidRequestError
from .types import (
    ChatRequest,
    ContentDelta,
    FinishDelta,
    InvalidToolCallDelta,
    Message,
    ThinkingDelta,
    ToolCallDelta,
)

if TYPE_CHECKING:
    from .models.memory import DeviceMemory
    from .models.plan import EnginePlan
    from .service import Engine

_LABELS = {
    "weights_bytes": "weights",
    "kv_bytes_per_1000_tokens": "KV of 1,000 tokens",
    "slots_bytes": "slots",
    "checkpoint_bytes": "one checkpoint",
    "satellites_bytes": "cached for {satellites} satellites",
    "prompt_cache_bytes": "prompt cache at most",
    "device_bytes": "needed on the device",
    "ram_bytes": "in RAM with a full cache",
    "memory_total_bytes": "the device has",
    "memory_available_bytes": "unused of that now",
}


def main() -> int:
    """Run the command named in argv; 0 when it worked."""
    parser = argparse.ArgumentParser(
        prog="python -m local_llm_engine", description="Run a local language model."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    chat = commands.add_parser("chat", help="talk to a model, a line at a time")
    _add_model(chat)
    chat.add_argument(
        "--system",
        default="You are a helpful voice assistant.",
        help="the system message",
    )
    chat.add_argument(
        "--thinking", action="store_true", help="let the model think before it answers"
    )
    chat.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    _add_formats(chat)
    _add_plan(commands.add_parser("plan", help="say what a model will need"))
    report_command = commands.add_parser("report", help="sum up a file of call records")
    report_command.add_argument("file", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.command == "report":
            print(report(read_records(arguments.file)))
        elif arguments.command == "plan":
            print(_plan(arguments))
        else:
            _chat(arguments)
    except (EngineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt, EOFError:
        print()
    return 0


def _add_plan(command: argparse.ArgumentParser) -> None:
    _add_model(command)
    command.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    _add_formats(command)
    command.add_argument(
        "--context-length",
        type=int,
        help="in tokens (as many as the model can, at most, if left out)",
    )
    command.add_argument(
        "--prompt-cache-gib",
        type=partial(_amount, float),
        default=8.0,
        help="the most that the prompt cache may take (8)",
    )
    command.add_argument(
        "--satellites",
        type=partial(_amount, int),
        default=3,
        help="for how many the cache is to have room (3)",
    )
    command.add_argument("--json", action="store_true", help="print bytes as JSON")


def _amount[Number: (int, float)](kind: type[Number], text: str) -> Number:
    try:
        value = kind(text)
    except ValueError:
        value = kind(-1)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(
            f"{text} is no amount; right is a{' whole' if kind is int else ''} number from 0"
        )
    return value


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "model",
        nargs="?",
        type=Path,
        default=NANO_PATH,
        help="a model folder or a GGUF file (the built-in model if left out)",
    )


def _add_formats(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--weights",
        default="auto",
        choices=get_args(Weights.__value__),
        help="the format of the large matrices (auto: as they are stored)",
    )
    command.add_argument(
        "--kv-cache",
        default="bf16",
        choices=get_args(KvCache.__value__),
        help="the format of keys and values (int8: half the memory for every token, a quarter where it is computed in float32)",
    )


def _plan(arguments: argparse.Namespace) -> str:
    """Say what a model will need, and what this machine has."""
    from .service import Engine  # noqa: PLC0415

    config = EngineConfig(
        device=arguments.device,
        weights=arguments.weights,
        kv_cache=arguments.kv_cache,
        context_length=arguments.context_length,
        prompt_cache_bytes=int(arguments.prompt_cache_gib * GIB),
    )
    plan = Engine.plan(arguments.model, config)
    if plan.context_length < (arguments.context_length or 0):
        raise InvalidRequestError(
            f"--context-length {arguments.context_length} is more than {plan.model.name} was made for; "
            f"right is {plan.model.context_length} at most"
        )
    sizes = _sizes(plan, arguments.satellites)
    memory = Engine.memory(arguments.device)
    if memory:
        sizes["memory_total_bytes"] = memory.total_bytes
        sizes["memory_available_bytes"] = memory.available_bytes
    choices = {choice: need.nbytes for choice, need in plan.weights_by_choice.items()}
    kv_choices = {
        choice: plan.with_kv_cache(choice).kv_bytes_per_1000_tokens
        for choice in plan.token_bytes_by_choice
    }
    if arguments.json:
        told = {
            **_words(plan),
            **sizes,
            "weights_bytes_by_choice": choices,
            "kv_bytes_per_1000_tokens_by_choice": kv_choices,
        }
        return json.dumps(told, indent=2)
    title = (
        "{model} ({architecture}) on {device} in {dtype}, weights {weights}, KV {kv_cache},"
        " {context_length} tokens of context"
    )
    rows = {
        **{f"weights with --weights {name}": size for name, size in choices.items()},
        **{
            f"1,000 tokens, --kv-cache {name}": size
            for name, size in kv_choices.items()
        },
        **{
            _LABELS[key].format(satellites=arguments.satellites): size
            for key, size in sizes.items()
        },
    }
    lines = (
        f"  {label:30} {size / 1024**2:12,.1f} MiB" for label, size in rows.items()
    )
    verdict = [_verdict(plan, arguments.satellites, memory)] if memory else []
    return "\n".join([title.format(**_words(plan)), *lines, *verdict])


def _verdict(plan: EnginePlan, num_satellites: int, memory: DeviceMemory) -> str:
    """Say whether weights, slots and what keeps the satellites warm find room on the device."""
    needed = plan.device_bytes
    if plan.device == "cpu":
        needed += plan.satellites_bytes(num_satellites)
    needs = f"It needs {needed / 1024**2:,.1f} MiB with {num_satellites} satellites"
    if needed <= memory.available_bytes:
        return f"{needs}: it fits."
    if needed <= memory.total_bytes:
        return (
            f"{needs}: it fits where other programs leave it so much; they do not now."
        )
    return f"{needs}: it does not fit. Fewer bits, a shorter context or a smaller model would."


def _words(plan: EnginePlan) -> dict[str, str | int]:
    return {
        "model": plan.model.name,
        "architecture": plan.model.architecture,
        "device": plan.device,
        "dtype": plan.dtype,
        "weights": plan.weights,
        "kv_cache": plan.kv_cache,
        "context_length": plan.context_length,
    }


def _sizes(plan: EnginePlan, num_satellites: int) -> dict[str, int]:
    return {
        "weights_bytes": plan.weights_bytes,
        "kv_bytes_per_1000_tokens": plan.kv_bytes_per_1000_tokens,
        "slots_bytes": plan.slots_bytes,
        "checkpoint_bytes": plan.state.checkpoint,
        "satellites_bytes": plan.satellites_bytes(num_satellites),
        "prompt_cache_bytes": plan.prompt_cache_bytes,
        "device_bytes": plan.device_bytes,
        "ram_bytes": plan.ram_bytes,
    }


def _chat(arguments: argparse.Namespace) -> None:
    from .service import Engine  # noqa: PLC0415 - importing torch takes seconds, and --help needs none of it

    config = EngineConfig(
        device=arguments.device, weights=arguments.weights, kv_cache=arguments.kv_cache
    )
    engine = Engine.load(arguments.model, config, _print_converted)
    messages = [Message(role="system", content=arguments.system)]
    try:
        while True:
            messages.append(Message(role="user", content=input("> ")))
            request = ChatRequest(messages=messages, thinking=arguments.thinking)
            answer = asyncio.run(_print_answer(engine, request))
            messages.append(Message(role="assistant", content=answer))
    finally:
        engine.close()


def _print_converted(share: float) -> None:
    """Show how far the weights are converted, on one line."""
    print(f"\rconverting the weights: {share:4.0%}", end="", flush=True)
    if share == 1:
        print()


async def _print_answer(engine: Engine, request: ChatRequest) -> str:
    """Print an answer as it comes, and return its words."""
    answer = ""
    async for delta in engine.generate(request):
        match delta:
            case ContentDelta(text):
                answer += text
                print(text, end="", flush=True)
            case ThinkingDelta(text):
                print(f"\033[2m{text}\033[0m", end="", flush=True)
            case ToolCallDelta(call):
                print(f"[{call.name} {dict(call.arguments)}]", end="")
            case InvalidToolCallDelta(error=error):
                print(f"[{error}]", end="")
            case FinishDelta(_, usage):
                print(f"\n({usage.reread_tokens} of {usage.prompt_tokens} tokens read)")
    return answer


if __name__ == "__main__":
    sys.exit(main())
