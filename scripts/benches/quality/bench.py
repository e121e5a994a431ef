"""What quantizing costs in quality: the same answers read in each format, and how far its next tokens are from the plain model's.

The plain model answers commands to random houses; every format reads these very answers, token by token,
and is asked at each what it would have said. The plain model in another dtype is the control: where words are
hardly surer than others, rounding alone changes them. Random weights are a poor measure, for all their words
are such; so are weights that were quantized before, which lie on a grid that suits some formats.
"""

import argparse
from dataclasses import asdict, dataclass
import json
from pathlib import Path
import tempfile
import time

from demo_house.report import table
import torch

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import Dtype, EngineConfig, Weights
from local_llm_engine.models.location import located
from local_llm_engine.models.registry import Model, load_model, plan_model

from .answers import CAPACITY, Answer, answers_of, read
from .peer import PEER, load_peer

AGREEMENT_LIMIT = 0.995
_QUANTIZED_KV = "KV in int8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One format: bytes of the weights, divergence from the plain model and greedy agreement with it."""

    name: str
    weights_bytes: int
    num_tokens: int
    mean_divergence: float
    agreement: float
    seconds: float

    def cells(self) -> tuple[str, ...]:
        """Write it for a person."""
        return (
            self.name,
            f"{self.weights_bytes / 1024**2:.1f} MiB",
            str(self.num_tokens),
            f"{self.mean_divergence:.6f}",
            f"{self.agreement:.2%}",
            f"{self.seconds:.0f} s",
        )


def bench(options: argparse.Namespace) -> int:
    """Measure every format, print, and return 0 where all keep what is promised."""
    path = located(options.model or NANO_PATH)
    with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
        answers = list(answers_of(path, options.tokens))
        figures = [
            _control(path, answers),
            _figure(_QUANTIZED_KV, _quantized_kv(path), answers),
            _figure("int8", _own(path, "int8", Path(scratch)), answers),
            _figure("int4", _own(path, "int4", Path(scratch)), answers),
            _figure(PEER, load_peer(path, Path(scratch)), answers),
        ]
    return _tell(path, figures, options.json)


def _figure(name: str, made: tuple[Model, int], answers: list[Answer]) -> Figure:
    """Have a model read all answers, each token after the other as when it writes them."""
    model, weights_bytes = made
    start = time.monotonic()
    divergences: list[float] = []
    agreed = 0
    for answer in answers:
        state = model.new_state(CAPACITY)
        own = read(model, answer.prompt, state)
        for token, expected in zip(answer.tokens, answer.scores, strict=True):
            divergences.append(float((expected.exp() * (expected - own)).nansum()))
            agreed += int(own.argmax() == expected.argmax())
            own = read(model, token[None], state)
    return Figure(
        name=name,
        weights_bytes=weights_bytes,
        num_tokens=len(divergences),
        mean_divergence=sum(divergences) / len(divergences),
        agreement=agreed / len(divergences),
        seconds=time.monotonic() - start,
    )


def _control(path: Path, answers: list[Answer]) -> Figure:
    """Have the plain model read its own answers in the other dtype: so much is rounding, and no format's fault."""
    plan = plan_model(path, EngineConfig(weights="bf16"))
    other: Dtype = "bfloat16" if plan.dtype == "float32" else "float32"
    config = EngineConfig(weights="bf16", dtype=other)
    loaded = load_model(path, config), plan_model(path, config).weights_bytes
    return _figure(f"plain in {other}", loaded, answers)


def _quantized_kv(path: Path) -> tuple[Model, int]:
    """Load the plain model with keys and values in 8 bits."""
    config = EngineConfig(weights="bf16", kv_cache="int8")
    return load_model(path, config), plan_model(path, config).weights_bytes


def _own(path: Path, weights: Weights, scratch: Path) -> tuple[Model, int]:
    """Load the model in a format of our own, without a trace beside it."""
    config = EngineConfig(weights=weights, weights_folder=scratch / weights)
    return load_model(path, config), plan_model(path, config).weights_bytes


def _tell(path: Path, figures: list[Figure], file: Path | None) -> int:
    _, quantized_kv, int8, int4, peer = figures
    is_kept = (
        min(int8.agreement, quantized_kv.agreement) >= AGREEMENT_LIMIT
        and int4.mean_divergence <= peer.mean_divergence
    )
    print(f"{path.name}: what it would have said in place of the plain model\n")
    headings = ("weights", "size", "tokens", "mean KL", "same", "took")
    print(*table(headings, [figure.cells() for figure in figures]), sep="\n")
    print(
        f"\nint8 and {_QUANTIZED_KV} say the same in {AGREEMENT_LIMIT:.1%} at least, and int4 is no farther off than {PEER}: "
        + ("yes" if is_kept else "NO")
    )
    if file is not None:
        formats = [asdict(figure) for figure in figures]
        values = {"model": path.name, "ok": is_kept, "formats": formats}
        file.write_text(json.dumps(values, indent=2) + "\n")
    return 0 if is_kept else 1
