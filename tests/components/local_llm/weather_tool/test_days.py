"""Words for days mean the days that people mean."""

from datetime import date

import pytest

from custom_components.local_llm.weather_tool.day_words import DayWords
from custom_components.local_llm.weather_tool.days import meant_days

from ..integration_files import load

# A Monday
TODAY = date(2026, 11, 30)


def words(*languages: str) -> DayWords:
    return DayWords.of(
        load(f"translations/{language}.json")["common"] for language in languages
    )


@pytest.fixture(autouse=True)
def _use_custom_integrations() -> None:
    """Do without Home Assistant: these are plain functions."""


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("today", "2026-11-30"),
        ("Tomorrow", "2026-12-01"),
        ("tomorrow morning", "2026-12-01"),
        ("this morning", "2026-11-30"),
        ("day_after_tomorrow", "2026-12-02"),
        ("dayAfterTomorrow", "2026-12-02"),
        ("the day after tomorrow", "2026-12-02"),
        ("Monday", "2026-11-30"),
        ("next Monday", "2026-12-07"),
        ("on Wednesday", "2026-12-02"),
        ("next Wednesday", "2026-12-02"),
        ("Friday next week", "2026-12-11"),
        ("Monday next week", "2026-12-07"),
        ("fri", "2026-12-04"),
        ("Mondays", "2026-11-30"),
        ("2026-12-24", "2026-12-24"),
        ("2026-12-24T00:00:00", "2026-12-24"),
        ("24 December", "2026-12-24"),
        ("December 24th, 2027", "2027-12-24"),
        ("3 January", "2027-01-03"),
        ("20 November", "2026-11-20"),
        ("Friday, 4 December", "2026-12-04"),
    ],
)
def test_one_day(text: str, day: str) -> None:
    meant = meant_days(text, TODAY, words("en"))
    assert meant is not None
    assert [str(end) for end in meant] == [day, day]


@pytest.mark.parametrize(
    ("today", "first", "last"),
    [
        ("2026-11-30", "2026-12-05", "2026-12-06"),
        ("2026-12-05", "2026-12-05", "2026-12-06"),
        ("2026-12-06", "2026-12-06", "2026-12-06"),
    ],
)
def test_a_weekend(today: str, first: str, last: str) -> None:
    meant = meant_days("at the weekend", date.fromisoformat(today), words("en"))
    assert meant is not None
    assert [str(end) for end in meant] == [first, last]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "t",
        "thinking",
        "maybe 12",
        "12",
        "2026-13-40",
        "31 November",
        "yesterday",
        "xyz",
        "in May",
    ],
)
def test_no_day(text: str) -> None:
    assert meant_days(text, TODAY, words("en")) is None


OTHER_LANGUAGES = [
    ("de", "heute", "2026-11-30"),
    ("de", "heute Morgen", "2026-11-30"),
    ("de", "morgen", "2026-12-01"),
    ("de", "Morgen früh", "2026-12-01"),
    ("de", "Übermorgen", "2026-12-02"),
    ("de", "Mittwoch", "2026-12-02"),
    ("de", "am Freitagmorgen", "2026-12-04"),
    ("de", "Freitag Morgen", "2026-12-04"),
    ("de", "nächsten Montag", "2026-12-07"),
    ("de", "Freitag nächster Woche", "2026-12-11"),
    ("de", "Do", "2026-12-03"),
    ("de", "24. Dezember", "2026-12-24"),
    ("de", "1. März 2027", "2027-03-01"),
    ("de", "tomorrow", "2026-12-01"),
    ("fr", "aujourd'hui", "2026-11-30"),
    ("fr", "ce soir", "2026-11-30"),
    ("fr", "demain", "2026-12-01"),
    ("fr", "demain à 15 h", "2026-12-01"),
    ("fr", "après-demain", "2026-12-02"),
    ("fr", "apres demain", "2026-12-02"),
    ("fr", "mercredi", "2026-12-02"),
    ("fr", "lundi prochain", "2026-12-07"),
    ("fr", "vendredi de la semaine prochaine", "2026-12-11"),
    ("fr", "mar", "2026-12-01"),
    ("fr", "1er janvier", "2027-01-01"),
    ("fr", "le 15 mai 2027", "2027-05-15"),
    ("it", "oggi", "2026-11-30"),
    ("it", "stasera", "2026-11-30"),
    ("it", "domani mattina", "2026-12-01"),
    ("it", "dopodomani", "2026-12-02"),
    ("it", "pioggia venerdì", "2026-12-04"),
    ("it", "mercoledi", "2026-12-02"),
    ("it", "lunedì prossimo", "2026-12-07"),
    ("it", "1º gennaio", "2027-01-01"),
    ("it", "24 dicembre", "2026-12-24"),
    ("es", "hoy", "2026-11-30"),
    ("es", "esta mañana", "2026-11-30"),
    ("es", "mañana", "2026-12-01"),
    ("es", "mañana por la mañana", "2026-12-01"),
    ("es", "pasado mañana", "2026-12-02"),
    ("es", "el viernes por la mañana", "2026-12-04"),
    ("es", "el lunes que viene", "2026-12-07"),
    ("es", "24 de diciembre", "2026-12-24"),
    ("es", "1 de mayo de 2027", "2027-05-01"),
    ("ja", "今日", "2026-11-30"),
    ("ja", "明日の天気", "2026-12-01"),
    ("ja", "明後日", "2026-12-02"),
    ("ja", "あさって", "2026-12-02"),
    ("ja", "水曜日", "2026-12-02"),
    ("ja", "土曜の朝", "2026-12-05"),
    ("ja", "次の月曜日", "2026-12-07"),
    ("ja", "来週の金曜日", "2026-12-11"),
    ("ja", "12月24日", "2026-12-24"),
    ("ja", "２０２７年１月１日", "2027-01-01"),
    ("ja", "11月30日(月曜日)", "2026-11-30"),
]


@pytest.mark.parametrize(("language", "text", "day"), OTHER_LANGUAGES)
def test_one_day_in_other_languages(language: str, text: str, day: str) -> None:
    meant = meant_days(text, TODAY, words("en", language))
    assert meant is not None
    assert [str(end) for end in meant] == [day, day]


@pytest.mark.parametrize(
    ("language", "text", "saturday"),
    [
        ("en", "next week at the weekend", "2026-12-12"),
        ("de", "am Wochenende", "2026-12-05"),
        ("fr", "ce week-end", "2026-12-05"),
        ("fr", "le weekend", "2026-12-05"),
        ("it", "nel fine settimana", "2026-12-05"),
        ("es", "este fin de semana", "2026-12-05"),
        ("ja", "今週末", "2026-12-05"),
        ("ja", "来週の土日", "2026-12-12"),
    ],
)
def test_a_weekend_in_other_languages(language: str, text: str, saturday: str) -> None:
    meant = meant_days(text, TODAY, words("en", language))
    assert meant is not None
    assert str(meant.first) == saturday
    assert (meant.last - meant.first).days == 1


def test_a_weekend_of_next_week_is_not_this_sunday() -> None:
    meant = meant_days("weekend next week", date(2026, 12, 6), words("en"))
    assert meant is not None
    assert str(meant.first) == "2026-12-12"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "morgens"),
        ("fr", "maintenance 15"),
        ("it", "pioggia"),
        ("es", "ayer"),
        ("ja", "昨日"),
    ],
)
def test_no_day_in_other_languages(language: str, text: str) -> None:
    assert meant_days(text, TODAY, words("en", language)) is None
