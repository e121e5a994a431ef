"""Texts in the language of the request."""

from datetime import date
from pathlib import Path

import pytest

from custom_components import local_llm
from custom_components.local_llm.const import TRANSLATED_LANGUAGES
from custom_components.local_llm.spoken import async_date_line
from homeassistant.core import HomeAssistant


@pytest.mark.parametrize("language", ["en", "en-GB", "xx", None])
async def test_date_line(hass: HomeAssistant, language: str | None) -> None:
    line = await async_date_line(hass, language, date(2026, 11, 29))
    assert line == "Today is Sunday, 29 November 2026."


async def test_every_day_and_month_has_a_name(hass: HomeAssistant) -> None:
    lines = {
        await async_date_line(hass, "en", date(2026, month, day))
        for month in range(1, 13)
        for day in range(1, 8)
    }
    assert len(lines) == 84


def test_known_languages_are_those_with_a_file() -> None:
    files = (Path(local_llm.__file__).parent / "translations").glob("*.json")
    assert {file.stem for file in files} == TRANSLATED_LANGUAGES
