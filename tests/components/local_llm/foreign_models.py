"""Tool calls with words of other languages than English, as models write them that were spoken to in those."""

import json
from typing import Any

from .small_models import ALL_LIGHTS, KITCHEN_LIGHTS, PLUG, Row, json_call


def _turn_on(**arguments: Any) -> str:
    return json_call(json.dumps({"name": "HassTurnOn", "arguments": arguments}))


FOREIGN: dict[str, Row] = {
    **{
        f"{kind} as domain": Row(
            _turn_on(area="Kitchen", domain=[kind]), KITCHEN_LIGHTS
        )
        for kind in ("Licht", "Lampen", "lumières", "luce", "luci", "luces", "照明")
    },
    **{
        f"{name} as name": Row(_turn_on(name=name), ALL_LIGHTS)
        for name in (
            *("alle Lichter", "Alle Lampen", "toutes les lumières", "tutte le luci"),
            *("tutti i light", "todas las luces", "すべての照明", "全部のライト"),
        )
    },
    **{
        f"{name} as name, in the asking room": Row(_turn_on(name=name), KITCHEN_LIGHTS)
        for name in ("das Licht", "les lumières", "le luci", "las luces", "電気")
    },
    **{
        f"{area} as area": Row(_turn_on(area=area, domain=["light"]), ALL_LIGHTS)
        for area in ("überall", "partout", "ovunque", "en todas partes", "家中")
    },
    **{
        f"{area} as area of the asking room": Row(
            _turn_on(area=area, domain=["light"]), KITCHEN_LIGHTS
        )
        for area in ("hier", "ici", "qui", "aquí", "ここ")
    },
    **{
        f"{kind} as device class": Row(_turn_on(name="Plug 2", device_class=kind), PLUG)
        for kind in ("Steckdose", "prises", "presa", "enchufe", "コンセント")
    },
    **{
        f"{name} as name": Row(_turn_on(name=name), KITCHEN_LIGHTS)
        for name in (
            *(
                "the lights in the kitchen",
                "Licht in der Kitchen",
                "lumières de la Kitchen",
            ),
            *("les lampes de l'Kitchen", "luci nella Kitchen", "le luci dell'Kitchen"),
            *("todas las luces de la Kitchen", "Kitchenの照明"),
        )
    },
    **{
        f"{name} as name of nothing": Row(
            _turn_on(name=name), {}, f"There is no device called '{name}'"
        )
        for name in ("lights in the sauna", "luces de la sauna", "浴室の照明")
    },
    "an article that is the end of a word": Row(
        _turn_on(name="Porla ch"), {}, "no device called 'Porla ch'"
    ),
    "a list called by what sounds like everything": Row(
        _turn_on(name="todo"), {}, "There is no device called 'todo'"
    ),
}
