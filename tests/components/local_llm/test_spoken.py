"""Texts in the language of the request."""

from datetime import date, timedelta

import pytest

from custom_components.local_llm.const import TRANSLATED_LANGUAGES
from custom_components.local_llm.spoken import (
    async_date_line,
    async_error_text,
    known_language,
)
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "Today is Tuesday, 1 December 2026."),
        ("fr", "Nous sommes le mardi 1er décembre 2026."),
        ("it", "Oggi è martedì 1º dicembre 2026."),
        ("de", "Heute ist Dienstag, der 1. Dezember 2026."),
        ("es", "Hoy es martes, 1 de diciembre de 2026."),
        ("ja", "今日は2026年12月1日(火曜日)です。"),
    ],
)
async def test_date_line_on_the_first_of_a_month(
    hass: HomeAssistant, language: str, line: str
) -> None:
    assert await async_date_line(hass, language, date(2026, 12, 1)) == line


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("fr", "Nous sommes le samedi 21 août 2027."),
        ("it", "Oggi è sabato 21 agosto 2027."),
        ("de", "Heute ist Samstag, der 21. August 2027."),
        ("es", "Hoy es sábado, 21 de agosto de 2027."),
        ("ja", "今日は2027年8月21日(土曜日)です。"),
    ],
)
async def test_date_line_on_another_day(
    hass: HomeAssistant, language: str, line: str
) -> None:
    assert await async_date_line(hass, language, date(2027, 8, 21)) == line


@pytest.mark.parametrize("language", sorted(TRANSLATED_LANGUAGES))
async def test_every_day_of_a_year_has_a_line_of_its_own(
    hass: HomeAssistant, language: str
) -> None:
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(365)]
    lines = {await async_date_line(hass, language, day) for day in days}
    assert len(lines) == 365


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("de", "de"),
        ("de-CH", "de"),
        ("DE_de", "de"),
        ("es-419", "es"),
        ("fr-CA", "fr"),
        ("ja-JP", "ja"),
        ("pt", "en"),
        ("pt-BR", "en"),
        ("zh-Hans", "en"),
        ("english", "en"),
        ("xx", "en"),
        ("", "en"),
        (None, "en"),
    ],
)
def test_a_language_is_known_by_the_base_of_its_tag(
    tag: str | None, language: str
) -> None:
    assert known_language(tag) == language


async def test_an_error_that_is_not_ours_keeps_its_words(hass: HomeAssistant) -> None:
    error = HomeAssistantError("The boiler is offline")
    assert await async_error_text(hass, "de", error) == "The boiler is offline"
