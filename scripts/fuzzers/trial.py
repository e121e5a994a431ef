"""One try: a copy of a sound model is damaged and used, and must be refused in one clear line, or work."""

from dataclasses import dataclass
import os
from pathlib import Path
from random import Random
import shutil
import traceback
from typing import Literal

from local_llm_engine.errors import EngineError

from .readers import READERS

_MAX_MESSAGE_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Try number `number` of a seed, on one of the models in `models`; the damaged one lies in `scratch`."""

    reader: str
    seed: int
    number: int
    models: Path
    scratch: Path

    def run(self) -> Outcome:
        """Damage, use, and tell what came of it; the damaged model is left there."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        rng = Random(f"{self.reader} {self.seed} {self.number}")
        model = rng.choice(sorted(self.models.iterdir()))
        path = self.scratch / model.name
        copy_linked(model, path)
        try:
            READERS[self.reader].damage(rng, path)
            READERS[self.reader].use(rng, path)
        except EngineError as error:
            return _refused(error)
        except Exception:  # noqa: BLE001 - this is what is sought
            return Outcome(kind="finding", words=traceback.format_exc())
        return Outcome(kind="works", words="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a try, and the words of what was raised."""

    kind: Literal["refused", "works", "finding"]
    words: str


def _refused(error: EngineError) -> Outcome:
    words = str(error)
    unclear = ""
    if len(words) > _MAX_MESSAGE_CHARACTERS:
        unclear = f"{len(words)} characters"
    elif not words.isprintable():
        unclear = "characters that cannot be printed"
    if unclear:
        return Outcome(
            kind="finding",
            words=f"a message of {unclear}: {words[:500]!r}\n{traceback.format_exc()[-3_000:]}",
        )
    return Outcome(kind="refused", words=words)


def copy_linked(model: Path, path: Path) -> None:
    """Copy a file or folder without copying what is in its files."""
    if model.is_file():
        os.link(model, path)
    else:
        shutil.copytree(model, path, copy_function=os.link)
