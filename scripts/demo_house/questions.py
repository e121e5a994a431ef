"""The six questions of the demo, and how their answers are judged.

Knows the demo house by its entity ids; knows nothing of models and tokens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
import re
from typing import Any

KITCHEN = "Kitchen Voice"
BEDROOM = "Bedroom Voice"
_WEATHER = "weather.home_weather"
_TIMER = "sensor.kitchen_voice_timer"
_TIMER_MINUTES = 5

type States = Mapping[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a question: the answer, and the house's states before and after it."""

    answer: str
    before: States
    after: States
    now: datetime

    @property
    def changed(self) -> dict[str, str]:
        """The entities whose state is another now, with the new one."""
        return {
            name: state["state"]
            for name, state in self.after.items()
            if self.before[name]["state"] != state["state"]
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, the satellite that hears it (None: no device) and its judge.

    The judge names what is wrong, or returns None.
    """

    text: str
    satellite: str | None
    judge: Callable[[Outcome], str | None]


def turned(state: str, *names: str) -> Callable[[Outcome], str | None]:
    """Want exactly these entities to have turned "on" or "off", and no word of the opposite."""

    def judge(outcome: Outcome) -> str | None:
        wanted = dict.fromkeys(names, state)
        if outcome.changed != wanted:
            return f"changed {outcome.changed or 'nothing'} in place of {wanted}"
        opposite = {"on": "off", "off": "on"}[state]
        return "tells the opposite" if opposite in _words(outcome.answer) else None

    return judge


def tells_time(outcome: Outcome) -> str | None:
    """Want the time, give or take a minute, on a clock of 12 or of 24 hours."""
    wanted = {
        (outcome.now + timedelta(minutes=minutes)).strftime(clock).lstrip("0")
        for minutes in (-1, 0, 1)
        for clock in ("%H:%M", "%I:%M")
    }
    told = {time.lstrip("0") for time in re.findall(r"\d{1,2}:\d{2}", outcome.answer)}
    return _quiet(outcome) or (
        None if told & wanted else f"does not tell the time, {outcome.now:%H:%M}"
    )


def tells_weather(outcome: Outcome) -> str | None:
    """Want the weather outside and the temperature."""
    weather = outcome.after[_WEATHER]
    wanted = {weather["state"], f"{weather['attributes']['temperature']:g}"}
    missing = wanted - _words(outcome.answer)
    return _quiet(outcome) or (f"does not tell {sorted(missing)}" if missing else None)


def sets_timer(outcome: Outcome) -> str | None:
    """Want a timer on the satellite and nothing else, and to be told of it."""
    changed = outcome.changed
    if list(changed) != [_TIMER]:
        return f"changed {changed or 'nothing'} in place of the timer alone"
    left = datetime.fromisoformat(changed[_TIMER]) - outcome.now
    if abs(left - timedelta(minutes=_TIMER_MINUTES)) > timedelta(seconds=15):
        return f"set a timer that ends in {left}"
    missing = {"timer", str(_TIMER_MINUTES)} - _words(outcome.answer)
    return f"does not tell {sorted(missing)}" if missing else None


def _words(answer: str) -> set[str]:
    """Return the words and the numbers of an answer."""
    return set(re.findall(r"[a-z]+|\d+(?:\.\d+)?", answer.lower()))


def _quiet(outcome: Outcome) -> str | None:
    return f"changed {outcome.changed}" if outcome.changed else None


def wrong_words(answer: str) -> str | None:
    """Name what no answer may be, whatever was asked."""
    if not answer.strip():
        return "said nothing"
    if re.search(r"[<>{}]|\|", answer):
        return "spoke markup"
    return None


# The built-in model was trained on sentences without punctuation at their end.
QUESTIONS = (
    Question(
        text="turn on the kitchen ceiling light",
        satellite=KITCHEN,
        judge=turned("on", "light.kitchen_ceiling_light"),
    ),
    Question(
        text="turn on the lights",
        satellite=BEDROOM,
        judge=turned("on", "light.bedroom_ceiling_light", "light.bedroom_reading_lamp"),
    ),
    Question(
        text=f"set a timer for {_TIMER_MINUTES} minutes",
        satellite=KITCHEN,
        judge=sets_timer,
    ),
    Question(text="what time is it", satellite=BEDROOM, judge=tells_time),
    Question(text="what is the weather like", satellite=None, judge=tells_weather),
    Question(
        text="turn off the office desk lamp",
        satellite=None,
        judge=turned("off", "light.office_desk_lamp"),
    ),
)
