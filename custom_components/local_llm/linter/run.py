"""Looks through one template by rendering it in many scenes, each of which differs from another in one thing only.

What differs in the text then changes because of that thing. Runs on a thread of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
import re
from typing import Any

from homeassistant.core import HomeAssistant, State, valid_entity_id
from homeassistant.exceptions import TemplateError
from homeassistant.util import dt as dt_util

from ..const import DOMAIN
from .findings import Finding, Kind, Lint
from .moments import SCENES_OF_A_DAY, changes_per_day
from .scene import Scene, SceneEnvironment, SceneStates, copy_of
from .trace import Rendering, TracedTemplate
from .values import attributes_with, values_to_try

_MAX_BASES = 8
_MAX_SOURCES = 60
_MAX_TEXT = 120
_OPAQUE = -1
# A list that nobody made one of prints the place in memory where it happens to be.
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")


class LintRun:
    """Looks through one template; what it has found when it is stopped stays found."""

    def __init__(self, hass: HomeAssistant, source: str) -> None:
        """Take the states as they are now. `has_rendered` tells whether the template could be rendered at all."""
        self.lint = Lint()
        self.has_rendered = False
        self.states = SceneStates(hass.states.async_all())
        self._hass = hass
        self._source = source
        self._template: TracedTemplate
        self._environment: SceneEnvironment
        self._bases: list[Scene] = []
        self._known: set[int] = set()
        self._found: set[int] = set()

    def run(self) -> None:
        """Find everything."""
        self._environment = SceneEnvironment(self._hass, self.states)
        self._template = TracedTemplate(self._source, self._environment)
        # What fails now is an error; what only another scene lets fail is not.
        self.lint.text = self._template.render(Scene(moment=dt_util.now())).text
        self.has_rendered = True
        # Tomorrow: whatever happened in the house until now has happened before.
        noon = dt_util.start_of_local_day() + timedelta(days=1, hours=12)
        self._bases.append(Scene(moment=noon))
        for index, scene in enumerate(self._bases):
            base = self._render(scene)
            if base is None:
                continue
            if not index:
                self.lint.text = base.text
            for (site, _), seen in base.seen.items():
                if _ADDRESS.search(str(seen.value)):
                    self._note(base, site, Kind.OTHER)
            self._compare(base, [scene], Kind.OTHER)
            self._check_clock(scene, base)
            self._compare(
                base, [replace(scene, draw=draw) for draw in range(1, 8)], Kind.RANDOM
            )
            self._compare(
                base,
                [replace(scene, user_name=name) for name in ("Ada", "Zoe")],
                Kind.USER,
            )
            self._check_states(scene, base)

    def _render(self, scene: Scene) -> Rendering | None:
        """Render a scene; one that shows a site for the first time becomes a base to compare with, too."""
        try:
            rendering = self._template.render(scene)
        except TemplateError:
            return None
        sites = {site for site, _ in rendering.seen}
        if self._bases and sites - self._known and len(self._bases) < _MAX_BASES:
            self._bases.append(scene)
        self._known |= sites
        return rendering

    def _compare(
        self,
        base: Rendering,
        scenes: Sequence[Scene],
        kind: Kind,
        source: str | None = None,
        attribute: str | None = None,
    ) -> bool:
        """Note what differs from the base in any of these scenes; tell whether anything did."""
        differs = False
        for scene in scenes:
            other = self._render(scene)
            for site in self._differing(base, other):
                differs = True
                self._note(base, site, kind, source=source, attribute=attribute)
        return differs

    def _differing(self, base: Rendering, other: Rendering | None) -> set[int]:
        """Return the sites that make two renderings differ."""
        if other is None or base.text == other.text:
            return set()
        sites = self._template.sites
        changed = {
            key[0]
            for key, seen in base.seen.items()
            if key in other.seen and other.seen[key].value != seen.value
        }
        # What stands in a branch that was not taken, or in a loop that ran longer, is not the cause.
        causes = {site for site in changed if not changed & set(self._ancestors(site))}
        return (
            {site for site in causes if not sites[site].is_quiet} or causes or {_OPAQUE}
        )

    def _ancestors(self, site: int) -> Iterator[int]:
        parent = self._template.sites[site].parent
        while parent is not None:
            yield parent
            parent = self._template.sites[parent].parent

    def _note(self, base: Rendering, index: int, kind: Kind, **facts: Any) -> None:
        if index in self._found:
            return
        self._found.add(index)
        if index == _OPAQUE:
            line = next(iter(self._template.opaque_lines), 1)
            finding = Finding(line=line, text=self._text_of(line), kind=kind, **facts)
        else:
            site = self._template.sites[index]
            seen = base.seen[index, 0]
            finding = Finding(
                line=site.line,
                text=self._text_of(site.line),
                kind=kind,
                position=seen.position,
                span=site.span,
                value=str(seen.value) if site.is_expression else None,
                **facts,
            )
        self.lint.findings.append(finding)

    def _text_of(self, line: int) -> str:
        return self._source.split("\n")[line - 1].strip()[:_MAX_TEXT]

    def _check_clock(self, scene: Scene, base: Rendering) -> None:
        """Render through a day: what changes once in it changes with the date, and may."""
        if not self._environment.clock_was_read:
            return
        day = dt_util.start_of_local_day(scene.moment)
        found: dict[str, list[set[int]]] = {series: [] for series in SCENES_OF_A_DAY}
        try:
            for series, offsets in SCENES_OF_A_DAY.items():
                for first, second in self._neighbours(scene, day, offsets):
                    found[series].append(self._differing(first, second))
        finally:
            # Where the time for this ends, what differed until then is known all the same.
            self._note_clocks(base, found)

    def _note_clocks(
        self, base: Rendering, found: Mapping[str, Sequence[set[int]]]
    ) -> None:
        """Note what changes more than once a day, by the sites that differed in each series of moments."""
        for site in set().union(
            *(sites for series in found.values() for sites in series)
        ):
            per_day = changes_per_day(
                {
                    series: sum(site in sites for sites in differing)
                    for series, differing in found.items()
                }
            )
            if per_day > 1:
                self._note(base, site, Kind.CLOCK, changes_per_day=per_day)

    def _neighbours(
        self, scene: Scene, day: Any, offsets: Sequence[timedelta]
    ) -> Iterator[tuple[Rendering, Rendering]]:
        """Yield the renderings at each two moments of a day that follow each other."""
        earlier: Rendering | None = None
        for offset in offsets:
            later = self._render(replace(scene, moment=day + offset))
            if earlier and later:
                yield earlier, later
            earlier = later

    def _check_states(self, scene: Scene, base: Rendering) -> None:
        """Change the states that were asked for, one entity or domain after the other."""
        done: set[str | None] = set()
        while len(done) < _MAX_SOURCES:
            asked = {*self.states.domains, *self.states.entities} - done
            if not asked:
                break
            source = min(asked, key=lambda name: name or "")
            done.add(source)
            self._change(scene, base, source)
        for domain in self.states.counted | self.states.domains:
            made_up = f"{domain or 'sensor'}.{DOMAIN}_made_up"
            more = [
                self._with(scene, {made_up: State(made_up, value)})
                for value in ("on", "off", "unknown")
            ]
            self._compare(base, more, Kind.COUNT, domain)

    def _change(self, scene: Scene, base: Rendering, source: str | None) -> None:
        """Give an entity, or all of a domain, other values, then other attributes."""
        is_entity = source is not None and "." in source
        entities = [source] if is_entity else self.states.entity_ids(source)
        states = [
            self.states.peek(entity) or State(entity, "unknown")
            for entity in entities
            if entity and valid_entity_id(entity)
        ]
        values = values_to_try(self._template.constants)
        changed = scene.moment - timedelta(minutes=1)
        for value in values:
            over = {
                state.entity_id: copy_of(state, value, changed=changed)
                for state in states
            }
            self._compare(base, [self._with(scene, over)], Kind.STATE, source)
        for value in values:
            attributes = {
                state.entity_id: attributes_with(state, value, self._template.names)
                for state in states
            }
            self._change_attributes(scene, base, source, states, attributes)

    def _change_attributes(
        self,
        scene: Scene,
        base: Rendering,
        source: str | None,
        states: Sequence[State],
        attributes: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """Change all attributes at once; where that tells, find out which."""

        def scene_with(names: Mapping[str, Any] | None) -> Scene:
            over = {}
            for state in states:
                others = attributes[state.entity_id]
                changed = {
                    name: value
                    for name, value in others.items()
                    if names is None or name in names
                }
                over[state.entity_id] = copy_of(
                    state, attributes={**state.attributes, **changed}
                )
            return self._with(scene, over)

        names = dict.fromkeys(name for others in attributes.values() for name in others)
        if not names or not self._differing(base, self._render(scene_with(None))):
            return
        for name in names:
            self._compare(
                base, [scene_with({name: None})], Kind.ATTRIBUTE, source, name
            )

    def _with(self, scene: Scene, states: Mapping[str, State]) -> Scene:
        return replace(scene, states={**scene.states, **states})
