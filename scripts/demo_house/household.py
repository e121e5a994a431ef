"""Moves everybody in: the house, its satellites, Local LLM and the assistant that speaks for it.

Goes through Home Assistant's own forms and commands, as a person in the browser does.
"""

from dataclasses import dataclass
from typing import Any

from .client import Client
from .core import DemoError

HOUSE = "demo_house"
OURS = "local_llm"
_FLOWS = "/api/config/config_entries/flow"
_OPTIONS_FLOWS = "/api/config/config_entries/options/flow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Household:
    """Who lives here: the house's entity ids, the satellites' device ids by name, our agent and its entry."""

    entities: frozenset[str]
    num_exposed: int
    num_areas: int
    satellites: dict[str, str]
    agent: str
    entry_id: str


async def move_in(client: Client, *, model: str | None, scheduled: bool) -> Household:
    """Set up the house and Local LLM in an empty Home Assistant.

    `model` is a folder, None the built-in model; without `scheduled` nothing is warmed up unasked.

    Raises:
        DemoError: Home Assistant refuses a step; the message has its words.

    """
    await _set_up(client, HOUSE)
    satellites = await _satellites(client)
    house = await _entities(client, HOUSE)
    exposed = [
        entity["entity_id"]
        for entity in house
        if entity["device_id"] not in satellites.values()
    ]
    await client.command(
        "homeassistant/expose_entity",
        assistants=["conversation"],
        entity_ids=exposed,
        should_expose=True,
    )
    entry_id = await set_up_engine(client, model)
    if not scheduled:
        await _turn_schedule_off(client, entry_id)
    # Beside the agent there are an AI task, sensors and buttons.
    agents = [
        entity["entity_id"]
        for entity in await _entities(client, OURS)
        if entity["entity_id"].startswith("conversation.")
    ]
    if not agents:
        raise DemoError("Local LLM was set up without a conversation agent")
    agent = str(agents[0])
    await _prefer(client, agent)
    return Household(
        entities=frozenset(entity["entity_id"] for entity in house),
        num_exposed=len(exposed),
        num_areas=len(await client.command("config/area_registry/list")),
        satellites=satellites,
        agent=agent,
        entry_id=entry_id,
    )


async def set_up_engine(client: Client, model: str | None = None) -> str:
    """Fill in Local LLM's forms, where what they suggest stays, and return its entry's id once it is loaded."""
    engine = {"device": "cpu"}
    forms: list[dict[str, Any]] = [{"next_step_id": "builtin"}, engine]
    if model is not None:
        forms = [{"next_step_id": "folder"}, {"model": model}, engine]
    return await _set_up(client, OURS, *forms)


async def _turn_schedule_off(client: Client, entry_id: str) -> None:
    """Warm nothing up unasked, and forget what was read unasked since the set-up."""
    await _walk(client, _OPTIONS_FLOWS, {"handler": entry_id}, {"warm_up": False})
    await client.post(f"/api/config/config_entries/entry/{entry_id}/reload", {})


async def _set_up(client: Client, domain: str, *forms: dict[str, Any]) -> str:
    """Add an integration and return its entry's id, once it is loaded."""
    result = await _walk(client, _FLOWS, {"handler": domain}, *forms)
    entry_id = str(result["result"]["entry_id"])
    for entry in await client.command("config_entries/get", domain=domain):
        if entry["state"] != "loaded":
            raise DemoError(f"{domain} was not loaded: {entry['reason']}")
    return entry_id


async def _walk(
    client: Client, path: str, start: dict[str, Any], *forms: dict[str, Any]
) -> dict[str, Any]:
    """Go through a flow of forms to its end."""
    step = await client.post(path, start)
    for form in forms:
        if not step.get("errors") and step["type"] != "abort":
            step = await client.post(f"{path}/{step['flow_id']}", form)
    if step["type"] != "create_entry":
        raise DemoError(await _complaint(client, start["handler"], step))
    result: dict[str, Any] = step
    return result


async def _complaint(client: Client, handler: str, step: dict[str, Any]) -> str:
    """Say why a form did not go through, in the integration's own words."""
    words = await client.command(
        "frontend/get_translations",
        language="en",
        category="config",
        integration=[handler],
    )
    kind, keys = "error", list((step.get("errors") or {}).values())
    if step["type"] == "abort":
        kind, keys = "abort", [step["reason"]]
    told = " ".join(
        words["resources"].get(f"component.{handler}.config.{kind}.{key}", key)
        for key in keys
    )
    for name, value in (step.get("description_placeholders") or {}).items():
        told = told.replace(f"{{{name}}}", str(value))
    return f"{handler} could not be set up: {told.rstrip('.') or step}"


async def _prefer(client: Client, agent: str) -> None:
    """Let the preferred assistant, which the browser and the satellites use, ask our agent."""
    listed = await client.command("assist_pipeline/pipeline/list")
    preferred = listed["preferred_pipeline"]
    for pipeline in listed["pipelines"]:
        if pipeline.pop("id") == preferred:
            pipeline |= {"name": "Local LLM", "conversation_engine": agent}
            await client.command(
                "assist_pipeline/pipeline/update", pipeline_id=preferred, **pipeline
            )


async def _satellites(client: Client) -> dict[str, str]:
    """Find the satellites' devices, by name."""
    listed = await client.command("assist_pipeline/device/list")
    ids = {device["device_id"] for device in listed}
    devices = await client.command("config/device_registry/list")
    return {device["name"]: device["id"] for device in devices if device["id"] in ids}


async def _entities(client: Client, platform: str) -> list[dict[str, Any]]:
    """Find an integration's entities."""
    entities = await client.command("config/entity_registry/list")
    return [entity for entity in entities if entity["platform"] == platform]
