"""Prints what the parts of Home Assistant that this project meets need installed.

Home Assistant installs the requirements of a component when it is first used; tests and the demo need
them beforehand, in the versions that the installed Home Assistant names.
"""

from collections.abc import Iterable
import json
from pathlib import Path

import homeassistant.components
from homeassistant.const import Platform

# Each kind of entity (Home Assistant starts them all by itself: conversation, tts, weather, ...), and besides:
DOMAINS = (
    # a voice assistant
    "assist_pipeline",
    "intent",
    "llm",
    # what it shows and remembers
    "frontend",
    "history",
    "http",
    "logbook",
    "recorder",
    "websocket_api",
    # what Home Assistant starts by itself
    "analytics",
    "automation",
    "backup",
    "hardware",
    "isal",
    "network",
    "person",
    "schedule",
    "script",
    "stream",
    "system_health",
    "tag",
    "timer",
    "zeroconf",
    "zone",
    # a home to try it in
    "demo",
    "energy",
    "media_source",
    "mobile_app",
    "sun",
)


def requirements_of(domains: Iterable[str]) -> set[str]:
    """Collect the requirements of the components and of all that they depend on."""
    components = Path(homeassistant.components.__path__[0])
    requirements: set[str] = set()
    seen: set[str] = set()
    waiting = list(domains)
    while waiting:
        domain = waiting.pop()
        if domain not in seen:
            seen.add(domain)
            manifest = json.loads((components / domain / "manifest.json").read_text())
            requirements.update(manifest.get("requirements", ()))
            waiting.extend(manifest.get("dependencies", ()))
    return requirements


if __name__ == "__main__":
    print("\n".join(sorted(requirements_of((*Platform, *DOMAINS)))))
