"""Prefetch: while somebody still speaks, their prompt is brought to where the question will need it."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
import logging
from typing import override
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    MockModule,
    MockPlatform,
    mock_config_flow,
    mock_integration,
    mock_platform,
)

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.warming.prefetch import async_listening_speaker
from homeassistant.components import conversation, stt
from homeassistant.components.assist_pipeline.pipeline import (
    PipelineStage,
    async_get_pipeline,
    async_update_pipeline,
)
from homeassistant.components.assist_satellite.const import DATA_COMPONENT
from homeassistant.config_entries import ConfigEntry, ConfigFlow
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from local_llm_engine.errors import EngineClosedError, GenerationError
from local_llm_engine.types import CallRecord, Purpose

from ..conftest import AGENT, AddScripted, ask
from ..house import HouseSatellite
from ..scripted import HeldWarmUps, calls, says
from ..test_satellites import add_pipeline, choose
from .test_warm_up import KITCHEN, TEMPLATE_TOKENS, run_now

EARS = "ears"
OFFICE = "assist_satellite.office_voice"


class Ears(stt.SpeechToTextEntity):
    """Hears a given text, as soon as `spoken` is set."""

    _attr_name = "Ears"
    _attr_unique_id = "ears"
    supported_languages = ("en",)
    supported_formats = (stt.AudioFormats.WAV,)
    supported_codecs = (stt.AudioCodecs.PCM,)
    supported_bit_rates = (stt.AudioBitRates.BITRATE_16,)
    supported_sample_rates = (stt.AudioSampleRates.SAMPLERATE_16000,)
    supported_channels = (stt.AudioChannels.CHANNEL_MONO,)

    def __init__(self) -> None:
        self.spoken = asyncio.Event()
        self.text = "what time is it"

    @override
    async def async_process_audio_stream(
        self, metadata: stt.SpeechMetadata, stream: AsyncIterable[bytes]
    ) -> stt.SpeechResult:
        await self.spoken.wait()
        return stt.SpeechResult(self.text, stt.SpeechResultState.SUCCESS)


@pytest.fixture
async def ears(hass: HomeAssistant, home: None) -> AsyncIterator[Ears]:
    ears = Ears()

    async def forward(hass: HomeAssistant, entry: ConfigEntry) -> bool:
        await hass.config_entries.async_forward_entry_setups(entry, ["stt"])
        return True

    async def add(
        hass: HomeAssistant,
        entry: ConfigEntry,
        async_add_entities: AddConfigEntryEntitiesCallback,
    ) -> None:
        async_add_entities([ears])

    mock_integration(hass, MockModule(EARS, async_setup_entry=forward), built_in=False)
    mock_platform(hass, f"{EARS}.config_flow")
    mock_platform(hass, f"{EARS}.stt", MockPlatform(async_setup_entry=add))
    entry = MockConfigEntry(domain=EARS)
    entry.add_to_hass(hass)
    with mock_config_flow(EARS, ConfigFlow):
        assert await hass.config_entries.async_setup(entry.entry_id)
        yield ears


async def silence() -> AsyncIterator[bytes]:
    yield bytes(320)


async def speak(hass: HomeAssistant, satellite: str) -> None:
    """Run Home Assistant's own pipeline, from the microphone to the answer."""
    await async_update_pipeline(
        hass, async_get_pipeline(hass), stt_engine="stt.ears", stt_language="en"
    )
    entity = hass.data[DATA_COMPONENT].get_entity(satellite)
    assert isinstance(entity, HouseSatellite)
    await entity.async_accept_pipeline_from_satellite(
        silence(), end_stage=PipelineStage.INTENT
    )


async def test_the_question_finds_its_prompt_in_the_slot(
    hass: HomeAssistant, entry: MockConfigEntry, ears: Ears
) -> None:
    engine = entry.runtime_data.engine
    await run_now(hass)
    await ask(hass, "what time is it", "Office Voice")
    speaking = hass.async_create_task(speak(hass, KITCHEN))
    prefetched = await _prefetched(hass, entry)
    assert hass.states.get(KITCHEN).state == "listening"
    assert (prefetched.session, prefetched.finish) == (KITCHEN, "prefetched")
    assert (prefetched.resumed_from, prefetched.usage.reread_tokens) == ("ram", 0)
    num_known = len(engine.status().records)
    ears.spoken.set()
    await speaking
    asked = engine.status().records[num_known]
    assert (asked.session, asked.resumed_from) == (KITCHEN, "slot")
    assert asked.usage.reread_tokens <= asked.usage.question_tokens + TEMPLATE_TOKENS


async def test_a_second_question_finds_its_conversation_in_the_slot(
    hass: HomeAssistant, entry: MockConfigEntry, ears: Ears
) -> None:
    """The prefetch for it must not bring back the start of the conversation."""
    ears.spoken.set()
    await speak(hass, KITCHEN)
    await hass.async_block_till_done(wait_background_tasks=True)
    num_known = len(entry.runtime_data.engine.status().records)
    ears.spoken.clear()
    speaking = hass.async_create_task(speak(hass, KITCHEN))
    await _prefetched(hass, entry, after=num_known)
    ears.spoken.set()
    await speaking
    prefetched, asked, *_ = entry.runtime_data.engine.status().records[num_known:]
    assert prefetched.purpose is Purpose.PREFETCH
    assert (prefetched.resumed_from, prefetched.usage.reread_tokens) == ("slot", 0)
    assert asked.resumed_from == "slot"
    assert asked.usage.reused_tokens > prefetched.usage.prompt_tokens
    assert asked.usage.reread_tokens <= asked.usage.question_tokens + 24


async def _prefetched(
    hass: HomeAssistant, entry: MockConfigEntry, after: int = 0
) -> CallRecord:
    """Wait for the record of a prefetch."""
    while True:
        for record in entry.runtime_data.engine.status().records[after:]:
            if record.purpose is Purpose.PREFETCH:
                return record
        # The clock stands still, so nothing can be slept through.
        await asyncio.sleep(0)


async def prepare(hass: HomeAssistant) -> None:
    await conversation.async_prepare_agent(hass, AGENT, "en")
    await hass.async_block_till_done(wait_background_tasks=True)


async def test_without_a_listening_satellite_it_is_for_no_device(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted()
    await prepare(hass)
    (request,) = engine.warmed
    assert (request.session, request.purpose) == ("no device", Purpose.PREFETCH)


async def test_a_failure_is_left_to_the_question(
    hass: HomeAssistant, scripted: AddScripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "custom_components.local_llm")
    await scripted([GenerationError("nan")])
    await prepare(hass)
    told = [record for record in caplog.records if "prefetch" in record.message]
    assert [(record.levelno, record.message) for record in told] == [
        (logging.DEBUG, "Could not prefetch for no device: nan")
    ]
    assert not [record for record in caplog.records if record.exc_info]


async def test_nothing_is_prefetched_between_the_rounds_of_an_answer(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(calls("llm__GetDateTime"), says("It is late."))
    engine.before_delta = lambda: prepared.append(
        hass.async_create_task(conversation.async_prepare_agent(hass, AGENT, "en"))
    )
    prepared: list[asyncio.Task[None]] = []
    await ask(hass, "what time is it", "Kitchen Voice")
    await asyncio.gather(*prepared)
    assert len(engine.requests) == 2
    assert len(prepared) == 4
    assert engine.warmed == []
    await prepare(hass)
    assert len(engine.warmed) == 1


async def test_ends_with_its_entry(hass: HomeAssistant, scripted: AddScripted) -> None:
    engine = await scripted()
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    held = HeldWarmUps(engine, EngineClosedError("closed"))
    with patch.object(engine, "warm_up", held):
        await conversation.async_prepare_agent(hass, AGENT, "en")
        await held.begun.wait()
        await hass.config_entries.async_unload(entry.entry_id)
        await hass.async_block_till_done(wait_background_tasks=True)
    assert engine.closed


async def test_who_is_speaking(hass: HomeAssistant, scripted: AddScripted) -> None:
    """The satellite that listens since last; with the language of the pipeline that it runs."""
    await scripted()
    await add_pipeline(hass, "Deutsch", conversation_language="de-AT")
    await choose(hass, "kitchen_voice_pipeline_2", "Deutsch")
    assert async_listening_speaker(hass, AGENT, "en").satellite is None
    hass.states.async_set(KITCHEN, "listening")
    for pipeline_language, language in (("de", "de-AT"), ("en", "en"), ("fr", "en")):
        speaker = async_listening_speaker(hass, AGENT, pipeline_language)
        assert (speaker.satellite, speaker.language) == (KITCHEN, language)
    hass.states.async_set(OFFICE, "listening")
    assert async_listening_speaker(hass, AGENT, "en").satellite == OFFICE
