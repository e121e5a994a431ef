"""The command line: the only reader of argv."""

import argparse
import asyncio
from pathlib import Path
import sys
from typing import TYPE_CHECKING

from .builtin import NANO_PATH
from .cache.report import read_records, report
from .config import EngineConfig
from .errors import EngineError
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
    from .service import Engine


def main() -> int:
    """Run the command named in argv; 0 when it worked."""
    parser = argparse.ArgumentParser(
        prog="python -m local_llm_engine", description="Run a local language model."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    chat = commands.add_parser("chat", help="talk to a model, a line at a time")
    chat.add_argument(
        "model",
        nargs="?",
        type=Path,
        default=NANO_PATH,
        help="a model folder (the built-in one if left out)",
    )
    chat.add_argument(
        "--system",
        default="You are a helpful voice assistant.",
        help="the system message",
    )
    chat.add_argument(
        "--thinking", action="store_true", help="let the model think before it answers"
    )
    chat.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    report_command = commands.add_parser("report", help="sum up a file of call records")
    report_command.add_argument("file", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.command == "report":
            print(report(read_records(arguments.file)))
        else:
            _chat(arguments)
    except (EngineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt, EOFError:
        print()
    return 0


def _chat(arguments: argparse.Namespace) -> None:
    from .service import Engine  # noqa: PLC0415 - importing torch takes seconds, and --help needs none of it

    engine = Engine.load(arguments.model, EngineConfig(device=arguments.device))
    messages = [Message(role="system", content=arguments.system)]
    try:
        while True:
            messages.append(Message(role="user", content=input("> ")))
            request = ChatRequest(messages=messages, thinking=arguments.thinking)
            answer = asyncio.run(_print_answer(engine, request))
            messages.append(Message(role="assistant", content=answer))
    finally:
        engine.close()


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
