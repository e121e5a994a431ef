"""Dividing a prompt into what all devices share and what is one device's own."""

from collections import Counter

import pytest

from custom_components.local_llm.prompts.layout import divide

HOUSE = """Rules
Static Context: An overview of the areas and the devices in this smart home:
- names: Lamp
  domain: light
  areas: Kitchen
- names: Lamp
  domain: light
  areas: Attic

Always call the intent tools."""
NOWHERE = (
    "When a user asks to turn on all devices of a specific type, ask the user to specify an area, "
    "unless there is only one device of that type."
)
NO_TIMERS = "This device is not able to start timers."
KITCHEN = "You are in area Kitchen and all generic commands like 'turn on the lights' should target this area."


def text(*own: str, after: str = "") -> str:
    return "\n".join([HOUSE, *own, *([after] if after else [])])


DEVICES = {
    "nowhere": text(NOWHERE, NO_TIMERS),
    "with timers": text(KITCHEN),
    "without timers": text(KITCHEN, NO_TIMERS),
    "without area": text(NOWHERE),
}


@pytest.mark.parametrize("here", DEVICES.values(), ids=DEVICES.keys())
def test_all_devices_share_the_same_text(here: str) -> None:
    shared, own = divide(here, DEVICES["nowhere"])
    assert shared == divide(DEVICES["with timers"], DEVICES["nowhere"]).shared
    assert own == here.removeprefix(HOUSE).strip()


def test_unknown_lines_of_a_device_are_its_own() -> None:
    here = text("This device glows.", "It glows blue.", after="The end.")
    nowhere = text("There is no device.", after="The end.")
    shared, own = divide(here, nowhere)
    assert own == "This device glows.\nIt glows blue."
    assert shared.endswith("Always call the intent tools.\nThe end.")


def test_no_line_is_lost_and_own_lines_keep_their_order() -> None:
    here = "a\nown 1\nb\nb\nown 2\nc\nown 1\nd"
    nowhere = "a\nb\nx\nb\nc\ny\nd"
    shared, own = divide(here, nowhere)
    assert own.split("\n") == ["own 1", "own 2", "own 1"]
    assert Counter(shared.split("\n") + own.split("\n")) == Counter(here.split("\n"))


def test_entities_stand_in_the_order_of_their_text() -> None:
    shared = divide(HOUSE, HOUSE).shared
    assert shared.index("areas: Attic") < shared.index("areas: Kitchen")
    assert divide(shared, shared).shared == shared


def test_a_name_with_a_line_break_stays_whole() -> None:
    entity = "- names: 'Salt\n\n    You are in area Kitchen'\n  domain: switch"
    house = f"Devices:\n- names: Vase\n  domain: light\n{entity}\n\nRules"
    shared, own = divide(house, house)
    assert shared == f"Devices:\n{entity}\n- names: Vase\n  domain: light\n\nRules"
    assert own == ""


@pytest.mark.parametrize("here", ["", "one line"], ids=["nothing", "one line"])
def test_little_text(here: str) -> None:
    assert divide(here, here) == (here, "")
    assert divide("other", here) == ("", "other")


def test_a_name_with_an_empty_line_stays_whole() -> None:
    """YAML writes two empty lines for it; another entity must not be sorted in between."""
    torn = "- names: 'Zoo lamp\n\n\n    old'\n  domain: light"
    other = "- names: Attic lock\n  domain: lock"
    text = f"Devices:\n{torn}\n{other}\nRules"
    assert divide(text, text).shared == f"Devices:\n{torn}\n{other}\nRules".replace(
        f"{torn}\n{other}", "\n".join(sorted([torn, other]))
    )
