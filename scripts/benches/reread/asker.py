"""Has ours and the peer read one prompt after the other, in turns, and judges what ours read.

Knows how to ask; knows nothing of what comes after what.
"""

import asyncio
from dataclasses import dataclass

from demo_house.report import NO_DEVICE

from local_llm_engine.chat import ChatFormat
from local_llm_engine.prompts import Prompt
from local_llm_engine.types import ChatRequest

from . import limits
from .engine import Call, RestartableEngine
from .house import Asked, House
from .limits import Limiter
from .openai import PeerRequest, peer_request
from .peer import Peer
from .report import Report, Row, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks, who reads, and the report that grows with every request."""

    house: House
    engine: RestartableEngine
    peer: Peer | None
    chat: ChatFormat
    report: Report

    async def ask(
        self,
        scenario: str,
        satellite: str | None,
        question: str,
        limit: Limiter = limits.question,
        *,
        group: str | None = None,
    ) -> None:
        """Ask a question as the house stands; of a known speaker, at most the question is to be read."""
        asked = await self.house.ask(satellite, question)
        subject = Subject(
            scenario=scenario, satellite=satellite, request=question, group=group
        )
        await self.read(subject, asked, limit)

    async def read(self, subject: Subject, asked: Asked, limit: Limiter) -> None:
        """Have a question read that was built before."""
        call = await self.engine.read(asked.ours)
        await self.judge(subject, call, limit, asked.theirs)

    async def foreign(self, scenario: str, request: ChatRequest) -> None:
        """Have a prompt read that has nothing to do with the house."""
        subject = Subject(
            scenario=scenario, satellite=None, request=request.messages[-1].text
        )
        asked = Asked(ours=request, theirs=peer_request(request))
        await self.read(subject, asked, limits.everything)

    async def judge(
        self, subject: Subject, call: Call, limit: Limiter, theirs: PeerRequest
    ) -> None:
        """Have the peer read what ours has read, and write both down."""
        reading = await self.peer.read(theirs) if self.peer else None
        prompt = await self.prepare(call.request)
        row = Row.of(subject, call, limit(prompt), reading)
        self.report.rows.append(row)
        print(
            f"{row.scenario} ({row.satellite or NO_DEVICE}): read {row.reread_tokens} of {row.prompt_tokens}"
            f" tokens in {row.time_to_first_token_seconds:.2f} s{'' if row.ok else ', TOO MANY'}",
            flush=True,
        )

    async def prepare(self, request: ChatRequest) -> Prompt:
        """Tokenize a request, to know what is where."""
        return await asyncio.to_thread(self.chat.prepare, request)

    async def place(self, asked: Asked, before: Prompt) -> int:
        """Find the token at which a prompt leaves the one before."""
        prompt = await self.prepare(asked.ours)
        return limits.num_common(prompt.token_ids, before.token_ids)

    async def restart(self) -> None:
        """Restart ours, with what it has on disk, and the peer."""
        await self.engine.start()
        if self.peer:
            await self.peer.start()

    async def restart_anew(self) -> None:
        """Restart ours with nothing that was ever read, and the peer."""
        await self.engine.start_anew()
        if self.peer:
            await self.peer.start()
