"""What in instructions changes faster than daily: the right line, for the right reason, and silence about all else."""

from datetime import UTC, datetime
import threading
from unittest.mock import patch

from freezegun.api import FrozenDateTimeFactory
import pytest

from custom_components.local_llm.linter import linter, scene as template_scene
from custom_components.local_llm.linter.findings import Lint
from custom_components.local_llm.linter.linter import SlowTemplateError, async_lint
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import TemplateError
from homeassistant.helpers import area_registry as ar, entity_registry as er, llm
from homeassistant.helpers.template import Template, async_load_custom_templates


@pytest.fixture(autouse=True)
def _house(hass: HomeAssistant) -> None:
    """Give the templates something to look at."""
    for name, state in (("kitchen", "on"), ("hall", "off"), ("attic", "off")):
        hass.states.async_set(
            f"light.{name}",
            state,
            {"friendly_name": name.title(), "brightness": 100, "dynamic": False},
        )
    hass.states.async_set("weather.home", "rainy", {"temperature": 7.5})
    hass.states.async_set("person.ada", "home", {"latitude": 1.5, "editable": True})
    hass.states.async_set(
        "zone.home", "1", {"latitude": 1.5, "longitude": 2.5, "radius": 100}
    )
    hass.states.async_set("input_boolean.guests", "off", {"icon": "mdi:bed"})
    area = ar.async_get(hass).async_create("Kitchen")
    lamp = er.async_get(hass).async_get_or_create("light", "test", "kitchen")
    er.async_get(hass).async_update_entity(lamp.entity_id, area_id=area.id)


def told(lint: Lint) -> list[tuple[object, ...]]:
    """What is told of each finding: line, kind, and on what it depends."""
    return [
        (
            finding.line,
            str(finding.kind),
            *(
                fact
                for fact in (finding.source, finding.attribute, finding.changes_per_day)
                if fact is not None
            ),
        )
        for finding in lint.findings
    ]


CLASSIC = """\
You are a voice assistant for Home Assistant.
It is {{ now().strftime('%d/%m/%Y, %H:%M') }}.
Outside it is {{ state_attr('weather.home', 'temperature') }} degrees.
The forecast: {{ states('input_text.forecast') }}
Answer in one sentence."""

GREETING = """
{% if now().hour < 12 %}
Good morning.
{{ 1 + 1 }}
{% elif now().hour < 18 %}
Hello.
{% else %}
Good evening.
{% endif %}
Be kind."""

SAID_LATER = """\
{% set clock = now() %}
{%- set lamp = states('light.hall') -%}
{% if lamp == 'on' %}{% set word = 'lit' %}{% else %}{% set word = 'dark' %}{% endif %}
Be kind.
It is {{ clock }}.
The hall is {{ word }}."""

MACRO = """\
{% macro clock() %}
{{ now().strftime('%H:%M') }}
{% endmacro %}
Be kind.
{{ clock() }}"""

CALL = """\
{% macro frame() %}<{{ caller() }}>{% endmacro %}
Be kind.
{% call frame() %}{{ now() }}{% endcall %}"""

LOOP = """\
These lights are on:
{% for light in states.light if light.state == 'on' %}
- {{ light.name }}
{% else %}
None.
{% endfor %}"""

MANY_LINES = """\
Be kind.
{{
  now()
    | as_timestamp
    | timestamp_custom('%H:%M')
}}"""

QUIET = """\
{% set found = namespace(lit=0) %}
{% for light in states.light %}{% if light.state == 'on' %}
{% set found.lit = found.lit + 1 %}
{% endif %}{% endfor -%}
{{ found.lit }} lights are on."""

HIDDEN = """\
{% if is_state('input_boolean.guests', 'on') %}
Guests are here since
{{ now().strftime('%H:%M') }}.
{% endif %}"""

MASKED = """\
{# {{ now() }} {% if x %} #}
{% raw %}{{ now() }}{% endraw %} }}
{{ '}}' }} {{ "\\"" }}
{{ states('light.hall') }}"""


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        (
            CLASSIC,
            [
                (2, "clock", 1440),
                (3, "attribute", "weather.home", "temperature"),
                (4, "state", "input_text.forecast"),
            ],
        ),
        ("Be kind.\n{{ ['a', 'b'] | random }}", [(2, "random")]),
        ("{{ shuffle(['a', 'b']) | first }}", [(1, "random")]),
        ("Hello\n{{ user_name }}", [(2, "user")]),
        ("{% if user_name == 'Ada' %}Hi{% endif %}", [(1, "user")]),
        ("\n\nThere are\n{{ states | count }}", [(4, "count")]),
        ("{{ states.light | count }}", [(1, "count", "light")]),
        ("{{ states.light | map(attribute='name') | list }}", [(1, "count", "light")]),
        ("{{ now() }}", [(1, "clock", 86400)]),
        ("{{ now().second < 20 }}", [(1, "clock", 1440)]),
        ("{{ now().minute == 7 }}", [(1, "clock", 48)]),
        ("{{ now().strftime('%p') }}", [(1, "clock", 2)]),
        ("{{ now() > today_at('07:15') }}", [(1, "clock", 2)]),
        ("{{ utcnow().isoformat() }}", [(1, "clock", 86400)]),
        (
            "{{ time_since(states.person.ada.last_changed, 2) }}",
            [(1, "clock", 32)],
        ),
        ("{{ time_until(today_at() + timedelta(days=3), 0) }}", [(1, "clock", 86400)]),
        (
            "Be kind.\n{{ as_timestamp(now()) | timestamp_custom('%H:%M') }}",
            [(2, "clock", 1440)],
        ),
        (GREETING, [(2, "clock", 2)]),
        (SAID_LATER, [(5, "clock", 86400), (6, "state", "light.hall")]),
        (MACRO, [(5, "clock", 1440)]),
        (CALL, [(3, "clock", 86400)]),
        (LOOP, [(2, "state", "light"), (2, "count", "light")]),
        (MANY_LINES, [(3, "clock", 1440)]),
        (QUIET, [(5, "state", "light")]),
        (HIDDEN, [(1, "state", "input_boolean.guests"), (3, "clock", 1440)]),
        (MASKED, [(4, "state", "light.hall")]),
        (
            "{% if is_state('alarm_control_panel.home', 'armed_away') %}\nHush.\n{% endif %}",
            [(1, "state", "alarm_control_panel.home")],
        ),
        (
            "{{ 'hot' if states('sensor.power') | float(0) > 512 else 'cold' }}",
            [(1, "state", "sensor.power")],
        ),
        ("{{ states['light.hall'].state }}", [(1, "state", "light.hall")]),
        (
            "{{ states.light.hall.attributes.brightness }}",
            [(1, "attribute", "light.hall", "brightness")],
        ),
        (
            "{{ state_attr('person.ada', 'latitude') }}",
            [(1, "attribute", "person.ada", "latitude")],
        ),
        (
            "{{ states.light | map(attribute='attributes.brightness') | list }}",
            [(1, "attribute", "light", "brightness")],
        ),
        (
            "{{ expand(area_entities('Kitchen')) | selectattr('state', 'eq', 'on') | list | count }}",
            [(1, "state", "light.test_kitchen")],
        ),
        (
            "{{ states | selectattr('state', 'eq', 'unavailable') | list | count }}",
            [(1, "state")],
        ),
        (
            "{{ is_state_attr('light.hall', 'dynamic', True) }}",
            [(1, "attribute", "light.hall", "dynamic")],
        ),
        (
            "{% for name, value in states.light.hall.attributes.items() %}{{ value }}{% endfor %}",
            [(1, "attribute", "light.hall", "brightness")],
        ),
        ("{{ llm_context.context.id }}", [(1, "other")]),
        ("{{ states.light | map(attribute='name') }}", [(1, "other")]),
        (
            "{{ now().hour }}:{{ now().minute }}",
            [(1, "clock", 24), (1, "clock", 1440)],
        ),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else "",
)
async def test_finds(
    hass: HomeAssistant, instructions: str, expected: list[tuple[object, ...]]
) -> None:
    assert told(await async_lint(hass, instructions)) == expected


@pytest.mark.parametrize(
    "instructions",
    [
        llm.DEFAULT_INSTRUCTIONS_PROMPT,
        "You are Jarvis. now() is_state('sun.sun', 'x') {once}",
        "{{ now().date() }}",
        "Today is {{ now().strftime('%A %d %B') }}.",
        "{{ utcnow().date() }}",
        "{{ (now() - timedelta(days=1)).strftime('%j') }}",
        "{% if now().weekday() > 4 %}It is the weekend.{% endif %}",
        "{{ (today_at() + timedelta(days=1)).date() }}",
        "{{ relative_time(now() - timedelta(hours=30)) }}",
        "{{ time_since('never') }} {{ time_until(as_datetime('2020-01-01')) }}",
        "This is {{ ha_name }}, speaking {{ llm_context.language }}.",
        "{{ area_entities('Kitchen') }} {{ area_name('Kitchen') }}",
        "{{ state_attr('light.hall', 'friendly_name') }} {{ states.light.hall.name }}",
        "{{ state_attr('zone.home', 'latitude') }}",
        "{{ shuffle(['a', 'b'], seed='x') }} {{ ['a', 'b'] | shuffle(5) }}",
        "{{ ['a', 'b'] | first }} {{ range(3) | list }}",
        "{% for word in ['a', 'b'] %}{{ word }}{% if loop.first %}{% continue %}{% endif %}{% endfor %}",
        "{% set clock = now() %}{% set lamp = states('light.hall') %}Be kind.",
        "{% if is_state('light.hall', 'on') %}Hi{% else %}Hi{% endif %}",
        "{{ states.sensor | list | count > 1000 }}",
        "",
    ],
)
async def test_is_silent(hass: HomeAssistant, instructions: str) -> None:
    assert told(await async_lint(hass, instructions)) == []


async def test_tells_what_the_line_is_and_where_it_stands(hass: HomeAssistant) -> None:
    source = f"\n\nBe kind.\n  It is {{{{ now() }}}}, {'so ' * 60}.\n"
    lint = await async_lint(hass, source)
    (finding,) = lint.findings
    assert finding.line == 4
    assert finding.text.startswith("It is {{ now() }}, so so")
    assert len(finding.text) == 120
    assert lint.text.startswith("Be kind.\n  It is 2026-12-01 12:00:00")
    assert lint.text[: finding.position] == "Be kind.\n  It is "
    assert finding.span is not None
    assert source[slice(*finding.span)] == "{{ now() }}"


async def test_a_condition_is_taken_whole(hass: HomeAssistant) -> None:
    (finding,) = (await async_lint(hass, GREETING)).findings
    assert finding.span is not None
    assert GREETING[slice(*finding.span)] == GREETING[1:-9]
    assert finding.value is None


async def test_whitespace_alone_counts_too(hass: HomeAssistant) -> None:
    """It is read again like everything else."""
    lint = await async_lint(
        hass, "{% if is_state('light.hall', 'on') %}\n\n{% endif %}Be kind."
    )
    assert told(lint) == []
    lint = await async_lint(
        hass, "Be\n{% if is_state('light.hall', 'on') %}\n\n{% endif %}kind."
    )
    assert told(lint) == [(2, "state", "light.hall")]


async def test_an_included_template_is_told_by_the_line_that_includes_it(
    hass: HomeAssistant, tmp_path: object
) -> None:
    with patch(
        "homeassistant.helpers.template._load_custom_templates",
        return_value={
            "clock.jinja": "{{ now() }}",
            "tools.jinja": "{% macro clock() %}{{ now() }}{% endmacro %}",
        },
    ):
        await async_load_custom_templates(hass)
    lint = await async_lint(hass, "Be kind.\n{% include 'clock.jinja' %}")
    assert told(lint) == [(2, "clock", 86400)]
    lint = await async_lint(
        hass, "{% from 'tools.jinja' import clock %}\n\n{{ clock() }}"
    )
    assert told(lint) == [(3, "clock", 86400)]


@pytest.mark.parametrize(
    "broken",
    [
        "{{ broken",
        "{{ 1 / 0 }}",
        "{{ nothing.at.all }}",
        "{{ today_at('late') }}",
        "{{ [] | random }}",
        "{{ 'x' * 300000 }}",
        "{{ states['not an entity.'] }}",
        "{{ raise('x') }}",
    ],
)
async def test_what_cannot_be_rendered_is_an_error(
    hass: HomeAssistant, broken: str
) -> None:
    with pytest.raises(TemplateError):
        await async_lint(hass, broken)


async def test_what_fails_in_another_scene_alone_is_none(hass: HomeAssistant) -> None:
    hass.states.async_set("sensor.power", "12")
    lint = await async_lint(hass, "{{ states('sensor.power') | int }}")
    assert told(lint) == [(1, "state", "sensor.power")]
    lint = await async_lint(
        hass, "{% if now().day == 1 %}{{ 1 / 0 }}{% endif %}{{ now() }}"
    )
    assert told(lint) == []


SLOW = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"


async def test_slow_instructions_are_refused_and_stopped(hass: HomeAssistant) -> None:
    with patch.object(linter, "TIMEOUT_SECONDS", 0.2), pytest.raises(SlowTemplateError):
        await async_lint(hass, SLOW)
    assert not any("linter" in thread.name for thread in threading.enumerate())


async def test_what_was_found_before_time_ran_out_is_told(hass: HomeAssistant) -> None:
    text = (
        f"{{{{ now() }}}}{{% if is_state('light.hall', 'home') %}}{SLOW}{{% endif %}}"
    )
    with patch.object(linter, "TIMEOUT_SECONDS", 1.0):
        assert told(await async_lint(hass, text)) == [(1, "clock", 86400)]


async def test_a_clock_in_instructions_that_take_their_time_is_found(
    hass: HomeAssistant,
) -> None:
    """In a big house there may be no time to go through a whole day."""
    some_time = "{% for a in range(90000) %}{% endfor %}" * 16
    with patch.object(linter, "TIMEOUT_SECONDS", 1.0):
        lint = await async_lint(hass, f"{{{{ now().minute }}}}\n{some_time}")
    assert [(found.line, found.kind) for found in lint.findings] == [(1, "clock")]


@pytest.mark.parametrize(
    "text",
    [
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{% for a in [1] %}" * 30 + "{% endfor %}" * 30,
        "{% if 1 %}" * 400 + "{% endif %}" * 400,
    ],
    ids=["brackets", "loops", "conditions"],
)
async def test_instructions_that_lie_too_deep_in_each_other_are_refused(
    hass: HomeAssistant, text: str
) -> None:
    with pytest.raises(TemplateError):
        await async_lint(hass, text)


async def test_a_fault_of_our_own_is_no_finding(hass: HomeAssistant) -> None:
    with (
        patch.object(
            template_scene.SceneEnvironment, "set_scene", side_effect=KeyError
        ),
        pytest.raises(KeyError),
    ):
        await async_lint(hass, "{{ now() }}")


async def test_many_entities_are_looked_at_up_to_a_number(hass: HomeAssistant) -> None:
    text = "".join(f"{{{{ states('sensor.s{n}') }}}}\n" for n in range(70))
    lint = await async_lint(hass, text)
    assert 50 < len(lint.findings) <= 60


async def test_leaves_nothing_of_a_scene_behind(hass: HomeAssistant) -> None:
    text = "{{ states('light.hall') }} {{ states.light.hall.name }} {{ utcnow() }}"
    before = [state.as_dict() for state in hass.states.async_all()]
    await async_lint(hass, text)
    assert [state.as_dict() for state in hass.states.async_all()] == before
    rendered = Template(text, hass).async_render(parse_result=False)
    assert rendered == "off Hall 2026-11-30 14:05:00+00:00"


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/St_Johns", "UTC"])
@pytest.mark.parametrize("hour", [0, 11, 23])
async def test_a_date_is_a_date_wherever_the_house_stands(
    hass: HomeAssistant, freezer: FrozenDateTimeFactory, zone: str, hour: int
) -> None:
    """Also on a day on which the clocks are changed."""
    await hass.config.async_set_time_zone(zone)
    for day in (
        datetime(2026, 11, 30, hour, 59, tzinfo=UTC),
        datetime(2026, 4, 4, hour, tzinfo=UTC),
    ):
        freezer.move_to(day)
        lint = await async_lint(
            hass, "{{ now().date() }} {{ utcnow().date() }}\n{{ now().hour }}"
        )
        assert [finding.line for finding in lint.findings] == [2]
