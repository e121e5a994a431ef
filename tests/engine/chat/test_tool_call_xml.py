"""Calls in the XML-like form: what is meant is read, whatever models garble, or told to the model."""

import pytest

from .answers import parse, with_tokens
from .calls import LIGHT_SET, TURN_ON, TURNED_ON, Form, both_forms, light_call


@both_forms
@pytest.mark.parametrize(
    "body",
    [
        f"{TURN_ON}\n{TURN_ON}",
        '[{"name": "HassTurnOn", "arguments": {"name": "Fan"}}, {"name": "HassTurnOn", "arguments": {"name": "Fan"}}]',
    ],
    ids=["xml", "json"],
)
def test_two_calls_between_one_pair_of_tags(form: Form, body: str) -> None:
    assert parse(form(f"<tool_call>\n{body}\n</tool_call>")).calls == (
        TURNED_ON,
        TURNED_ON,
    )


@both_forms
def test_a_call_without_arguments_finishes(form: Form) -> None:
    body = "<function=GetDateTime>\n</function>"
    outcome = parse(form(f"<tool_call>\n{body}\n</tool_call>\nIt is late."))
    assert outcome.calls == (("GetDateTime", {}),)
    assert outcome.content == "It is late."


@both_forms
def test_the_schema_types_the_value(form: Form) -> None:
    outcome = parse(form(light_call("brightness", "\n40\n")), [LIGHT_SET])
    assert outcome.calls == (("HassLightSet", {"brightness": 40}),)


@both_forms
@pytest.mark.parametrize(
    "value", ["🛋️", "ğ", "寝室", "Bryn & Åse", "x<5", "a </b> <c", "</tool_call"]
)
def test_any_text_stays_as_it_is(form: Form, value: str) -> None:
    call = light_call("name", f"\n{value}\n")
    outcome = parse(form(f"{call}\nIt is {value}!"), [LIGHT_SET])
    assert outcome.calls == (("HassLightSet", {"name": value}),)
    assert outcome.content == f"It is {value}!"


@both_forms
@pytest.mark.parametrize(
    ("parameter", "value", "expected"),
    [
        ("brightness", "\n40\n</parameter2>\n", 40),
        ("name", "\nBüro</parameter_function>\n", "Büro"),
        ("name", "\nBüro\n</parameter>\n", "Büro"),
    ],
    ids=["numbered", "joined", "stray"],
)
def test_garbled_closing_tags(
    form: Form, parameter: str, value: str, expected: object
) -> None:
    outcome = parse(form(light_call(parameter, value)), [LIGHT_SET])
    assert outcome.calls == (("HassLightSet", {parameter: expected}),)
    assert outcome.content == ""


@both_forms
@pytest.mark.parametrize(
    "body",
    [
        "\n<function=HassTurnOn>\n<parameter=name>\nBüro</parameter_function>\n",
        "\n<function=HassTurnOn>\n<parameter=name>\nBüro\n</parameter>\n",
        "\n<function=HassTurnOn>\n<parameter=name>\nBüro\n</function>\n",
        '\n<function="HassTurnOn">\n<parameter="name">\nBüro\n</parameter>\n</function>\n',
        "<function='HassTurnOn'><parameter='name'>Büro</parameter></function>",
        "<function=HassTurnOn>\n</parameter>\n<parameter=name>\nBüro\n</parameter>\n</parameter>\n</function>",
    ],
    ids=[
        "joined tag",
        "no function tag",
        "no parameter tag",
        "quotes",
        "inline",
        "strays",
    ],
)
def test_markup_with_one_possible_meaning(form: Form, body: str) -> None:
    outcome = parse(form(f"<tool_call>{body}</tool_call>Done"))
    assert outcome.calls == (("HassTurnOn", {"name": "Büro"}),)
    assert outcome.content == "Done"


@both_forms
def test_a_forgotten_tag_between_parameters(form: Form) -> None:
    body = "<function=A>\n<parameter=x>\n1\n<parameter=y>\n2\n</parameter>\n</function>"
    outcome = parse(form(f"<tool_call>{body}</tool_call>"))
    assert outcome.calls == (("A", {"x": "1", "y": "2"}),)


@pytest.mark.parametrize("text", ["TRUE", "True", "true"])
def test_capitalised_boolean(text: str) -> None:
    outcome = parse(with_tokens(light_call("on", f"\n{text}\n")), [LIGHT_SET])
    assert outcome.calls == (("HassLightSet", {"on": True}),)


@both_forms
def test_a_value_of_the_wrong_type_is_handed_over_as_it_was_written(form: Form) -> None:
    outcome = parse(form(light_call("on", "\nmaybe\n")), [LIGHT_SET])
    assert outcome.calls == (("HassLightSet", {"on": "maybe"}),)
    assert outcome.content == ""


@both_forms
def test_a_value_keeps_markup_of_its_own(form: Form) -> None:
    value = "a </parameter> b </function> c"
    outcome = parse(form(light_call("name", f"\n{value}\n")), [LIGHT_SET])
    assert outcome.calls == (("HassLightSet", {"name": value}),)
