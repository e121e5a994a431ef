"""Makes commands and questions in a house, of the sentence templates that fit there.

Chooses the template; what becomes of it is done where it is filled in.
"""

from collections.abc import Iterable

from .filling import Command, Filling, Scene
from .sentences import blocks_of
from .templates import UnfitTemplateError

_TRIES = 200


def make_command(scene: Scene, intents: Iterable[str] | None = None) -> Command:
    """Make a command that fits the scene, of one of these intents.

    Raises:
        UnfitTemplateError: there is none after many tries.
    """
    words, random = scene.words, scene.random
    blocks = [
        block
        for block in blocks_of(words.language)
        if intents is None or block.intent in intents
    ]
    weights = [block.weight for block in blocks]
    for _ in range(_TRIES if blocks else 0):
        block = random.choices(blocks, weights)[0]
        try:
            return Filling(scene, block).command(random.choice(block.templates))
        except UnfitTemplateError:
            continue
    raise UnfitTemplateError("no template fits")
