"""Answers as small models really write them, each with what is right: what changes in the house, or what the model is told.

The kinds: garbled and forgotten tags, calls that are explained and not made, values of another type,
names in another spelling, arguments with another name, targets that do not exist.
"""

from typing import Any, NamedTuple

type Changes = dict[str, dict[str, Any]]


class Row(NamedTuple):
    """What the model writes, what changes because of it, and words that the model is told where nothing is done."""

    raw: str
    changes: Changes
    told: str | None = None
    says: str = "Done."


def json_call(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def xml_call(tool: str, **arguments: str) -> str:
    parameters = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n"
        for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={tool}>\n{parameters}</function>\n</tool_call>"


ON = {"state": "on"}
KITCHEN_LIGHTS = {"light.kitchen_ceiling_light": ON, "light.kitchen_floor_lamp": ON}
UPSTAIRS_LIGHTS = {"light.bedroom_ceiling_light": ON, "light.office_floor_lamp": ON}
ALL_LIGHTS = {**KITCHEN_LIGHTS, **UPSTAIRS_LIGHTS, "light.porch": ON}
OFFICE_LAMP = {"light.office_floor_lamp": ON}
PORCH = {"light.porch": ON}
PLUG = {"switch.plug_2": ON}


def lit(name: str, percent: int) -> Changes:
    return {f"light.{name}": {"state": "on", "brightness": percent}}


MARKUP: dict[str, Row] = {
    "as it should be": Row(
        xml_call("intent__HassTurnOn", name="Office Floor Lamp"), OFFICE_LAMP
    ),
    "as json": Row(
        json_call(
            '{"name": "intent__HassTurnOn", "arguments": {"name": "Office Floor Lamp"}}'
        ),
        OFFICE_LAMP,
    ),
    "words before the call": Row(
        "One moment.\n" + xml_call("intent__HassTurnOn", name="Office Floor Lamp"),
        OFFICE_LAMP,
    ),
    "parameter tag without its end": Row(
        "<tool_call>\n<function=intent__HassTurnOn>\n<parameter=area: Attic\n</parameter>\n"
        "<parameter=name>\nOffice Floor Lamp\n</parameter>\n</function>\n</tool_call>",
        {},
        "malformed",
    ),
    "garbled closing tag of a number": Row(
        "<tool_call>\n<function=light__HassLightSet>\n<parameter=name>\nPorch</parameter_function>\n"
        "<parameter=brightness>\n40\n</parameter2>\n</function>\n</tool_call>",
        lit("porch", 40),
    ),
    "stray closing tag": Row(
        "<tool_call>\n<function=intent__HassTurnOn>\n<parameter=name>\nPorch\n</parameter>\n"
        "</parameter>\n</function>\n</tool_call>",
        PORCH,
    ),
    "quoted names in tags": Row(
        '<tool_call>\n<function="intent__HassTurnOn">\n<parameter="name">\nPorch\n</parameter>\n'
        "</function>\n</tool_call>",
        PORCH,
    ),
    "two calls in a row": Row(
        xml_call("intent__HassTurnOn", name="Porch")
        + "\n"
        + xml_call("intent__HassTurnOn", name="Plug 2"),
        PORCH | PLUG,
    ),
    "cut short": Row(
        "<tool_call>\n<function=intent__HassTurnOn>\n<parameter=name>\nPor",
        {},
        "cut short",
    ),
    "broken json": Row(
        json_call('{"name": "intent__HassTurnOn", "arguments": {"name": "Porch"'),
        {},
        "not valid JSON",
    ),
    "python for json": Row(
        json_call("{'name': 'intent__HassTurnOn', 'arguments': {'name': 'Porch'}}"),
        PORCH,
    ),
    "arguments as text": Row(
        json_call(
            '{"name": "intent__HassTurnOn", "arguments": "{\\"name\\": \\"Porch\\"}"}'
        ),
        PORCH,
    ),
    "nothing in the call": Row(json_call(""), {}, "empty"),
}

PROSE: dict[str, Row] = {
    "a call that is explained": Row(
        "To light up, I write `<function=intent__HassTurnOn>` with a <parameter=name>.",
        {},
        says="To light up, I write `<function=intent__HassTurnOn>` with a <parameter=name>.",
    ),
    "a smaller-than sign": Row("It is <5 degrees.", {}, says="It is <5 degrees."),
    "an empty call of another kind": Row(
        "<tool_call>\n<function=llm__GetDateTime>\n</function>\n</tool_call>", {}
    ),
    "null for no arguments": Row(
        json_call('{"name": "llm__GetDateTime", "arguments": null}'), {}
    ),
}

TOOL_NAMES: dict[str, Row] = {
    "without its prefix": Row(xml_call("HassTurnOn", name="Porch"), PORCH),
    "another prefix": Row(
        xml_call("intent__HassLightSet", name="Porch", brightness="40"),
        lit("porch", 40),
    ),
    "another case": Row(xml_call("INTENT__hassturnon", name="Porch"), PORCH),
    "with a dot": Row(xml_call("intent.HassTurnOn", name="Porch"), PORCH),
    "with spaces": Row(
        json_call('{"name": "hass turn on", "arguments": {"name": "Porch"}}'), PORCH
    ),
    "with spaces in a tag": Row(
        xml_call("Hass Turn On", name="Porch"), {}, "not a tag that belongs there"
    ),
    "as an action": Row(
        json_call(
            '{"name": "light.turn_on", "arguments": {"entity_id": "light.porch"}}'
        ),
        PORCH,
    ),
    "as an action in a room": Row(
        json_call('{"name": "light.turn_on", "arguments": {"area": "kitchen"}}'),
        KITCHEN_LIGHTS,
    ),
    "as an action with a target": Row(
        json_call(
            '{"name": "light.turn_on", "arguments": {"target": {"entity_id": ["light.porch"]}}}'
        ),
        PORCH,
    ),
    "another tool's argument": Row(
        xml_call("intent__HassTurnOn", name="Porch", brightness="40"), lit("porch", 40)
    ),
    "nothing like it": Row(
        xml_call("door__OpenSesame", name="Porch"),
        {},
        "There is no tool 'door__OpenSesame'",
    ),
    "nearly": Row(
        xml_call("HassTurnOnn", name="Porch"), {}, "Do you mean intent__HassTurnOn"
    ),
}

NAMES: dict[str, Row] = {
    "an alias": Row(xml_call("HassTurnOn", name="salt lamp"), PLUG),
    "name and alias in one, as the prompt lists them": Row(
        xml_call("HassTurnOn", name="Plug 2, Salt lamp"), PLUG
    ),
    "an alias with a comma": Row(xml_call("HassTurnOn", name="Upstairs, hall"), PORCH),
    "a part of an alias with a comma": Row(
        xml_call("HassTurnOn", name="hall", domain="light"), PORCH
    ),
    "quotes and a newline": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"name": "The \\"big\\"\\nlamp"}}'
        ),
        PORCH,
    ),
    "quotes and a newline left out": Row(
        xml_call("HassTurnOn", name="the big lamp"), PORCH
    ),
    "an id": Row(xml_call("HassTurnOn", name="light.porch"), PORCH),
    "an id of another domain": Row(
        xml_call("HassTurnOn", name="switch.office_floor_lamp"), OFFICE_LAMP
    ),
    "underscores": Row(xml_call("HassTurnOn", name="office_floor_lamp"), OFFICE_LAMP),
    "the plural": Row(xml_call("HassTurnOn", name="Office Floor Lamps"), OFFICE_LAMP),
    "an article": Row(
        xml_call("HassTurnOn", name="the office floor lamp"), OFFICE_LAMP
    ),
    "without its room": Row(
        xml_call("HassTurnOn", name="Floor Lamp", area="Office"), OFFICE_LAMP
    ),
    "without its room, in the asking room": Row(
        xml_call("HassTurnOn", name="floor lamp"), {"light.kitchen_floor_lamp": ON}
    ),
    "a list of one": Row(
        json_call('{"name": "HassTurnOn", "arguments": {"name": ["Porch"]}}'), PORCH
    ),
    "a list of two": Row(
        json_call('{"name": "HassTurnOn", "arguments": {"name": ["Porch", "Plug 2"]}}'),
        {},
        "name must be one text",
    ),
    "a contradicting domain": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"name": "Coffee Machine", "domain": "light"}}'
        ),
        {"switch.coffee_machine": ON},
    ),
    "a room for what stands in none": Row(
        xml_call("HassTurnOn", name="Porch", area="Kitchen"), PORCH
    ),
    "an entity in the place of a room": Row(
        xml_call("HassTurnOn", area="Coffee Machine"), {"switch.coffee_machine": ON}
    ),
    "nobody": Row(
        xml_call("HassTurnOn", name="Sauna Lamp"),
        {},
        "There is no device called 'Sauna Lamp'",
    ),
    "nearly": Row(
        xml_call("HassTurnOn", name="Ofice Flor Lamp"),
        {},
        "Do you mean Office Floor Lamp",
    ),
    "a lock by half its name": Row(
        xml_call("HassTurnOff", name="door", domain="lock"),
        {},
        "Do you mean Front Door?",
    ),
    "an unlocked door": Row(
        xml_call("HassTurnOff", name="front door"),
        {"lock.front_door": {"state": "unlocked"}},
    ),
}

TARGETS: dict[str, Row] = {
    "a string for a list": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"area": "Kitchen", "domain": "light"}}'
        ),
        KITCHEN_LIGHTS,
    ),
    "a plural with a capital": Row(
        xml_call("HassTurnOn", area="kitchen", domain="Lights"), KITCHEN_LIGHTS
    ),
    "an everyday word": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"area": "Kitchen", "domain": ["lamp"]}}'
        ),
        KITCHEN_LIGHTS,
    ),
    "a list as text": Row(
        xml_call("HassTurnOn", area="Kitchen", domain="['light']"), KITCHEN_LIGHTS
    ),
    "a device class for a domain": Row(
        xml_call("HassTurnOn", area="Bedroom", domain="blinds"),
        {"cover.bedroom_blind": {"state": "open", "current_position": 100}},
    ),
    "a device class in capitals": Row(
        xml_call("HassTurnOn", area="Bedroom", device_class="BLIND"),
        {"cover.bedroom_blind": {"state": "open", "current_position": 100}},
    ),
    "a domain for a device class": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"area": "Kitchen", "device_class": ["light"]}}'
        ),
        KITCHEN_LIGHTS,
    ),
    "a room as name": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"name": "Kitchen", "domain": "light"}}'
        ),
        KITCHEN_LIGHTS,
    ),
    "a room as name, of anything": Row(
        xml_call("HassTurnOff", name="Kitchen"), {}, "'Kitchen' is no device"
    ),
    "a room and a kind as name": Row(
        xml_call("HassTurnOn", name="kitchen lights"), KITCHEN_LIGHTS
    ),
    "a kind as name, in a room": Row(
        xml_call("HassTurnOn", name="lights", area="Kitchen"), KITCHEN_LIGHTS
    ),
    "a kind as name, in the asking room": Row(
        xml_call("HassTurnOn", name="the lights"), KITCHEN_LIGHTS
    ),
    "all of a kind": Row(xml_call("HassTurnOn", name="all lights"), ALL_LIGHTS),
    "everywhere": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"area": "everywhere", "domain": ["light"]}}'
        ),
        ALL_LIGHTS,
    ),
    "everything everywhere": Row(
        xml_call("HassTurnOff", area="everywhere"), {}, "cannot target all devices"
    ),
    "a floor for an area": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"area": "upstairs", "domain": ["light"]}}'
        ),
        UPSTAIRS_LIGHTS,
    ),
    "an area for a floor": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"floor": "the kitchen", "domain": ["light"]}}'
        ),
        KITCHEN_LIGHTS,
    ),
    "another name for the area": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"room": "Kitchen", "domain": ["light"]}}'
        ),
        KITCHEN_LIGHTS,
    ),
    "blanks and nulls": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"name": "Porch", "area": "", "floor": null, "domain": [], "device_class": "None"}}'
        ),
        PORCH,
    ),
    "a harmless extra argument": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"name": "Porch", "why": "dark"}}'
        ),
        PORCH,
    ),
    "an extra argument that may be the target": Row(
        json_call(
            '{"name": "HassTurnOn", "arguments": {"domain": ["light"], "where": "Sauna"}}'
        ),
        {},
        "has no argument 'where'",
    ),
    "an unknown room": Row(
        xml_call("HassTurnOn", area="Sauna", domain="light"),
        {},
        "There is no area 'Sauna'",
    ),
    "an unknown floor": Row(
        xml_call("HassTurnOn", floor="Cellar", domain="light"),
        {},
        "There is no floor 'Cellar'",
    ),
    "a mistyped room": Row(
        xml_call("HassTurnOn", area="Kichten", domain="light"),
        {},
        "Do you mean Kitchen?",
    ),
    "an unknown kind": Row(
        xml_call("HassTurnOn", area="Kitchen", domain="toaster"),
        {},
        "There is no domain 'toaster'",
    ),
}

VALUES: dict[str, Row] = {
    "a number as text": Row(
        json_call(
            '{"name": "HassLightSet", "arguments": {"name": "Porch", "brightness": "40"}}'
        ),
        lit("porch", 40),
    ),
    "a percent sign": Row(
        xml_call("HassLightSet", name="Porch", brightness="40%"), lit("porch", 40)
    ),
    "a fraction that is none": Row(
        json_call(
            '{"name": "HassLightSet", "arguments": {"name": "Porch", "brightness": 40.0}}'
        ),
        lit("porch", 40),
    ),
    "a fraction for a percentage": Row(
        json_call(
            '{"name": "HassLightSet", "arguments": {"name": "Porch", "brightness": 0.4}}'
        ),
        {},
        "brightness must be a whole number from 0 to 100, not '0.4'",
    ),
    "too much": Row(
        json_call(
            '{"name": "HassLightSet", "arguments": {"name": "Porch", "brightness": 255}}'
        ),
        {},
        "brightness must be a whole number from 0 to 100, not '255'",
    ),
    "a change for a value": Row(
        xml_call("HassLightSet", name="Porch", brightness="+10"),
        {},
        "brightness must be a whole number from 0 to 100, not '+10'",
    ),
    "a value without a target": Row(
        xml_call("HassLightSet", brightness="40"),
        lit("kitchen_ceiling_light", 40) | lit("kitchen_floor_lamp", 40),
    ),
    "an unknown colour": Row(
        xml_call("HassLightSet", name="Porch", color="reddish"), {}, "Unknown color"
    ),
    "a colour in capitals": Row(
        xml_call("HassLightSet", name="Porch", color="Red"),
        {"light.porch": {"state": "on", "rgb_color": (255, 0, 0)}},
    ),
    "degrees with their unit": Row(
        xml_call(
            "HassClimateSetTemperature",
            name="Bedroom Thermostat",
            temperature="21,5 °C",
        ),
        {"climate.bedroom_thermostat": {"temperature": 21.5}},
    ),
    "degrees of another unit": Row(
        xml_call(
            "HassClimateSetTemperature", name="Bedroom Thermostat", temperature="70°F"
        ),
        {},
        "temperature must be in °C",
    ),
    "another name for a required argument": Row(
        json_call(
            '{"name": "HassClimateSetTemperature", "arguments": {"area": "Office", "target_temp": "20", "domain": "climate"}}'
        ),
        {"climate.office_thermostat": {"temperature": 20.0}},
    ),
    "a required argument is missing": Row(
        xml_call("HassClimateSetTemperature", area="Office"), {}, "needs temperature"
    ),
    "a position in words": Row(
        xml_call("HassSetPosition", name="bedroom blinds", position="50 percent"),
        {"cover.bedroom_blind": {"state": "open", "current_position": 50}},
    ),
    "a fan's speed": Row(
        xml_call("fan__HassFanSetSpeed", name="fan", percentage="30 %"),
        {"fan.ceiling_fan": {"state": "on", "percentage": 30}},
    ),
    "a volume with another name": Row(
        json_call(
            '{"name": "HassSetVolume", "arguments": {"name": "Kitchen Speaker", "volume": "30%"}}'
        ),
        {"media_player.kitchen_speaker": {"volume_level": 0.3}},
    ),
    "a relative volume": Row(
        xml_call("HassSetVolumeRelative", name="kitchen speaker", volume_step="+10"),
        {"media_player.kitchen_speaker": {"volume_level": 0.3}},
    ),
    "a player by a word of its name": Row(
        xml_call("HassMediaPause", name="speaker"),
        {"media_player.kitchen_speaker": {"state": "paused"}},
    ),
    "a list by a word of its name": Row(
        json_call(
            '{"name": "HassListAddItem", "arguments": {"item": "Milk", "name": "shopping"}}'
        ),
        {"todo.shopping_list": {"state": "1"}},
    ),
    "a list by another argument": Row(
        json_call(
            '{"name": "HassListAddItem", "arguments": {"item": "x<5 & y", "list": "Chores"}}'
        ),
        {"todo.chores": {"state": "1"}},
    ),
    "an unknown list": Row(
        xml_call("HassListAddItem", item="Milk", name="Wishes"),
        {},
        "no device called 'Wishes'",
    ),
    "another tool for a lamp": Row(
        xml_call("HassSetVolume", name="Porch", volume_level="30"),
        {},
        "'Porch' is a light",
    ),
}
