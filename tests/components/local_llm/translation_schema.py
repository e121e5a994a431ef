"""What hassfest, Home Assistant's check of integrations, accepts as a custom integration's translations, in our own words.

Only what we have or may come to have; a part that is not named here is refused.
"""

import re
from string import Formatter
from typing import Any

import probatio

from homeassistant.helpers import config_validation as cv

_KEY = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_ADDRESS = re.compile(r"\b(?:https?|ftp|wss?|mqtts?)://|\bwww\.", re.IGNORECASE)
_QUOTED_PLACEHOLDER = re.compile(r"'{\w+}'")


def key(value: str) -> str:
    """Accept a translation key."""
    if not _KEY.fullmatch(value):
        raise probatio.Invalid(f"{value} is no translation key")
    return value


def plain(value: Any) -> str:
    """Accept a text without placeholders."""
    if "{" in sentence(value):
        raise probatio.Invalid("placeholders are not filled in here")
    return str(value)


def sentence(value: Any) -> str:
    """Accept a text as Home Assistant shows it: no HTML, no address, no reference, and placeholders with plain names."""
    text = cv.string_with_no_html(value)
    if text != text.strip() or not text:
        raise probatio.Invalid("a text neither begins nor ends with a space")
    if "[%" in text or "%]" in text:
        raise probatio.Invalid(
            "references are resolved in Home Assistant's own files only"
        )
    if _ADDRESS.search(text):
        raise probatio.Invalid("an address belongs into a placeholder")
    if _QUOTED_PLACEHOLDER.search(text):
        raise probatio.Invalid("single quotes keep a placeholder from being filled in")
    for _, name, _, _ in Formatter().parse(text):
        if name is not None and not name.isidentifier():
            raise probatio.Invalid(f"{{{name}}} is no placeholder")
    return text


def _by_key(value: Any) -> dict[Any, Any]:
    return {key: value}


_Optional, _Required = probatio.Optional, probatio.Required

_FIELDS = {
    _Optional("data"): _by_key(sentence),
    _Optional("data_description"): _by_key(sentence),
    _Optional("description"): sentence,
}
_STEP = {
    **_FIELDS,
    _Optional("menu_option_descriptions"): _by_key(sentence),
    _Optional("menu_options"): _by_key(sentence),
    _Optional("sections"): _by_key({**_FIELDS, _Required("name"): sentence}),
    _Optional("submit"): sentence,
    _Optional("title"): sentence,
}
_FLOW = {
    _Optional("abort"): _by_key(sentence),
    _Optional("create_entry"): _by_key(sentence),
    _Optional("error"): _by_key(sentence),
    _Optional("progress"): _by_key(sentence),
    _Required("step"): _by_key(_STEP),
}
_SUBENTRY_FLOW = {
    **_FLOW,
    _Required("entry_type"): sentence,
    _Required("initiate_flow"): {_Required("user"): sentence, key: sentence},
}
_NAMED = {_Required("name"): sentence, _Required("description"): sentence}
_ENTITY = {
    _Optional("name"): sentence,
    _Optional("state"): _by_key(plain),
    _Optional("state_attributes"): _by_key(
        {_Optional("name"): plain, _Optional("state"): _by_key(plain)}
    ),
    _Optional("unit_of_measurement"): plain,
}
# What can be mended tells the rest in the steps of mending it.
_ISSUE = probatio.Any(
    {_Required("title"): sentence, _Required("description"): sentence},
    {_Required("title"): sentence, _Required("fix_flow"): _FLOW},
)

SCHEMA = probatio.Schema(
    {
        _Optional("common"): _by_key(sentence),
        _Optional("config"): _FLOW,
        _Optional("config_subentries"): _by_key(_SUBENTRY_FLOW),
        _Optional("device"): _by_key({_Required("name"): sentence}),
        _Optional("entity"): _by_key(_by_key(_ENTITY)),
        _Optional("exceptions"): _by_key({_Required("message"): sentence}),
        _Optional("issues"): _by_key(_ISSUE),
        _Optional("options"): _FLOW,
        _Optional("selector"): _by_key({_Required("options"): _by_key(sentence)}),
        _Optional("services"): _by_key(
            {
                **_NAMED,
                _Optional("fields"): _by_key(
                    {**_NAMED, _Optional("example"): sentence}
                ),
                _Optional("sections"): _by_key(_NAMED),
            }
        ),
        _Optional("system_health"): {_Required("info"): _by_key(sentence)},
    }
)
