"""Made-up facts as Home Assistant's tools tell them: the time, the weather, what is on a list, a timer that runs.

Knows the form of results, nothing of what is said then.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

_CONDITIONS = (
    "sunny",
    "cloudy",
    "rainy",
    "partlycloudy",
    "snowy",
    "fog",
    "windy",
    "clear-night",
    "lightning",
)
_ZONES = ("UTC", "CET", "CEST", "EST", "PST", "JST", "GMT", "BST")
_WINDS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")
_ID_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_HEXADECIMAL = "0123456789abcdef"


class Facts:
    """Draws facts at one moment."""

    def __init__(self, random: Random, now: datetime) -> None:
        """Take the moment."""
        self._random = random
        self._now = now

    def clock(self) -> dict[str, Any]:
        """Tell date and time."""
        return {
            "date": f"{self._now:%Y-%m-%d}",
            "time": f"{self._now:%H:%M:%S}",
            "timezone": self._random.choice(_ZONES),
            "weekday": f"{self._now:%A}",
        }

    def weather(self) -> dict[str, Any]:
        """Tell the weather, mostly with a forecast."""
        random = self._random
        temperature = random.randint(-12, 36)
        days = self._days(temperature, random.choice((3, 5, 7)))
        told: dict[str, Any] = {"forecast": days} if random.random() < 0.8 else {}
        told["temperature_unit"] = "°C"
        if random.random() < 0.8:
            told["wind"] = f"{random.randint(0, 60)} km/h from {random.choice(_WINDS)}"
        if random.random() < 0.8:
            told["humidity"] = f"{random.randint(20, 100)} %"
        told |= {"condition": random.choice(_CONDITIONS), "temperature": temperature}
        if random.random() < 0.5:
            told["apparent_temperature"] = temperature + random.randint(-4, 2)
        return told | {"time": f"{self._now:%H:%M}"}

    def forecast(self, day: str) -> dict[str, Any]:
        """Tell the weather of a weekday, or of tomorrow."""
        tomorrow = self._now + timedelta(days=1)
        name = f"{tomorrow:%A}" if day == "tomorrow" else day
        drawn = self._days(self._random.randint(-12, 36), 1)[0]
        chosen = {"day": name, "date": f"{tomorrow:%Y-%m-%d}"} | drawn | {"day": name}
        return {
            "forecast": [chosen],
            "temperature_unit": "°C",
            "time": f"{self._now:%H:%M}",
        }

    def items(self, known: Sequence[str]) -> dict[str, Any]:
        """Tell what is on a list: some of these."""
        items = self._random.sample(list(known), self._random.randint(0, 4))
        return {
            "items": [
                {"summary": item.capitalize(), "status": "needs_action"}
                for item in items
            ]
        }

    def timer(self, name: str, language: str) -> dict[str, Any]:
        """Tell of a timer that runs."""
        random = self._random
        hours = random.choice((0, 0, 0, 1))
        minutes, seconds = random.randint(0, 59), random.randint(0, 59)
        return {
            "id": "".join(random.choices(_ID_LETTERS, k=26)),
            "name": name,
            "device_id": "".join(random.choices(_HEXADECIMAL, k=32)),
            "language": language,
            "start_hours": hours,
            "start_minutes": minutes,
            "start_seconds": 0,
            "is_active": True,
            "hours_left": hours,
            "minutes_left": minutes,
            "seconds_left": seconds,
            "rounded_hours_left": hours,
            "rounded_minutes_left": minutes,
            "rounded_seconds_left": seconds,
            "total_seconds_left": hours * 3600 + minutes * 60 + seconds,
        }

    def _days(self, temperature: int, count: int) -> list[dict[str, Any]]:
        days = []
        for offset in range(count):
            high = temperature + self._random.randint(-4, 4)
            day = {
                "day": f"{self._now + timedelta(days=offset):%A}",
                "condition": self._random.choice(_CONDITIONS),
                "high": f"{high} °C",
                "low": f"{high - self._random.randint(2, 9)} °C",
            }
            if self._random.random() < 0.7:
                day["rain"] = f"{self._random.randrange(0, 101, 5)} %"
            days.append(day)
        return days
