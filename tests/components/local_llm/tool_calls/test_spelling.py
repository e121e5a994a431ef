"""Names are compared as people spell them."""

import pytest

from custom_components.local_llm.tool_calls.spelling import (
    folded,
    like,
    same_word,
    the_one,
)


@pytest.fixture(autouse=True)
def _use_custom_integrations() -> None:
    """Do without Home Assistant: these are plain functions."""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Işık", "IŞIK"),
        ("İstanbul Lambası", "istanbul lambası"),
        ("Außenlicht", "AUSSENLICHT"),
        ("寝室のライト２", "寝室のライト2"),
        ("Büro", "Bu\u0308ro"),
        ("Büro", "BURO"),
        ("Kitchen Floor Lamp", "kitchen_floor-lamp"),
        ('The "big"\nlamp', "the big lamp"),
        ("Anna's lamp", "Anna’s Lamp"),
        ("ガレージ", "ｶﾞﾚｰｼﾞ"),
    ],
)
def test_spellings_of_one_name(one: str, other: str) -> None:
    assert folded(one) == folded(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("か", "が"), ("Licht 1", "Licht 2"), ("กา", "กี"), ("🛋️", "🛏️"), ("Bar", "Bär 2")],
)
def test_names_that_differ(one: str, other: str) -> None:
    assert folded(one) != folded(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Lights", "light"), ("switches", "switch"), ("batteries", "Battery")],
)
def test_plurals(one: str, other: str) -> None:
    assert same_word(one, other)
    assert same_word(other, one)


def test_one_thing_is_found_and_no_other() -> None:
    known = {"Lamp": 1, "Glass": 2, "Glas": 3, "lamps!": 4, "Desk": 5, "desk": 5}
    assert the_one("lamp", known) == 1
    assert the_one("LAMPS", known) == 4
    assert the_one("glas", known) == 3
    assert the_one("glasss", known) == 2
    assert the_one("desks", known) == 5
    assert the_one("sofa", known) is None
    assert the_one("lamps", {"Lamp": 1, "LAMP": 2}) is None


def test_a_few_names_are_like_a_word() -> None:
    names = ["Kitchen", "Bedroom", "Kitchenette", "Living Room", "Room 1", "Room 2"]
    assert like("Kichten", names)[0] == "Kitchen"
    assert like("living", names) == ["Living Room"]
    assert len(like("room", names)) == 3
    assert like("Sauna", names) == []
