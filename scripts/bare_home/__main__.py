"""The command line: visits a bare Home Assistant with a release's archive, and says what came of it."""

import argparse
import asyncio
from dataclasses import asdict
import json
from pathlib import Path
import subprocess
import sys
from tempfile import TemporaryDirectory

from demo_house.core import DemoError

from .visit import Outcome, visit


def main() -> int:
    """Read the command line, pay a visit, and print what came of it as JSON."""
    parser = argparse.ArgumentParser(prog="bare_home", description=__doc__)
    parser.add_argument("archive", type=Path, help="what scripts/release made")
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(sys.executable),
        help="run Home Assistant with another Python than this one",
    )
    parser.add_argument(
        "--install",
        action="store_true",
        help="let Home Assistant install what integrations require",
    )
    options = parser.parse_args()
    with TemporaryDirectory(prefix="local-llm-bare-") as folder:
        try:
            outcome = asyncio.run(_visit(options, Path(folder).resolve()))
        except DemoError as error:
            print(f"The bare Home Assistant failed: {error}", file=sys.stderr)
            return 1
    print(json.dumps(asdict(outcome), indent=2))
    return 0 if (outcome.before, outcome.after) == ("off", "on") else 1


async def _visit(options: argparse.Namespace, config: Path) -> Outcome:
    packages = await asyncio.to_thread(_packages, options.python)
    return await visit(
        options.archive.resolve(),
        config,
        python=options.python.absolute(),
        packages=packages,
        install=options.install,
    )


def _packages(python: Path) -> Path:
    """Ask a Python where its packages are installed."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip())


if __name__ == "__main__":
    sys.exit(main())
