"""The weather tool."""

from datetime import timedelta
from typing import Any

from freezegun.api import FrozenDateTimeFactory
import pytest

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.llm import async_get_tools
from homeassistant.components.homeassistant import exposed_entities
from homeassistant.components.weather import WeatherEntityFeature
from homeassistant.core import Context, HomeAssistant, ServiceCall, SupportsResponse
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import llm
from homeassistant.util import dt as dt_util

from .conftest import AddScripted

TOOL = "local_llm__GetWeather"
ATTRIBUTES = {
    "friendly_name": "Home",
    "temperature": 18.0,
    "apparent_temperature": 16.0,
    "temperature_unit": "°C",
    "humidity": 70,
    "wind_speed": 11.0,
    "wind_speed_unit": "km/h",
    "wind_bearing": 225,
    "supported_features": 0,
}


@pytest.fixture(autouse=True)
async def _agent(scripted: AddScripted) -> None:
    await scripted()


async def api(hass: HomeAssistant, api_id: str = "assist") -> llm.APIInstance:
    context = llm.LLMContext(
        platform=DOMAIN,
        context=Context(),
        language="en",
        assistant="conversation",
        device_id=None,
    )
    return await llm.async_get_api(hass, api_id, context)


async def weather(hass: HomeAssistant, **args: Any) -> llm.ToolResult:
    return await (await api(hass)).async_call_tool(llm.ToolInput(TOOL, args))


def set_state(hass: HomeAssistant, state: str = "cloudy", **attributes: Any) -> None:
    known = {
        key: value
        for key, value in {**ATTRIBUTES, **attributes}.items()
        if value is not None
    }
    hass.states.async_set("weather.home", state, known)


async def test_tells_forecast_weather_and_time_in_this_order(
    hass: HomeAssistant,
) -> None:
    result = await weather(hass)
    assert not result.error
    assert list(result.data.items()) == [
        (
            "forecast",
            [
                {
                    "day": "Monday",
                    "condition": "rainy",
                    "high": "15 °C",
                    "low": "9 °C",
                    "rain": "80 %",
                },
                {
                    "day": "Tuesday",
                    "condition": "sunny",
                    "high": "17 °C",
                    "low": "8 °C",
                    "rain": "0 %",
                },
                {
                    "day": "Wednesday",
                    "condition": "sunny",
                    "high": "21 °C",
                    "low": "8 °C",
                    "rain": "0 %",
                },
            ],
        ),
        ("temperature_unit", "°C"),
        ("wind", "11 km/h from SW"),
        ("humidity", "70 %"),
        ("condition", "cloudy"),
        ("temperature", 18),
        ("apparent_temperature", 16),
        ("time", "14:05"),
    ]


async def test_tells_the_next_hours(hass: HomeAssistant) -> None:
    forecast = (await weather(hass, forecast="hourly")).data["forecast"]
    assert [entry["hour"] for entry in forecast] == [
        "15:00",
        "16:00",
        "17:00",
        "18:00",
        "19:00",
    ]
    assert forecast[0] == {
        "hour": "15:00",
        "condition": "rainy",
        "temperature": "17 °C",
    }


@pytest.mark.parametrize(
    ("wanted", "supported"),
    [
        (None, WeatherEntityFeature(0)),
        ("hourly", WeatherEntityFeature.FORECAST_DAILY),
        ("daily", WeatherEntityFeature.FORECAST_HOURLY),
    ],
    ids=["none at all", "no hours", "no days"],
)
async def test_says_that_there_is_no_forecast(
    hass: HomeAssistant, wanted: str | None, supported: WeatherEntityFeature
) -> None:
    set_state(hass, supported_features=supported)
    result = await weather(hass, **({"forecast": wanted} if wanted else {}))
    assert result.data["forecast"] == "not available"
    assert result.data["temperature"] == 18


async def forecasts(hass: HomeAssistant, *entries: dict[str, Any]) -> list[ServiceCall]:
    """Let Home Assistant's action give these entries."""
    asked: list[ServiceCall] = []

    async def answer(call: ServiceCall) -> dict[str, Any]:
        asked.append(call)
        if not entries:
            raise HomeAssistantError("offline")
        return {"weather.home": {"forecast": list(entries)}}

    hass.services.async_register(
        "weather", "get_forecasts", answer, supports_response=SupportsResponse.ONLY
    )
    return asked


async def test_half_days_are_told_apart(hass: HomeAssistant) -> None:
    set_state(hass, supported_features=WeatherEntityFeature.FORECAST_TWICE_DAILY)
    asked = await forecasts(
        hass,
        {
            "datetime": "2026-11-30T06:00:00+00:00",
            "condition": "sunny",
            "is_daytime": True,
        },
        {
            "datetime": "2026-11-30T18:00:00+00:00",
            "condition": None,
            "is_daytime": False,
        },
    )
    result = await weather(hass, forecast="daily")
    assert result.data["forecast"] == [
        {"day": "Monday", "condition": "sunny"},
        {"day": "Monday night"},
    ]
    assert asked[0].data["type"] == "twice_daily"


@pytest.mark.parametrize(
    "entries",
    [[], [{"datetime": "2026-11-29T12:00:00+00:00", "condition": "sunny"}]],
    ids=["failed", "over"],
)
async def test_a_forecast_that_tells_nothing_is_not_available(
    hass: HomeAssistant, entries: list[dict[str, Any]]
) -> None:
    set_state(hass, supported_features=WeatherEntityFeature.FORECAST_DAILY)
    await forecasts(hass, *entries)
    assert (await weather(hass)).data["forecast"] == "not available"


@pytest.mark.parametrize("value", ["n/a", float("nan"), float("inf"), [1]])
@pytest.mark.parametrize("key", ["temperature", "humidity", "wind_speed"])
async def test_what_is_no_number_is_not_told(
    hass: HomeAssistant, key: str, value: Any
) -> None:
    """Home Assistant hands on what an integration cannot know."""
    set_state(hass, **{key: value}, apparent_temperature=value)
    told = (await weather(hass)).data
    numbers = {"temperature", "humidity", "wind"}
    gone = key.removesuffix("_speed")
    assert told.keys() & numbers == numbers - {gone}
    assert "apparent_temperature" not in told


async def test_a_bearing_may_be_a_word_or_nothing(hass: HomeAssistant) -> None:
    for bearing, wind in (("SSW", "11 km/h from SSW"), (float("nan"), "11 km/h")):
        set_state(hass, wind_bearing=bearing)
        assert (await weather(hass)).data["wind"] == wind


async def test_a_forecast_is_told_in_order_without_what_has_no_time(
    hass: HomeAssistant,
) -> None:
    set_state(hass, supported_features=WeatherEntityFeature.FORECAST_DAILY)
    await forecasts(
        hass,
        {"datetime": "2026-12-02T12:00:00", "temperature": float("nan")},
        {"datetime": None, "condition": "fog"},
        {"condition": "fog"},
        {"datetime": "soon", "condition": "fog"},
        {"datetime": dt_util.now(), "wind_bearing": 7},
        {"datetime": "2026-12-01T12:00:00+00:00", "condition": "sunny"},
    )
    assert (await weather(hass)).data["forecast"] == [
        {"day": "Monday"},
        {"day": "Tuesday", "condition": "sunny"},
        {"day": "Wednesday"},
    ]


async def test_days_are_those_of_the_house(
    hass: HomeAssistant, freezer: FrozenDateTimeFactory
) -> None:
    await hass.config.async_set_time_zone("Asia/Tokyo")
    set_state(hass, supported_features=WeatherEntityFeature.FORECAST_DAILY)
    await forecasts(
        hass,
        {"datetime": "2026-11-29T15:00:00+00:00", "condition": "sunny"},
        {"datetime": "2026-11-30T15:00:00+00:00", "condition": "rainy"},
    )
    result = await weather(hass)
    assert [entry["day"] for entry in result.data["forecast"]] == ["Monday", "Tuesday"]
    assert result.data["time"] == "23:05"
    freezer.tick(timedelta(hours=1))
    result = await weather(hass)
    assert [entry["day"] for entry in result.data["forecast"]] == ["Tuesday"]


@pytest.mark.parametrize(
    ("day", "language", "expected"),
    [
        ("today", "en", "Monday"),
        ("Tomorrow", "en", "Tuesday"),
        ("wednesday", "en", "Wednesday"),
        ("2026-12-01", "en", "Tuesday"),
        ("1 December", "de", "Tuesday"),
    ],
)
async def test_tells_of_the_day_that_is_asked_for(
    hass: HomeAssistant, day: str, language: str, expected: str
) -> None:
    instance = await api(hass)
    instance.llm_context.language = language
    result = await instance.async_call_tool(llm.ToolInput(TOOL, {"day": day}))
    assert [entry["day"] for entry in result.data["forecast"]] == [expected]
    # What is now is told with today alone, and the time always stands at the end.
    assert ("condition" in result.data) is (day == "today")
    assert list(result.data)[-1] == "time"


async def test_a_later_day_is_told_in_full(hass: HomeAssistant) -> None:
    set_state(
        hass,
        supported_features=WeatherEntityFeature.FORECAST_DAILY,
        precipitation_unit="mm",
    )
    await forecasts(
        hass,
        {
            "datetime": "2026-12-01T00:00:00+00:00",
            "condition": "snowy",
            "temperature": 1.0,
            "templow": -4.5,
            "apparent_temperature": -8.0,
            "precipitation": 3.2,
            "precipitation_probability": 90,
            "wind_speed": 20.0,
            "wind_bearing": 0,
        },
    )
    assert (await weather(hass, day="tomorrow")).data == {
        "forecast": [
            {
                "day": "Tuesday",
                "date": "2026-12-01",
                "condition": "snowy",
                "high": "1 °C",
                "low": "-4.5 °C",
                "rain": "90 %",
                "feels_like": "-8 °C",
                "precipitation": "3.2 mm",
                "wind": "20 km/h from N",
            }
        ],
        "temperature_unit": "°C",
        "time": "14:05",
    }


async def test_a_weekend_has_two_days(hass: HomeAssistant) -> None:
    set_state(hass, supported_features=WeatherEntityFeature.FORECAST_TWICE_DAILY)
    await forecasts(
        hass,
        *(
            {
                "datetime": f"2026-12-0{day}T{hour}:00:00+00:00",
                "is_daytime": hour == "06",
            }
            for day in (4, 5, 6, 7)
            for hour in ("06", "18")
        ),
    )
    told = (await weather(hass, day="this weekend")).data["forecast"]
    assert [(entry["day"], entry["date"]) for entry in told] == [
        ("Saturday", "2026-12-05"),
        ("Saturday night", "2026-12-05"),
        ("Sunday", "2026-12-06"),
        ("Sunday night", "2026-12-06"),
    ]


async def test_the_hours_of_a_day_are_few_enough_to_hear(hass: HomeAssistant) -> None:
    set_state(hass, supported_features=WeatherEntityFeature.FORECAST_HOURLY)
    await forecasts(
        hass,
        *(
            {"datetime": f"2026-12-01T{hour:02}:00:00+00:00", "temperature": hour}
            for hour in range(24)
        ),
    )
    told = (await weather(hass, day="tomorrow", forecast="hourly")).data["forecast"]
    assert [entry["hour"] for entry in told] == [
        f"{hour:02}:00" for hour in range(0, 24, 3)
    ]
    assert told[0] == {
        "day": "Tuesday",
        "date": "2026-12-01",
        "hour": "00:00",
        "temperature": "0 °C",
    }


async def test_the_rest_of_today_is_in_the_hours_where_the_days_begin_tomorrow(
    hass: HomeAssistant,
) -> None:
    set_state(
        hass,
        supported_features=WeatherEntityFeature.FORECAST_DAILY
        | WeatherEntityFeature.FORECAST_HOURLY,
    )
    asked = await forecasts(
        hass, {"datetime": "2026-11-30T20:00:00+00:00", "condition": "rainy"}
    )
    await weather(hass, day="tomorrow")
    assert [call.data["type"] for call in asked] == ["daily", "hourly"]


@pytest.mark.parametrize("day", ["2026-12-24", "Sunday"])
async def test_says_where_the_forecast_ends(hass: HomeAssistant, day: str) -> None:
    data = (await weather(hass, day=day)).data
    assert data["forecast"] == "not known; the forecast ends on Wednesday, 2026-12-02"
    assert "condition" not in data


async def test_has_no_forecast_for_any_day(hass: HomeAssistant) -> None:
    set_state(hass, supported_features=0)
    assert (await weather(hass, day="tomorrow")).data["forecast"] == "not available"


@pytest.mark.parametrize(
    ("day", "error"), [("soon", "UnclearDay"), ("2026-11-29", "DayIsOver")]
)
async def test_says_what_is_no_day_to_come(
    hass: HomeAssistant, day: str, error: str
) -> None:
    result = await weather(hass, day=day)
    assert result.error
    assert result.data["error"] == error
    assert day in result.data["error_text"]


@pytest.mark.parametrize("state", ["unavailable", "unknown"])
async def test_says_that_the_weather_is_not_known(
    hass: HomeAssistant, state: str
) -> None:
    set_state(hass, state)
    result = await weather(hass)
    assert result.error
    assert result.data == {
        "error": "WeatherUnavailable",
        "error_text": "Home does not report the weather at the moment.",
        "time": "14:05",
    }


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"apparent_temperature": 41.5}, 41.5),
        # Steadman's formula: 20 + 0.33 * 11.7 - 0.7 * 5 - 4
        (
            {
                "apparent_temperature": None,
                "temperature": 20,
                "humidity": 50,
                "wind_speed": 18,
            },
            16,
        ),
        (
            {
                "apparent_temperature": None,
                "temperature": 68,
                "temperature_unit": "°F",
                "humidity": 50,
                "wind_speed": 5,
                "wind_speed_unit": "m/s",
            },
            61,
        ),
        ({"apparent_temperature": None, "humidity": None}, None),
    ],
    ids=["its own", "computed", "computed in °F", "not known"],
)
async def test_feels_like(
    hass: HomeAssistant, attributes: dict[str, Any], expected: float | None
) -> None:
    set_state(hass, **attributes)
    assert (await weather(hass)).data.get("apparent_temperature") == expected


async def test_unit_is_the_entitys(hass: HomeAssistant) -> None:
    set_state(hass, temperature=44, temperature_unit="°F")
    data = (await weather(hass)).data
    assert (data["temperature"], data["temperature_unit"]) == (44, "°F")


@pytest.mark.parametrize(
    ("bearing", "expected"),
    [
        (0, "11 km/h from N"),
        (359.0, "11 km/h from N"),
        ("SSW", "11 km/h from SSW"),
        (None, "11 km/h"),
    ],
)
async def test_wind(
    hass: HomeAssistant, bearing: float | str | None, expected: str
) -> None:
    set_state(hass, wind_bearing=bearing)
    assert (await weather(hass)).data["wind"] == expected


async def test_is_offered_where_a_weather_is_exposed(hass: HomeAssistant) -> None:
    assert TOOL in {tool.name for tool in (await api(hass)).tools}
    exposed_entities.async_expose_entity(hass, "conversation", "weather.home", False)
    assert TOOL not in {tool.name for tool in (await api(hass)).tools}


async def test_belongs_to_assist_alone(hass: HomeAssistant) -> None:
    context = (await api(hass)).llm_context
    assert async_get_tools(hass, context, "other") is None


async def test_without_arguments_and_without_a_choice(hass: HomeAssistant) -> None:
    (tool,) = [tool for tool in (await api(hass)).tools if tool.name == TOOL]
    assert {str(key) for key in tool.parameters.schema} == {"forecast", "day"}


async def test_several_places_are_told_apart_by_name(hass: HomeAssistant) -> None:
    hass.states.async_set(
        "weather.cabin", "snowy", {**ATTRIBUTES, "friendly_name": "Cabin"}
    )
    exposed_entities.async_expose_entity(hass, "conversation", "weather.cabin", True)
    assert (await weather(hass)).data["condition"] == "snowy"
    assert (await weather(hass, name="home")).data["condition"] == "cloudy"
    result = await weather(hass, name="Moon")
    assert result.error
    assert result.data["error_text"] == (
        "No weather entity is called Moon. There are Cabin, Home."
    )


async def test_a_place_hidden_since_is_not_told(hass: HomeAssistant) -> None:
    instance = await api(hass)
    exposed_entities.async_expose_entity(hass, "conversation", "weather.home", False)
    result = await instance.async_call_tool(llm.ToolInput(TOOL, {}))
    assert result.error
    assert result.data["error_text"] == "No weather entity is exposed."
