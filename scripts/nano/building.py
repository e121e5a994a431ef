"""Builds random houses: rooms, things, names and states.

Knows the words of a language, nothing of prompts and sentences.
"""

from dataclasses import replace
from random import Random

from .house import Area, House, Speaker, Thing
from .states import random_state
from .words import Words, odd_word

# How often a domain stands in a house, beside the others
_DOMAINS = {
    "light": 34,
    "switch": 13,
    "cover": 11,
    "sensor": 9,
    "climate": 6,
    "media_player": 7,
    "fan": 5,
    "lock": 3,
    "binary_sensor": 4,
    "scene": 3,
    "vacuum": 1.5,
    "input_boolean": 2,
    "humidifier": 1,
    "valve": 1,
    "lawn_mower": 0.7,
    "todo": 2,
}
_ROOMLESS = {"scene": 0.6, "input_boolean": 0.9, "todo": 1.0, "lawn_mower": 0.7}
# Ways to name a thing, and how often a house is named that way throughout
_STYLES = {"area": 45, "plain": 20, "mixed": 35}


def build_house(random: Random, words: Words, num_things: int) -> House:
    """Build a house of so many things."""
    areas = _areas(random, words, num_things)
    style = random.choices(list(_STYLES), list(_STYLES.values()))[0]
    case = random.choices(("title", "sentence", "lower"), (80, 15, 5))[0]
    things: dict[tuple[str, str], Thing] = {}
    if random.random() < 0.6:
        name = random.choice(words.things("weather"))[0]
        things[name.lower(), ""] = Thing(names=(name,), domain="weather")
    for _ in range(num_things * 4):
        if len(things) >= num_things:
            break
        thing = _thing(random, words, areas, style, case)
        # Two things may share their name, but then not their room.
        duplicates_allowed = style == "plain" and thing.area is not None
        room = thing.area.name if thing.area and duplicates_allowed else ""
        if (thing.name.lower(), room) not in things and (
            duplicates_allowed
            or not any(thing.name.lower() == name for name, _ in things)
        ):
            things[thing.name.lower(), room] = thing
    taken = {
        name for thing in things.values() for name in map(str.lower, thing.names)
    } | {area.name.lower() for area in areas}
    found = [_with_alias(random, words, thing, taken) for thing in things.values()]
    scripts = (
        random.sample(list(words.all("scripts")), random.choice((0, 0, 1, 2, 4)))
        if words.all("scripts")
        else []
    )
    return House(
        language=words.language,
        areas=tuple(areas),
        things=tuple(replace(thing, **random_state(random, thing)) for thing in found),
        scripts=tuple(sorted(scripts)),
    )


def random_speaker(random: Random, house: House) -> Speaker:
    """Choose from where somebody asks."""
    if random.random() < 0.2:
        return Speaker(device=False)
    area = (
        random.choice(house.areas) if house.areas and random.random() < 0.93 else None
    )
    return Speaker(area=area, timers=random.random() < 0.65)


def _areas(random: Random, words: Words, num_things: int) -> list[Area]:
    wanted = max(1, min(round(num_things / random.uniform(2.5, 8)), 16))
    floors = _floors(random, words)
    names: dict[str, str] = {}
    while len(names) < wanted:
        name = _area_name(random, words)
        names.setdefault(name.lower(), name)
    spare = [name for name in words.all("areas") if name.lower() not in names]
    areas = []
    for name in names.values():
        aliases: tuple[str, ...] = ()
        if spare and random.random() < 0.08:
            aliases = (spare.pop(random.randrange(len(spare))),)
        areas.append(
            Area(
                name=name,
                aliases=aliases,
                floor=random.choice(floors)
                if floors and random.random() < 0.9
                else None,
            )
        )
    return areas


def _floors(random: Random, words: Words) -> list[str]:
    """Choose names of floors; in training every third is odd."""
    listed = list(words.all("floors"))
    floors = random.sample(listed, min(random.choice((0, 0, 1, 2, 2, 3)), len(listed)))
    return [
        name
        if words.held_out or random.random() < 0.67
        else random.choice(("{} Floor", "{} Level", "Level {}", "{}")).format(
            odd_word(random, words)
        )
        for name in floors
    ]


def _area_name(random: Random, words: Words) -> str:
    roll = random.random()
    plain: str = random.choice(words.all("areas"))
    if roll < 0.55:
        return plain
    if roll < 0.63 and words.language == "en":
        persons = words.all("persons")
        person = (
            random.choice(persons)
            if words.held_out or random.random() < 0.5
            else odd_word(random, words)
        )
        return f"{person}'s {random.choice(('Room', 'Bedroom', 'Office', plain))}"
    if roll < 0.73:
        return f"{random.choice(words.all('qualifiers') or [odd_word(random, words)])} {plain}"
    return (
        odd_word(random, words)
        if random.random() < 0.5
        else f"{odd_word(random, words)} {plain}"
    )


def _thing(
    random: Random, words: Words, areas: list[Area], style: str, case: str
) -> Thing:
    known = [domain for domain in _DOMAINS if words.things(domain)]
    domain = random.choices(known, [_DOMAINS[domain] for domain in known])[0]
    noun, device_class = random.choice(words.things(domain))
    area = (
        None if random.random() < _ROOMLESS.get(domain, 0.04) else random.choice(areas)
    )
    name = _thing_name(random, words, noun, area, style)
    if case == "lower":
        name = name.lower()
    elif case == "sentence":
        first, _, rest = name.partition(" ")
        name = f"{first} {rest.lower()}" if rest else name
    return Thing(names=(name,), domain=domain, area=area, device_class=device_class)


def _thing_name(
    random: Random, words: Words, noun: str, area: Area | None, style: str
) -> str:
    roll = random.random()
    gap = "" if words.language == "ja" else " "
    if area and (style == "area" or (style == "mixed" and roll < 0.4)):
        if random.random() < 0.15:
            return gap.join(
                (area.name, random.choice(words.all("qualifiers") or [""]), noun)
            ).replace("  ", " ")
        return gap.join((area.name, noun))
    if style == "plain" and roll < 0.7:
        return noun
    choice = random.random()
    if choice < 0.20 and words.all("qualifiers"):
        return gap.join((random.choice(words.all("qualifiers")), noun))
    if choice < 0.30 and words.language == "en":
        return f"{random.choice(words.all('persons'))}'s {noun}"
    if choice < 0.38:
        return f"{noun}{gap}{random.randint(1, 9)}"
    if choice < 0.70:
        return gap.join((odd_word(random, words), noun))
    if choice < 0.88:
        return (
            odd_word(random, words)
            if random.random() < 0.6
            else f"{odd_word(random, words)} {odd_word(random, words)}"
        )
    return noun


def _with_alias(random: Random, words: Words, thing: Thing, taken: set[str]) -> Thing:
    if random.random() > 0.07:
        return thing
    noun = random.choice(words.things(thing.domain))[0]
    alias = random.choice(
        (
            odd_word(random, words),
            f"{odd_word(random, words)} {noun}",
            f"{random.choice(words.all('qualifiers') or ['X'])} {noun}",
        )
    )
    if alias.lower() in taken:
        return thing
    taken.add(alias.lower())
    return replace(thing, names=(thing.name, alias))
