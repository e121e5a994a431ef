"""Who speaks to the agent, and in which language."""

from typing import Any

import pytest

from custom_components.local_llm.satellites import (
    Speaker,
    async_speakers,
    input_language,
)
from homeassistant.components.assist_pipeline import Pipeline
from homeassistant.components.assist_pipeline.pipeline import (
    async_get_pipeline,
    async_update_pipeline,
)
from homeassistant.components.assist_pipeline.runtime import KEY_ASSIST_PIPELINE
from homeassistant.components.assist_satellite.const import DATA_COMPONENT
from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr, entity_registry as er

from .conftest import AGENT, AddScripted
from .house import HouseSatellite, device_id


@pytest.fixture(autouse=True)
async def _agent(scripted: AddScripted) -> None:
    await scripted()


def satellites(hass: HomeAssistant) -> list[tuple[str | None, str]]:
    return [
        (speaker.satellite, speaker.language) for speaker in async_speakers(hass, AGENT)
    ]


async def add_pipeline(hass: HomeAssistant, name: str, **settings: Any) -> Pipeline:
    store = hass.data[KEY_ASSIST_PIPELINE].pipeline_store
    preferred = async_get_pipeline(hass)
    item = {**preferred.to_json(), "name": name, **settings}
    item.pop("id")
    pipeline = await store.async_create_item(item)
    await hass.async_block_till_done()
    return pipeline


async def choose(hass: HomeAssistant, select: str, option: str) -> None:
    await hass.services.async_call(
        "select",
        "select_option",
        {"entity_id": f"select.{select}", "option": option},
        blocking=True,
    )


async def test_all_satellites_of_the_preferred_pipeline_then_nobody(
    hass: HomeAssistant,
) -> None:
    assert async_speakers(hass, AGENT) == [
        Speaker(
            f"assist_satellite.{name.lower().replace(' ', '_')}",
            device_id(hass, name),
            "en",
        )
        for name in ("Bedroom Voice", "Kitchen Voice", "Office Voice")
    ] + [Speaker(None, None, "en")]


async def test_a_satellite_of_another_agent_is_left_alone(hass: HomeAssistant) -> None:
    await add_pipeline(
        hass, "Built-in", conversation_engine="conversation.home_assistant"
    )
    for select in ("kitchen_voice_pipeline", "kitchen_voice_pipeline_2"):
        await choose(hass, select, "Built-in")
    assert satellites(hass) == [
        ("assist_satellite.bedroom_voice", "en"),
        ("assist_satellite.office_voice", "en"),
        (None, "en"),
    ]


async def test_both_wake_words_count_each_with_its_language(
    hass: HomeAssistant,
) -> None:
    await add_pipeline(hass, "Deutsch", conversation_language="de")
    await choose(hass, "kitchen_voice_pipeline_2", "Deutsch")
    assert [
        language
        for satellite, language in satellites(hass)
        if satellite == "assist_satellite.kitchen_voice"
    ] == ["en", "de"]


@pytest.mark.parametrize(
    ("wake_word", "languages"),
    [
        ("okay_nabu", ["en", "de"]),
        ("no_wake_word", ["en"]),
        ("unavailable", ["en"]),
        (None, ["en", "de"]),
    ],
    ids=["used", "not used", "none known", "disabled"],
)
async def test_a_pipeline_without_a_wake_word_is_not_used(
    hass: HomeAssistant, wake_word: str | None, languages: list[str]
) -> None:
    """The selects are those that a real Voice PE has; its first pipeline needs no wake word of its own."""
    await add_pipeline(hass, "Deutsch", conversation_language="de")
    await choose(hass, "kitchen_voice_pipeline_2", "Deutsch")
    for key, state in (("wake_word", "no_wake_word"), ("wake_word_2", wake_word)):
        select = er.async_get(hass).async_get_or_create(
            "select",
            "house",
            f"Kitchen Voice-{key}",
            device_id=device_id(hass, "Kitchen Voice"),
        )
        hass.states.async_set(select.entity_id, state or "")
    if wake_word is None:
        hass.states.async_remove(select.entity_id)
    assert [
        language
        for satellite, language in satellites(hass)
        if satellite == "assist_satellite.kitchen_voice"
    ] == languages


async def test_a_satellite_without_selects_speaks_to_the_pipeline_it_names(
    hass: HomeAssistant,
) -> None:
    await add_pipeline(hass, "Deutsch", conversation_language="de")
    hass.states.async_set("select.stray", "Deutsch")
    registry = er.async_get(hass)
    for select in ("kitchen_voice_pipeline", "kitchen_voice_pipeline_2"):
        registry.async_remove(f"select.{select}")
    kitchen = hass.data[DATA_COMPONENT].get_entity("assist_satellite.kitchen_voice")
    assert isinstance(kitchen, HouseSatellite)
    assert ("assist_satellite.kitchen_voice", "en") in satellites(hass)
    kitchen._attr_pipeline_entity_id = "select.stray"
    assert ("assist_satellite.kitchen_voice", "de") in satellites(hass)


async def test_a_satellite_without_a_device_speaks_to_the_preferred_pipeline(
    hass: HomeAssistant,
) -> None:
    hass.states.async_set("assist_satellite.stray", "idle")
    assert Speaker("assist_satellite.stray", None, "en") in async_speakers(hass, AGENT)


async def test_an_unavailable_satellite_asks_nothing(hass: HomeAssistant) -> None:
    hass.states.async_set("assist_satellite.kitchen_voice", "unavailable")
    assert "assist_satellite.kitchen_voice" not in dict(satellites(hass))


async def test_a_removed_device_leaves_without_a_trace(hass: HomeAssistant) -> None:
    dr.async_get(hass).async_remove_device(device_id(hass, "Kitchen Voice"))
    await hass.async_block_till_done()
    assert "assist_satellite.kitchen_voice" not in dict(satellites(hass))


async def test_a_renamed_satellite_stands_once(hass: HomeAssistant) -> None:
    er.async_get(hass).async_update_entity(
        "assist_satellite.kitchen_voice", new_entity_id="assist_satellite.cookery"
    )
    await hass.async_block_till_done()
    names = [satellite for satellite, _ in satellites(hass)]
    assert names.count("assist_satellite.cookery") == 1
    assert "assist_satellite.kitchen_voice" not in names


async def test_an_unknown_choice_is_the_preferred_pipeline(
    hass: HomeAssistant,
) -> None:
    hass.states.async_set("select.kitchen_voice_pipeline", "deleted since")
    assert ("assist_satellite.kitchen_voice", "en") in satellites(hass)


async def test_an_agent_without_a_pipeline_is_asked_by_nobody_in_particular(
    hass: HomeAssistant,
) -> None:
    await async_update_pipeline(
        hass,
        async_get_pipeline(hass),
        conversation_engine="conversation.home_assistant",
        conversation_language="fr",
    )
    assert satellites(hass) == [(None, hass.config.language)]


async def test_without_a_preferred_pipeline_there_is_no_speaker_but_nobody(
    hass: HomeAssistant,
) -> None:
    hass.data[KEY_ASSIST_PIPELINE].pipeline_store.data.clear()
    assert satellites(hass) == [(None, hass.config.language)]


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (("it", "de", "fr", "en"), "it"),
        (("*", "de-CH", "fr", "en"), "de-CH"),
        (("*", None, "fr", "en"), "fr"),
        (("*", None, None, "en"), "en"),
    ],
    ids=["fixed", "heard", "spoken", "pipeline"],
)
def test_input_language(languages: tuple[str | None, ...], expected: str) -> None:
    conversation, stt, tts, language = languages
    pipeline = Pipeline(
        conversation_engine=AGENT,
        conversation_language=conversation or "",
        language=language or "",
        name="Test",
        stt_engine=None,
        stt_language=stt,
        tts_engine=None,
        tts_language=tts,
        tts_voice=None,
        wake_word_entity=None,
        wake_word_id=None,
    )
    assert input_language(pipeline) == expected
