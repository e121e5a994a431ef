"""Starts Home Assistant where no package of ours is installed, and prints where our modules came from in the end.

Run with Python's options -I and -S, so that neither the environment nor a .pth file adds to the path: an engine
installed for development is such a file.
"""

import json
import sys

OURS = ("local_llm_engine", "custom_components.local_llm")


def main() -> int:
    """Take the folder of the installed packages, and what the command hass takes."""
    packages, *arguments = sys.argv[1:]
    sys.path.append(packages)
    sys.argv[1:] = arguments
    from homeassistant.__main__ import main as hass  # noqa: PLC0415

    code = hass()
    files = {name: sys.modules[name].__file__ for name in OURS if name in sys.modules}
    print(json.dumps(files))
    return code


if __name__ == "__main__":
    sys.exit(main())
