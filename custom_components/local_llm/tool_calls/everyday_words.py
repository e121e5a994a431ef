"""Words of everyday life that models write in tool calls, in the languages that we speak; pure.

Plurals in s stand here nowhere: they are known without that.
"""

from typing import Final

from .spelling import folded

# Words for kinds of things, by the kind's name in Home Assistant
KINDS: Final = {
    "light": (
        *("lamp", "bulb"),
        *("Licht", "Lichter", "Lampe", "Lampen", "Leuchte", "Leuchten", "Beleuchtung"),
        *("lumière", "lampe", "ampoule", "éclairage"),
        *("luce", "luci", "lampada", "lampade", "lampadina", "lampadine"),
        *("luz", "luces", "lámpara", "bombilla"),
        *("照明", "電気", "ライト", "ランプ", "明かり"),
    ),
    "climate": (
        *("thermostat", "heating"),
        *("Heizung", "Heizungen", "Thermostate", "Klimaanlage"),
        *("chauffage", "climatisation"),
        *("riscaldamento", "termostato", "termostati", "climatizzatore"),
        *("calefacción", "termostato", "aire acondicionado"),
        *("エアコン", "暖房", "冷房"),
    ),
    "cover": (
        *("Rollladen", "Rollläden", "Rollo", "Jalousie", "Jalousien"),
        *("volet", "store"),
        *("tapparella", "tapparelle", "tenda", "tende", "persiane"),
        *("persiana", "cortina"),
        *("カーテン", "ブラインド", "シャッター"),
    ),
    "fan": (
        *("Ventilator", "Ventilatoren", "Lüfter"),
        "ventilateur",
        *("ventilatore", "ventilatori"),
        "ventilador",
        "扇風機",
    ),
    "lock": (
        *("Schloss", "Schlösser"),
        "serrure",
        *("serratura", "serrature"),
        "cerradura",
        *("鍵", "錠"),
    ),
    "media_player": ("player", "Mediaplayer", "lecteur multimédia"),
    "outlet": (
        *("plug", "socket"),
        *("Steckdose", "Steckdosen"),
        "prise",
        *("presa", "prese"),
        "enchufe",
        "コンセント",
    ),
    "scene": ("Szene", "Szenen", "scène", "escena", "シーン"),
    "switch": (
        *("Schalter", "interrupteur", "interruttore", "interruttori"),
        *("interruptor", "スイッチ"),
    ),
    "tv": (
        "television",
        *("Fernseher", "télévision", "téléviseur", "télé"),
        *("televisione", "televisore", "televisori"),
        *("televisión", "televisor", "テレビ"),
    ),
    "vacuum": (
        *("Staubsauger", "Saugroboter", "aspirateur", "aspirapolvere"),
        *("aspiradora", "掃除機"),
    ),
}

EVERYTHING: Final = frozenset(
    map(
        folded,
        (
            *("all", "everything", "all devices", "all entities", "every device"),
            *("alles", "alle Geräte"),
            *("tout", "tous les appareils"),
            *("tutto", "tutti i dispositivi"),
            *("todas las cosas", "todos los dispositivos"),
            *("全部", "すべて", "全て", "すべてのデバイス"),
        ),
    )
)

EVERYWHERE: Final = frozenset(
    map(
        folded,
        (
            *("all", "everywhere", "anywhere", "all areas", "all rooms", "all floors"),
            *("house", "home", "whole house", "the whole house", "entire house"),
            *("überall", "alle Räume", "alle Zimmer", "alle Bereiche", "alle Etagen"),
            *("Haus", "ganzes Haus", "das ganze Haus", "im ganzen Haus"),
            *("partout", "toutes les pièces", "tous les étages"),
            *("maison", "toute la maison", "dans toute la maison"),
            *("ovunque", "dappertutto", "tutte le stanze", "tutti i piani"),
            *("casa", "tutta la casa", "in tutta la casa"),
            *("en todas partes", "todas las habitaciones", "todas las plantas"),
            *("toda la casa", "en toda la casa"),
            *("どこでも", "すべての部屋", "全ての部屋", "全部屋", "家中", "家全体"),
        ),
    )
)

HERE: Final = frozenset(
    map(
        folded,
        (
            *("here", "this room", "this area", "current room", "current area"),
            *(
                "hier",
                "dieser Raum",
                "dieses Zimmer",
                "in diesem Raum",
                "in diesem Zimmer",
            ),
            *("ici", "cette pièce", "dans cette pièce"),
            *("qui", "qua", "questa stanza", "in questa stanza"),
            *("aquí", "esta habitación", "en esta habitación"),
            *("ここ", "この部屋"),
        ),
    )
)

# What says that all of a kind is meant: a regular expression for what stands before the kind, with its space
ALL_OF: Final = (
    r"(?:all|every)\s+(?:the\s+)?|alle\s+(?:die\s+)?|sämtliche\s+"
    r"|tou(?:s|tes)\s+(?:les\s+)?|tutt[ie]\s+(?:(?:i|le|gli)\s+)?"
    r"|tod[oa]s\s+(?:l[oa]s\s+)?|(?:すべて|全て|全部)の\s*"
)
ARTICLES: Final = (
    r"(?:the|my|der|die|das|le|la|les|il|lo|gli|el|los|las)\s+|(?:dell|all|l)['’]\s*"
)
# Regular expressions for a kind of things and where they are
KIND_IN_PLACE: Final = (
    (
        r"(?P<kind>.+?)\s+(?:(?:in|of|im|der|des|de|du|dans|del|della|dello|nel|nella|nello|en)\s+"
        r"|(?:d|dell|nell)['’]\s*)(?P<place>.+)"
    ),
    r"(?P<place>.+)の(?P<kind>.+)",
)
