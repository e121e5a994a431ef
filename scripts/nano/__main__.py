"""Starts the making of nano: nothing but a quiet end where it is interrupted while it is still being loaded."""

import signal


def start() -> int:
    """Load what takes seconds, and run it; until then there is nothing to clean up."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from nano.command_line import main  # noqa: PLC0415

    return main()


if __name__ == "__main__":
    raise SystemExit(start())
