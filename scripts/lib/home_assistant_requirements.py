"""Prints what the parts of Home Assistant that this project meets need installed.

Home Assistant installs the requirements of a component when it is first used; tests and the demo need
them beforehand, in the versions that the installed Home Assistant names.
"""

import json
from pathlib import Path

import homeassistant.components

DOMAINS = (
    # a voice assistant
    "ai_task",
    "assist_pipeline",
    "assist_satellite",
    "conversation",
    "intent",
    "llm",
    "stt",
    "timer",
    "tts",
    "wake_word",
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
    "camera",
    "hardware",
    "isal",
    "network",
    "person",
    "schedule",
    "script",
    "stream",
    "system_health",
    "tag",
    "zeroconf",
    "zone",
    # a home to try it in
    "demo",
    "energy",
    "media_source",
    "mobile_app",
    "sun",
    "weather",
)


def requirements_of(domains: tuple[str, ...]) -> set[str]:
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
    print("\n".join(sorted(requirements_of(DOMAINS))))
