"""Texts that the integration says or shows by itself, in the language of the request.

What is said to the model alone, such as why a tool call failed, is English everywhere: as Home Assistant's tools are,
their descriptions and what they answer.
"""

from collections.abc import Mapping
from datetime import date

from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers.translation import async_get_translations

from .const import DOMAIN, TRANSLATED_LANGUAGES
from .weather_tool.day_words import DayWords

_FALLBACK_LANGUAGE = "en"


async def async_spoken(
    hass: HomeAssistant, language: str | None, key: str, **placeholders: str
) -> str:
    """Return the text `key` of the translations' common part; English where the language is unknown."""
    texts = await _async_texts(hass, language, "common")
    return texts[key].format(**placeholders)


async def async_error_text(
    hass: HomeAssistant, language: str | None, error: HomeAssistantError
) -> str:
    """Return what an error says in a language; one that is not ours says the same in all."""
    if error.translation_domain != DOMAIN:
        return str(error)
    texts = await _async_texts(hass, language, "exceptions")
    text = texts[f"{error.translation_key}.message"]
    return text.format(**error.translation_placeholders or {})


async def async_task_name(hass: HomeAssistant) -> str:
    """Return what a new AI task is called."""
    return await async_spoken(hass, hass.config.language, "ai_task_name")


async def async_date_line(hass: HomeAssistant, language: str | None, day: date) -> str:
    """Return the line that tells the model the date, for example "Today is Sunday, 29 November 2026."."""
    texts = await _async_texts(hass, language, "common")
    return texts["date_line"].format(
        weekday=texts[f"weekday_{day.isoweekday()}"],
        # The first of a month is a word of its own in some languages.
        day=texts["first_day"] if day.day == 1 else str(day.day),
        month=texts[f"month_{day.month}"],
        year=str(day.year),
    )


async def async_day_words(hass: HomeAssistant, language: str | None) -> DayWords:
    """Return the words for days in a language and in English, which models write all the same."""
    languages = {_FALLBACK_LANGUAGE, known_language(language)}
    return DayWords.of(
        [await _async_texts(hass, known, "common") for known in sorted(languages)]
    )


def known_language(language: str | None) -> str:
    """Return the base of a language tag such as "de-CH" where we have its translations, else English."""
    base = (language or "").replace("_", "-").partition("-")[0].lower()
    return base if base in TRANSLATED_LANGUAGES else _FALLBACK_LANGUAGE


async def _async_texts(
    hass: HomeAssistant, language: str | None, category: str
) -> Mapping[str, str]:
    """Return our texts of a category by their keys below it."""
    texts = await async_get_translations(
        hass, known_language(language), category, [DOMAIN]
    )
    prefix = f"component.{DOMAIN}.{category}."
    return {key.removeprefix(prefix): text for key, text in texts.items()}
