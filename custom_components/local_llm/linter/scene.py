"""Made-up scenes for a template: another moment, another draw of lots, another asker, other states.

Home Assistant's own template environment with other clocks, lots and states put in; knows nothing of what is looked for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, cast, override

from jinja2 import pass_context

from homeassistant.core import Context, HomeAssistant, State, valid_domain
from homeassistant.helpers import llm
from homeassistant.helpers.template import TemplateEnvironment
from homeassistant.helpers.template.states import AllStates, DomainStates, TemplateState
from homeassistant.util import dt as dt_util

from ..const import DOMAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """When a template is rendered, how lots fall, who asks, and which states are others than they are."""

    moment: datetime
    draw: int = 0
    user_name: str | None = None
    states: Mapping[str, State] = field(default_factory=dict)


class SceneStates:
    """Home Assistant's states as they were when this was made, those of a scene put over them.

    Notes what is asked for: `entities`, all states of `domains`, and how many there are in `counted`
    ones; None stands for all domains.
    """

    def __init__(self, states: Iterable[State]) -> None:
        """Keep the states; a template sees copies, so that it leaves nothing behind in Home Assistant's caches."""
        self._real = {state.entity_id: state for state in states}
        self._copies: dict[str, State] = {}
        self.over: Mapping[str, State] = {}
        self.entities: set[str] = set()
        self.domains: set[str | None] = set()
        self.counted: set[str | None] = set()

    def get(self, entity_id: str) -> State | None:
        """Return a state, as Home Assistant's state machine does."""
        self.entities.add(entity_id.lower())
        return self.peek(entity_id.lower())

    def peek(self, entity_id: str) -> State | None:
        """Return a state and take no note of it."""
        if entity_id in self.over:
            return self.over[entity_id]
        if entity_id not in self._copies and (real := self._real.get(entity_id)):
            self._copies[entity_id] = copy_of(real)
        return self._copies.get(entity_id)

    def of(self, domain: str | None) -> list[State]:
        """Return the states of a domain, or all."""
        self.domains.add(domain)
        found = (self.peek(entity_id) for entity_id in self.entity_ids(domain))
        return [state for state in found if state]

    def async_entity_ids_count(self, domain: str | None = None) -> int:
        """Count the entities, as Home Assistant's state machine does."""
        self.counted.add(domain)
        return len(self.entity_ids(domain))

    def forget(self) -> None:
        """Let go of all states: Home Assistant's caches may hold this for a while."""
        self._real.clear()
        self._copies.clear()
        self.over = {}

    def entity_ids(self, domain: str | None) -> list[str]:
        """Name the entities of a domain, or all, and take no note of it."""
        start = f"{domain}." if domain else ""
        return [
            entity_id
            for entity_id in {**self._real, **self.over}
            if entity_id.startswith(start)
        ]


def copy_of(
    state: State,
    value: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    changed: datetime | None = None,
) -> State:
    """Return a state like another, with other values where they are given."""
    return State(
        state.entity_id,
        state.state if value is None else value,
        state.attributes if attributes is None else attributes,
        last_changed=changed or state.last_changed,
        last_updated=changed or state.last_updated,
        validate_entity_id=False,
    )


class SceneEnvironment(TemplateEnvironment):
    """Home Assistant's template environment, which sees the scene that is set in it.

    `clock_was_read` tells whether any template has asked for the time.
    """

    def __init__(self, hass: HomeAssistant, states: SceneStates) -> None:
        """Begin with the scene of now; nothing that is undefined is logged."""
        view = cast("HomeAssistant", _HouseView(hass, states))
        super().__init__(view, log_fn=lambda level, message: None)
        self._house = hass
        self._states = states
        self._scene = Scene(moment=dt_util.now())
        self.clock_was_read = False
        self._shuffle: Callable[..., list[Any]] = cast("Any", self.globals["shuffle"])
        self.globals["states"] = _SceneAllStates(view)
        for name in ("now", "utcnow"):
            self.globals[name] = _fresh(getattr(self, f"_{name}"))
        for name in ("today_at", "relative_time", "time_since", "time_until"):
            self.globals[name] = self.filters[name] = _fresh(getattr(self, f"_{name}"))
        self.filters["random"] = _fresh(self._random)
        self.globals["shuffle"] = self.filters["shuffle"] = _fresh(self._shuffled)

    def set_scene(self, scene: Scene) -> dict[str, Any]:
        """Put a scene in, and return the variables that instructions are rendered with."""
        self._scene = scene
        self._states.over = scene.states
        return {
            "ha_name": self._house.config.location_name,
            "user_name": scene.user_name,
            "llm_context": llm.LLMContext(
                platform=DOMAIN,
                context=Context(),
                language=self._house.config.language,
                assistant="conversation",
                device_id=None,
            ),
        }

    def _now(self) -> datetime:
        self.clock_was_read = True
        return self._scene.moment

    def _utcnow(self) -> datetime:
        return dt_util.as_utc(self._now())

    def _today_at(self, time_str: str = "") -> datetime:
        today = dt_util.start_of_local_day(self._now())
        if not time_str:
            return today
        if (time_today := dt_util.parse_time(time_str)) is None:
            raise ValueError(f"could not convert to datetime: {time_str!r}")
        return datetime.combine(today, time_today, today.tzinfo)

    def _relative_time(self, value: Any) -> Any:
        return self._time_since(value)

    def _time_since(self, value: Any, precision: int = 1) -> Any:
        return self._distance(value, precision, 1)

    def _time_until(self, value: Any, precision: int = 1) -> Any:
        return self._distance(value, precision, -1)

    def _distance(self, value: Any, precision: int, direction: int) -> Any:
        """Say how far a moment lies in the past (1) or the future (-1); what lies elsewhere is returned as it is."""
        if not isinstance(value, datetime):
            return value
        value = value if value.tzinfo else dt_util.as_local(value)
        distance = (self._now() - value) * direction
        if distance < timedelta():
            return value
        return dt_util.timedelta_string(distance, precision)

    def _random(self, values: Any) -> Any:
        return values[self._scene.draw % len(values)]

    def _shuffled(self, *args: Any, seed: Any = None) -> list[Any]:
        """Turn a list as far as the draw says; with a seed the order is always the same."""
        is_list = (
            args and isinstance(args[0], Iterable) and not isinstance(args[0], str)
        )
        is_seeded = seed or (is_list and len(args) > 1)
        if is_seeded:
            return self._shuffle(*args, seed=seed)
        items = self._shuffle(*args, seed=DOMAIN)
        turn = self._scene.draw % (len(items) or 1)
        return [*items[turn:], *items[:turn]]


class _HouseView:
    """Home Assistant with other states."""

    def __init__(self, hass: HomeAssistant, states: SceneStates) -> None:
        self._hass = hass
        self.states = states

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hass, name)


class _SceneAllStates(AllStates):
    """`states` in a template; keeps clear of Home Assistant's caches, which would hold a scene for ever."""

    __slots__ = ()

    @override
    def __getattr__(self, name: str) -> Any:
        # Jinja looks for marks on whatever it calls.
        is_mark = name.startswith("jinja_") or name.endswith("function")
        if not valid_domain(name) or is_mark:
            return super().__getattr__(name)
        return _SceneDomain(self._hass, name)

    __getitem__ = __getattr__

    @override
    def __iter__(self) -> Iterator[TemplateState]:  # type: ignore[override]
        return _wrapped(self._hass, None)


class _SceneDomain(DomainStates):
    """`states.light` in a template."""

    __slots__ = ()

    @override
    def __iter__(self) -> Iterator[TemplateState]:  # type: ignore[override]
        return _wrapped(self._hass, self._domain)


def _wrapped(hass: HomeAssistant, domain: str | None) -> Iterator[TemplateState]:
    states = cast("SceneStates", hass.states)
    for state in states.of(domain):
        yield TemplateState(hass, state, collect=False)


def _fresh(function: Any) -> Any:
    """Keep a filter of constants from being computed once and for all, when the template is compiled."""

    @wraps(function)
    def wrapper(_: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return pass_context(wrapper)
