"""Finds the voice satellites that speak to one of our agents, and in which language."""

from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple

from homeassistant.components.assist_pipeline import (
    OPTION_PREFERRED,
    Pipeline,
    PipelineNotFound,
    async_get_pipelines,
)
from homeassistant.components.assist_pipeline.pipeline import async_get_pipeline
from homeassistant.components.assist_satellite import DOMAIN as SATELLITE_DOMAIN
from homeassistant.components.assist_satellite.const import DATA_COMPONENT
from homeassistant.components.select import DOMAIN as SELECT_DOMAIN
from homeassistant.const import MATCH_ALL, STATE_UNAVAILABLE, STATE_UNKNOWN
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers import entity_registry as er

# How the unique ids of a device's selects end: one pipeline for each wake word, numbered from "_2" on
_PIPELINE_KEY = "-pipeline"
_WAKE_WORD_KEY = "-wake_word"

# What a wake word's select says where its pipeline can never be used
NO_WAKE_WORD = "no_wake_word"
_UNUSED = frozenset({NO_WAKE_WORD, STATE_UNAVAILABLE, STATE_UNKNOWN})


class Speaker(NamedTuple):
    """Who will ask an agent something: a satellite, or nobody in particular where `satellite` is None."""

    satellite: str | None
    device_id: str | None
    language: str


@callback
def async_speakers(hass: HomeAssistant, agent_id: str) -> list[Speaker]:
    """Return the available satellites with a pipeline that ends at this agent, then "no device".

    A satellite stands once for each language in which its pipelines ask the agent.
    """
    speakers = [
        Speaker(satellite, device_id, input_language(pipeline))
        for satellite, device_id in _satellites(hass)
        for pipeline in _pipelines(hass, satellite, device_id)
        if pipeline.conversation_engine == agent_id
    ]
    speakers.append(Speaker(None, None, _language_without_device(hass, agent_id)))
    return list(dict.fromkeys(speakers))


@callback
def async_assistants(hass: HomeAssistant) -> tuple[Hashable, ...]:
    """Return what decides which agent is asked in which language: of every pipeline, the preferred one first."""
    preferred = _preferred_pipeline(hass)
    return (
        preferred and preferred.id,
        *(
            (
                pipeline.id,
                pipeline.name,
                pipeline.conversation_engine,
                input_language(pipeline),
            )
            for pipeline in async_get_pipelines(hass)
        ),
    )


def input_language(pipeline: Pipeline) -> str:
    """Return the language in which a pipeline asks its agent; Home Assistant decides it in the same way."""
    if pipeline.conversation_language == MATCH_ALL:
        return pipeline.stt_language or pipeline.tts_language or pipeline.language
    return pipeline.conversation_language


def _satellites(hass: HomeAssistant) -> Iterator[tuple[str, str | None]]:
    """Yield the entity and the device of each satellite that could ask now."""
    registry = er.async_get(hass)
    for state in sorted(
        hass.states.async_all(SATELLITE_DOMAIN), key=lambda state: state.entity_id
    ):
        if state.state != STATE_UNAVAILABLE:
            entry = registry.async_get(state.entity_id)
            yield state.entity_id, entry.device_id if entry else None


def _pipelines(
    hass: HomeAssistant, satellite: str, device_id: str | None
) -> list[Pipeline]:
    """Return the pipelines that a satellite's selects name; the preferred one where it has no select."""
    chosen = [
        _chosen_pipeline(hass, select)
        for select in _selects(hass, satellite, device_id)
    ]
    return [pipeline for pipeline in chosen or [_preferred_pipeline(hass)] if pipeline]


def _selects(hass: HomeAssistant, satellite: str, device_id: str | None) -> list[str]:
    """Return the entities that choose a satellite's pipelines."""
    if device_id:
        selects = {
            entry.unique_id: entry.entity_id
            for entry in er.async_entries_for_device(er.async_get(hass), device_id)
            if entry.domain == SELECT_DOMAIN
        }
        pipelines = [
            select
            for unique_id, select in selects.items()
            if unique_id.rstrip("_0123456789").endswith(_PIPELINE_KEY)
            and _is_used(hass, unique_id, selects)
        ]
        if pipelines:
            return pipelines
    component = hass.data.get(DATA_COMPONENT)
    entity = component.get_entity(satellite) if component else None
    return [entity.pipeline_entity_id] if entity and entity.pipeline_entity_id else []


def _is_used(hass: HomeAssistant, unique_id: str, selects: Mapping[str, str]) -> bool:
    """Tell whether a wake word leads to a pipeline select; without any wake word, the first one counts."""
    prefix, _, number = unique_id.rpartition(_PIPELINE_KEY)
    wake_word = selects.get(f"{prefix}{_WAKE_WORD_KEY}{number}")
    state = hass.states.get(wake_word) if wake_word else None
    return not number or state is None or state.state not in _UNUSED


def _chosen_pipeline(hass: HomeAssistant, select: str) -> Pipeline | None:
    state = hass.states.get(select)
    if state is None or state.state == OPTION_PREFERRED:
        return _preferred_pipeline(hass)
    named = (
        pipeline
        for pipeline in async_get_pipelines(hass)
        if pipeline.name == state.state
    )
    return next(named, None) or _preferred_pipeline(hass)


def _preferred_pipeline(hass: HomeAssistant) -> Pipeline | None:
    try:
        return async_get_pipeline(hass)
    except PipelineNotFound:
        return None


def _language_without_device(hass: HomeAssistant, agent_id: str) -> str:
    """Return the language of a question from the dashboard: that of the agent's pipeline, the preferred one first."""
    pipelines = [
        pipeline
        for pipeline in [_preferred_pipeline(hass), *async_get_pipelines(hass)]
        if pipeline
    ]
    languages = (
        input_language(pipeline)
        for pipeline in pipelines
        if pipeline.conversation_engine == agent_id
    )
    return next(languages, hass.config.language)
