"""Whoever asks in a language is answered in it, as far as the integration speaks by itself."""

import json

import pytest

from custom_components.local_llm.const import DOMAIN, MAX_TOOL_ROUNDS
from homeassistant.config_entries import SOURCE_USER
from homeassistant.core import HomeAssistant
from homeassistant.helpers import intent
from local_llm_engine.errors import (
    ContextLengthError,
    EngineClosedError,
    EngineError,
    InvalidRequestError,
    OutOfMemoryError,
)
from local_llm_engine.types import FinishReason

from .conftest import AddEntry, AddScripted, ask, speech
from .scripted import calls, says

APOLOGIES = {
    "de": "Entschuldigung, ich habe es mehrmals versucht und konnte es nicht erledigen.",
    "en": "Sorry, I tried several times and could not get this done.",
    "es": "Lo siento, lo he intentado varias veces y no lo he conseguido.",
    "fr": "Désolé, j'ai essayé plusieurs fois et je n'y suis pas arrivé.",
    "it": "Mi dispiace, ho provato più volte e non ci sono riuscito.",
    "ja": "すみません、何度か試しましたが、できませんでした。",
}


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "Today is Monday, 30 November 2026."),
        ("fr", "Nous sommes le lundi 30 novembre 2026."),
        ("it", "Oggi è lunedì 30 novembre 2026."),
        ("de", "Heute ist Montag, der 30. November 2026."),
        ("es", "Hoy es lunes, 30 de noviembre de 2026."),
        ("ja", "今日は2026年11月30日(月曜日)です。"),
        ("de-CH", "Heute ist Montag, der 30. November 2026."),
        ("ja-JP", "今日は2026年11月30日(月曜日)です。"),
        ("pt", "Today is Monday, 30 November 2026."),
        ("zh-Hans", "Today is Monday, 30 November 2026."),
    ],
)
async def test_the_model_is_told_the_date_in_the_language_of_the_question(
    hass: HomeAssistant, scripted: AddScripted, language: str, line: str
) -> None:
    engine = await scripted(says("Yes."))
    await ask(hass, "hello", "Kitchen Voice", language=language)
    (date,) = [
        part.text
        for part in engine.requests[0].messages[0].parts
        if part.segment == "date"
    ]
    assert date.strip() == line


@pytest.mark.parametrize("language", APOLOGIES)
async def test_apologizes_after_too_many_rounds(
    hass: HomeAssistant, scripted: AddScripted, language: str
) -> None:
    engine = await scripted(calls("llm__GetDateTime"))
    result = await ask(hass, "what time is it", language=language)
    assert speech(result) == APOLOGIES[language]
    assert len(engine.requests) == MAX_TOOL_ROUNDS


async def failure(hass: HomeAssistant, language: str) -> str:
    """Ask what ends in an error, and return the words it is told in."""
    result = await ask(hass, "hello", language=language)
    assert result.response.error_code is intent.IntentResponseErrorCode.UNKNOWN
    return speech(result)


@pytest.mark.parametrize(
    ("language", "error", "words"),
    [
        (
            "de",
            ContextLengthError(9000, 8192),
            "Der Prompt ist zu lang für das Modell: Er hat 9000 Token, und die Kontextlänge von 8192 lässt keinen Platz für eine Antwort.",
        ),
        (
            "fr",
            EngineClosedError("closed"),
            "Le moteur a été arrêté avant que la réponse soit complète.",
        ),
        (
            "it",
            OutOfMemoryError("cuda", 12),
            "La memoria del dispositivo cuda non aveva abbastanza spazio per questa risposta.",
        ),
        (
            "es",
            InvalidRequestError("top_p"),
            "El motor no puede atender esta petición: top_p.",
        ),
        (
            "ja",
            OutOfMemoryError("cpu", None),
            "デバイスcpuのメモリに、この回答のための空きがありませんでした。",
        ),
        (
            "pt-BR",
            EngineClosedError("closed"),
            "The engine was stopped before the answer was complete.",
        ),
    ],
)
async def test_a_failure_of_the_engine_is_told_in_the_language_of_the_question(
    hass: HomeAssistant,
    scripted: AddScripted,
    language: str,
    error: EngineError,
    words: str,
) -> None:
    await scripted([error])
    assert (await failure(hass, language)).startswith(words)


async def test_silence_is_told_in_the_language_of_the_question(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted(says("", FinishReason.LENGTH))
    assert "ohne etwas zu sagen" in await failure(hass, "de")


async def test_a_broken_template_is_told_in_the_language_of_the_question(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted(agent={"prompt": "{{ nothing.at.all }}"})
    words = "Lo siento, he tenido un problema con la plantilla de mis instrucciones."
    assert await failure(hass, "es") == words


async def test_a_lost_api_is_told_in_the_language_of_the_question(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted(agent={"llm_hass_api": ["gone"]})
    words = "Il modello non può usare gone di Home Assistant"
    assert (await failure(hass, "it")).startswith(words)


@pytest.mark.parametrize(
    ("language", "day", "date"),
    [
        ("de", "übermorgen", "2026-12-02"),
        ("de-CH", "Mittwoch", "2026-12-02"),
        ("fr", "après-demain", "2026-12-02"),
        ("fr", "mardi", "2026-12-01"),
        ("it", "dopodomani", "2026-12-02"),
        ("it", "mercoledì", "2026-12-02"),
        ("es", "pasado mañana", "2026-12-02"),
        ("es", "mañana por la mañana", "2026-12-01"),
        ("ja", "明後日", "2026-12-02"),
        ("ja-JP", "火曜日", "2026-12-01"),
        ("ja", "tomorrow", "2026-12-01"),
    ],
)
async def test_the_weather_knows_the_days_of_the_language(
    hass: HomeAssistant, scripted: AddScripted, language: str, day: str, date: str
) -> None:
    engine = await scripted(calls("local_llm__GetWeather", day=day), says("Sunny."))
    await ask(hass, "weather", language=language)
    told = json.loads(engine.requests[1].messages[-1].text)
    assert [entry["date"] for entry in told["forecast"]] == [date]


async def test_a_day_of_another_language_is_no_day(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(calls("local_llm__GetWeather", day="明日"), says("?"))
    await ask(hass, "weather", language="de")
    assert "UnclearDay" in engine.requests[1].messages[-1].text


async def test_what_is_found_in_instructions_is_told_in_the_language_of_the_house(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    hass.config.language = "fr"
    await scripted()
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    subentries = hass.config_entries.subentries
    form = await subentries.async_init(
        (entry.entry_id, "conversation"), context={"source": SOURCE_USER}
    )
    agent = next(iter(entry.subentries.values())).data
    menu = await subentries.async_configure(
        form["flow_id"], {**agent, "name": "Jeeves", "prompt": "Il est {{ now() }}."}
    )
    assert menu["description_placeholders"]["findings"].startswith("- **Ligne 1 :** `")
    menu = await subentries.async_configure(
        form["flow_id"], {"next_step_id": "replace"}
    )
    added = [item.data for item in entry.subentries.values() if item.title == "Jeeves"]
    assert [item["prompt"] for item in added] == [
        "Utilise l'outil llm__GetDateTime pour connaître l'heure."
    ]


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("de", "Local LLM KI-Task"),
        ("ja", "Local LLM AIタスク"),
        ("pt", "Local LLM AI Task"),
    ],
)
async def test_a_new_ai_task_has_a_name_in_the_language_of_the_house(
    hass: HomeAssistant, add_entry: AddEntry, language: str, name: str
) -> None:
    hass.config.language = language
    entry = await add_entry()
    form = await hass.config_entries.subentries.async_init(
        (entry.entry_id, "ai_task_data"), context={"source": SOURCE_USER}
    )
    (suggested,) = [
        key.default() for key in form["data_schema"].schema if key == "name"
    ]
    assert suggested == name
