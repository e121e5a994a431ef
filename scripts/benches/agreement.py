"""Whether llama.cpp would say the same: both read the same tokens of the same GGUF file, and each names the likeliest next one.

Ours computes in float32 with the very numbers that the file stands for. llama.cpp rounds what it multiplies
quantized matrices with to 8 bits: where two words are about equally likely, that alone decides. Of a file whose
matrices are not quantized, the two say the same everywhere.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import islice
import json
from pathlib import Path
import sys
from typing import Any

from demo_house.folder import ROOT
from demo_house.report import table
import torch
from torch import Tensor

from local_llm_engine.chat import ChatFormat
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import Model, load_model
from local_llm_engine.types import ChatRequest, Message

# Of answers; what a model reads but would not have written itself is full of words that it is unsure of.
AGREEMENT_LIMIT = 0.97
# Of two words whose scores are no farther apart, neither is twice as likely as the other.
NEAR_TIE = 0.69
NUM_TEXTS = 10
NUM_TOKENS = 100
_NUM_THREADS = 2
_CONTEXT_TOKENS = 512
_LIBRARY = "llama_cpp"
_QUESTIONS = (
    "What is the capital of France?",
    "How do I bake bread?",
    "Tell me about the moon.",
    "Why is the sky blue?",
    "How can I save energy at home?",
    "Write a short poem about rain.",
    "What does a thermostat do?",
    "Explain what a leap year is.",
    "Give me three ideas for dinner.",
    "How far away is the sun?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A position where the two name different tokens: how far apart ours scores them, and how far the peer does."""

    text: int
    position: int
    token: int
    peer_token: int
    gap: float
    peer_gap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Texts of one kind: where the two differ, and by how much their scores do, in the mean and at most."""

    kind: str
    least_share: float
    num_positions: int
    differences: list[Difference]
    mean_distance: float
    largest_distance: float

    @property
    def share(self) -> float:
        """At which share of all positions they agree."""
        return 1 - len(self.differences) / self.num_positions

    @property
    def largest_gap(self) -> float:
        """How far apart ours scores the two tokens at most, where they differ."""
        return max((difference.gap for difference in self.differences), default=0.0)

    @property
    def ok(self) -> bool:
        """Whether they agree often enough, and differ in near-ties alone."""
        return self.share >= self.least_share and self.largest_gap <= NEAR_TIE

    def cells(self) -> tuple[str, ...]:
        """Write it for a person."""
        return (
            self.kind,
            f"{self.num_positions}",
            f"{self.share:.1%}",
            f"{self.least_share:.0%}" if self.least_share else "-",
            f"{self.largest_gap:.3f}",
            f"{NEAR_TIE}",
            f"{self.mean_distance:.4f}",
            f"{self.largest_distance:.4f}",
            "yes" if self.ok else "NO",
        )


def bench(options: argparse.Namespace) -> int:
    """Compare, print, and return 0 where the two agree but for near-ties."""
    sys.path.insert(0, str(options.peer_library.resolve()))
    try:
        library = import_module(_LIBRARY)
    except (ImportError, OSError, RuntimeError) as error:
        print(f"{options.peer_library} holds no {_LIBRARY} that works: {error}")
        return 2
    file: Path = options.model
    peer = library.Llama(
        str(file),
        n_ctx=_CONTEXT_TOKENS,
        logits_all=True,
        n_threads=_NUM_THREADS,
        verbose=False,
    )
    chat = ChatFormat.load(file)
    model = load_model(file, EngineConfig(dtype="float32", weights="bf16"))
    agreements = [
        _compare("answers", AGREEMENT_LIMIT, model, peer, _answers(chat, model)),
        _compare("documents", 0.0, model, peer, _documents(chat)),
    ]
    return _tell(file, agreements, options.json)


def _answers(chat: ChatFormat, model: Model) -> Iterator[Tensor]:
    """Have ours answer questions, as it is surest."""
    for question in _QUESTIONS:
        message = Message(role="user", content=question)
        prompt = chat.prepare(ChatRequest(messages=(message,)))
        tokens = torch.tensor(prompt.token_ids)
        state = model.new_state(_CONTEXT_TOKENS)
        hidden = model.forward(tokens, state)
        for _ in range(NUM_TOKENS):
            chosen = model.logits(hidden[-1:]).argmax(-1)
            tokens = torch.cat((tokens, chosen))
            hidden = model.forward(chosen, state)
        yield tokens


def _documents(chat: ChatFormat) -> Iterator[Tensor]:
    """Tokenize the beginnings of the project's own documents and sources."""
    documents = sorted((*ROOT.glob("docs/**/*.md"), *ROOT.glob("scripts/**/*.py")))
    prompts = (
        chat.prepare(ChatRequest(messages=(Message(role="user", content=text),)))
        for text in (document.read_text(encoding="utf-8") for document in documents)
    )
    long = (prompt for prompt in prompts if prompt.question_tokens >= NUM_TOKENS)
    for prompt in islice(long, NUM_TEXTS):
        start = prompt.question_start
        tokens = prompt.token_ids[start : start + NUM_TOKENS]
        yield torch.tensor(tokens)


def _compare(
    kind: str, least_share: float, model: Model, peer: Any, texts: Iterable[Tensor]
) -> Agreement:
    """Have both read each text, and compare the tokens after its last NUM_TOKENS."""
    differences: list[Difference] = []
    distances: list[Tensor] = []
    for number, tokens in enumerate(texts):
        state = model.new_state(_CONTEXT_TOKENS)
        ours = model.logits(model.forward(tokens, state)[-NUM_TOKENS:])
        peer.reset()
        peer.eval(tokens.tolist())
        theirs = torch.from_numpy(peer.scores[: len(tokens)].copy())
        theirs = theirs[-NUM_TOKENS:]
        distances.append((ours - theirs).abs())
        differences += _differences(number, ours, theirs)
    all_distances = torch.cat(distances)
    return Agreement(
        kind=kind,
        least_share=least_share,
        num_positions=len(all_distances),
        differences=differences,
        mean_distance=float(all_distances.mean()),
        largest_distance=float(all_distances.max()),
    )


def _differences(number: int, ours: Tensor, theirs: Tensor) -> Iterator[Difference]:
    tokens, peer_tokens = ours.argmax(-1), theirs.argmax(-1)
    for position in (tokens != peer_tokens).nonzero().flatten().tolist():
        token, peer_token = int(tokens[position]), int(peer_tokens[position])
        own, other = ours[position], theirs[position]
        yield Difference(
            text=number,
            position=position,
            token=token,
            peer_token=peer_token,
            gap=float(own[token] - own[peer_token]),
            peer_gap=float(other[peer_token] - other[token]),
        )


def _tell(file: Path, agreements: list[Agreement], to: Path | None) -> int:
    print(f"{file.name}: where llama.cpp and ours name the same likeliest token\n")
    headings = (
        *("texts", "positions", "same", "at least", "else apart by", "at most"),
        *("scores differ", "at most", "ok"),
    )
    print(*table(headings, [own.cells() for own in agreements]), sep="\n")
    ok = all(own.ok for own in agreements)
    if to is not None:
        found = [
            asdict(own)
            | {"share": own.share, "largest_gap": own.largest_gap, "ok": own.ok}
            for own in agreements
        ]
        values = {"model": file.name, "ok": ok, "texts": found}
        to.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    return 0 if ok else 1
