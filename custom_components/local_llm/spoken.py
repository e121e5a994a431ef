"""Texts that the integration says or shows to the model itself, in the language of the request."""

from datetime import date

from homeassistant.core import HomeAssistant
from homeassistant.helpers.translation import async_get_translations

from .const import DOMAIN, TRANSLATED_LANGUAGES
from .tool_calls.spelling import folded
from .weather_tool.days import DayWords

_FALLBACK_LANGUAGE = "en"


async def async_spoken(
    hass: HomeAssistant, language: str | None, key: str, **placeholders: str
) -> str:
    """Return the text `key` of the translations' common part; English where the language is unknown."""
    texts = await async_get_translations(
        hass, _known_language(language), "common", [DOMAIN]
    )
    return texts[f"component.{DOMAIN}.common.{key}"].format(**placeholders)


async def async_date_line(hass: HomeAssistant, language: str | None, day: date) -> str:
    """Return the line that tells the model the date, for example "Today is Sunday, 29 November 2026."."""
    return await async_spoken(
        hass,
        language,
        "date_line",
        weekday=await async_spoken(hass, language, f"weekday_{day.isoweekday()}"),
        day=str(day.day),
        month=await async_spoken(hass, language, f"month_{day.month}"),
        year=str(day.year),
    )


async def async_day_words(hass: HomeAssistant, language: str | None) -> DayWords:
    """Return the words for days in a language and in English, which models write all the same."""
    words: dict[str, str] = {}
    for known in {_FALLBACK_LANGUAGE, _known_language(language)}:
        prefix = f"component.{DOMAIN}.common."
        texts = await async_get_translations(hass, known, "common", [DOMAIN])
        words |= {folded(text): key.removeprefix(prefix) for key, text in texts.items()}

    def numbered(kind: str) -> dict[str, int]:
        return {
            word: int(key.removeprefix(kind))
            for word, key in words.items()
            if key.startswith(kind)
        }

    return DayWords(
        days_ahead=numbered("day_"),
        weekdays=numbered("weekday_"),
        months=numbered("month_"),
        weekend=frozenset(word for word, key in words.items() if key == "weekend"),
    )


def _known_language(language: str | None) -> str:
    """Return the base of a language tag such as "en-GB" where we have its translations."""
    base = (language or "").partition("-")[0].lower()
    return base if base in TRANSLATED_LANGUAGES else _FALLBACK_LANGUAGE
