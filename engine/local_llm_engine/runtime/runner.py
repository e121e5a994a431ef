"""Takes one step of one sequence: the only place where model, cache and slots meet."""

import logging
import time

import torch
from torch import Tensor

from local_llm_engine.cache.placement import grid_interval, place, stretch_end
from local_llm_engine.cache.prompt_cache import PromptCache, Slot
from local_llm_engine.cache.records import CallLog
from local_llm_engine.cache.sessions import SessionLedger
from local_llm_engine.errors import GenerationError, OutOfMemoryError
from local_llm_engine.models.registry import Model
from local_llm_engine.prompts import Checkpoint
from local_llm_engine.types import FinishReason, Purpose, Usage

from .memory_errors import memory_errors_told
from .sampler import Sampler
from .sequence import FinishEvent, Phase, Sequence, TokenEvent
from .stretches import Stretches

_LOGGER = logging.getLogger(__name__)


class Runner:
    """Owns the slots, one a purpose, and moves sequences through prefill and decode.

    A long stretch of a prompt takes a step a layer, so that whoever is more urgent need not wait for its end.

    Everything here runs on the thread that owns torch.
    """

    def __init__(
        self,
        model: Model,
        cache: PromptCache,
        log: CallLog,
        *,
        context_length: int,
        chunk: int,
    ) -> None:
        """Slots hold `context_length` tokens; a step reads at most `chunk`."""
        self._model = model
        self._stretches = Stretches(model)
        self._cache = cache
        self._log = log
        self._sessions = SessionLedger(cache.earlier_sessions)
        self._context_length = context_length
        self._chunk = chunk
        self._slots: dict[Purpose, Slot] = {}
        self._live: set[Sequence] = set()
        self._samplers: dict[Sequence, Sampler] = {}

    @torch.inference_mode()
    def step(self, sequence: Sequence) -> None:
        """Resume and read one stretch of the prompt, or one layer of it, or choose one token of the answer.

        Where memory ends, what is kept for later goes; who has answered nothing yet begins again, once.

        Raises:
            OutOfMemoryError: that was not enough, or came too late for this answer.
            GenerationError: the model computes no numbers.
        """
        try:
            with memory_errors_told(self._model.device.type):
                self._step(sequence)
        except OutOfMemoryError as error:
            begins_again = not sequence.answer and not sequence.has_begun_again
            if begins_again:
                self._rewind(sequence)
            self._make_room()
            if not begins_again:
                raise
            _LOGGER.warning(
                "A %s request begins again, with the prompt cache in RAM emptied: %s",
                sequence.purpose,
                error,
            )

    @torch.inference_mode()
    def abandon(self, sequence: Sequence) -> None:
        """Let a sequence go; what it has read so far stays in the prompt cache."""
        self._stretches.take_back(sequence)
        if sequence.phase is not Phase.WAITING:
            self._store(sequence)
        self._end(sequence, "cancelled")

    @torch.inference_mode()
    def give_way(self, sequence: Sequence) -> None:
        """End a prefetch for a question's sake; what it has read so far stays in the prompt cache."""
        self._stretches.take_back(sequence)
        if sequence.phase is not Phase.WAITING:
            self._store(sequence)
        self._end_early(sequence, "gave_way")

    @torch.inference_mode()
    def discard(self, sequence: Sequence, finish: str = "error") -> None:
        """Let a sequence go that failed: its state can no longer be trusted."""
        slot = self._slots.get(sequence.purpose.slot)
        if slot and sequence.phase is not Phase.WAITING:
            self._cache.release(slot)
        self._end(sequence, finish)

    def known(self, token_ids: tuple[int, ...]) -> tuple[int, tuple[Checkpoint, ...]]:
        """Tell how many tokens have been read before, and where the voice could resume. Changes nothing."""
        match = self._cache.find(token_ids, len(token_ids))
        slot = self._slots.get(Purpose.VOICE)
        return match.num_known_tokens, self._cache.checkpoints(token_ids, slot)

    def _step(self, sequence: Sequence) -> None:
        if sequence.phase is Phase.WAITING:
            self._begin(sequence)
        if sequence.phase is Phase.PREFILL:
            self._prefill(sequence)
        elif sequence.phase is Phase.DECODE:
            self._decode(sequence)

    def _make_room(self) -> None:
        """Let go of all memory that no live sequence stands on."""
        live = {sequence.purpose.slot for sequence in self._live}
        for purpose in self._slots.keys() - live:
            self._cache.release(self._slots.pop(purpose))
        self._cache.empty()
        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()

    def _rewind(self, sequence: Sequence) -> None:
        """Bring a sequence back to where it waited for its first step."""
        sequence.has_begun_again = True
        sequence.phase = Phase.WAITING
        self._live.discard(sequence)
        self._samplers.pop(sequence, None)
        self._stretches.forget(sequence)
        if slot := self._slots.pop(sequence.purpose.slot, None):
            self._cache.release(slot)

    def _begin(self, sequence: Sequence) -> None:
        """Look the prompt up and bring the slot to the deepest checkpoint of it."""
        sequence.started_at = time.perf_counter()
        sequence.phase = Phase.PREFILL
        self._live.add(sequence)
        slot = self._slots.get(sequence.purpose.slot)
        if slot is None:
            slot = self._slots[sequence.purpose.slot] = Slot(
                self._model.new_state(self._context_length)
            )
        token_ids = sequence.prompt.token_ids
        if sequence.purpose is Purpose.PREFETCH and self._cache.is_in(
            slot, token_ids[: sequence.target]
        ):
            # What the slot has read after this prompt may be a conversation that goes on.
            sequence.reused_tokens, sequence.resumed_from = sequence.target, "slot"
            self._end_early(sequence, "prefetched")
            return
        limit = sequence.target - 1 if sequence.answers else sequence.target
        match, restored = self._cache.resume(token_ids, limit, slot, sequence.reader)
        sequence.resumed_from = restored.tier
        sequence.reused_tokens = slot.state.length
        sequence.divergence = match.num_known_tokens if match.diverges else None
        sequence.outcome = self._sessions.classify(
            sequence.session,
            token_ids[: sequence.target],
            num_known_tokens=match.num_known_tokens,
            question_start=sequence.prompt.question_start,
        )
        sequence.placement = place(
            sequence.prompt,
            target=sequence.target,
            divergence=sequence.divergence,
            interval=self._interval(slot),
        )
        if sequence.answers:
            self._samplers[sequence] = Sampler(
                sequence.sampling, token_ids, self._model.device
            )

    def _prefill(self, sequence: Sequence) -> None:
        """Read on towards the next stop; at the prompt's end choose the first token."""
        slot = self._slots[sequence.purpose.slot]
        assert sequence.placement is not None
        stops, checkpoints = sequence.placement
        start = slot.state.length
        end = stretch_end(start, sequence.target, stops, self._chunk)
        hidden = None
        if start < end:
            stretch = sequence.prompt.token_ids[start:end]
            hidden = self._stretches.read_on(sequence, stretch, slot)
            if hidden is None:
                return
        is_worth_keeping = end in checkpoints
        if sequence.answers and end == sequence.target:
            assert hidden is not None
            self._choose_first(sequence, hidden, is_worth_keeping)
            return
        if is_worth_keeping:
            self._store(sequence)
        if end == sequence.target:
            sequence.prefilled_at = time.perf_counter()
            is_guess = sequence.purpose is Purpose.PREFETCH
            if not is_guess:
                self._cache.pin(slot, sequence.reader)
            self._finish(
                sequence, FinishReason.STOP, "prefetched" if is_guess else "warmed_up"
            )

    def _choose_first(
        self, sequence: Sequence, hidden: Tensor, is_worth_keeping: bool
    ) -> None:
        """Begin an answer; its first token goes out before the state is copied, which takes milliseconds."""
        sequence.phase = Phase.DECODE
        self._choose(sequence, hidden)
        if is_worth_keeping and sequence.phase is Phase.DECODE:
            self._store(sequence)

    def _decode(self, sequence: Sequence) -> None:
        """Read the last token chosen and choose the next."""
        slot = self._slots[sequence.purpose.slot]
        self._choose(sequence, self._stretches.read((sequence.answer[-1],), slot))

    def _choose(self, sequence: Sequence, hidden: Tensor) -> None:
        logits = self._model.logits(hidden)[0]
        # Once an answer, for weights do not change; a sum shows every NaN and infinity at a tenth of the cost.
        if not sequence.answer and not bool(logits.sum().isfinite()):
            raise GenerationError(
                "the model computes no finite numbers: its weights are damaged, or overflow in dtype"
                f" {str(self._model.dtype).removeprefix('torch.')}"
            )
        allowed = sequence.guide.allowed() if sequence.guide else None
        token_id = self._samplers[sequence].sample(logits, sequence.answer, allowed)
        is_end = token_id in sequence.end_token_ids
        if sequence.guide and not is_end:
            sequence.guide.accept(token_id)
        if not sequence.answer:
            # Before what may end here is kept: nobody waits for that.
            sequence.prefilled_at = time.perf_counter()
        if is_end:
            self._finish(sequence, FinishReason.STOP, "stop")
            return
        sequence.answer.append(token_id)
        sequence.emit(TokenEvent(token_id))
        if len(sequence.answer) >= sequence.max_tokens:
            self._finish(sequence, FinishReason.LENGTH, "length")

    def _finish(self, sequence: Sequence, reason: FinishReason, finish: str) -> None:
        self._store(sequence)
        usage = self._end(sequence, finish)
        sequence.emit(FinishEvent(reason, usage, sequence.outcome))

    def _end_early(self, sequence: Sequence, finish: str) -> None:
        """End a prefetch that need not or may not read on."""
        usage = self._end(sequence, finish)
        sequence.emit(FinishEvent(FinishReason.STOP, usage, sequence.outcome))

    def _store(self, sequence: Sequence) -> None:
        """Keep all that the slot has read, and a checkpoint at its end."""
        slot = self._slots[sequence.purpose.slot]
        read = (*sequence.prompt.token_ids[: sequence.target], *sequence.answer)
        read = read[: slot.state.length]
        if sequence.purpose is not Purpose.PREFETCH:
            # Nobody has asked yet: what the session read last is its last question.
            self._sessions.note(sequence.session, read)
        try:
            with memory_errors_told(self._model.device.type):
                self._cache.store(read, slot, sequence.reader)
        except OutOfMemoryError as error:
            # What was not kept is read again one day; no answer depends on it.
            self._make_room()
            _LOGGER.warning(
                "What a %s request has read is not kept, and the prompt cache in RAM was emptied: %s",
                sequence.purpose,
                error,
            )

    def _interval(self, slot: Slot) -> int | None:
        """Choose how far apart checkpoints stand inside long segments."""
        return grid_interval(
            checkpoint_bytes=slot.state.checkpoint_nbytes,
            context_length=self._context_length,
            budget_bytes=self._cache.limit_bytes,
        )

    def _end(self, sequence: Sequence, finish: str) -> Usage:
        sequence.phase = Phase.ENDED
        self._live.discard(sequence)
        self._samplers.pop(sequence, None)
        self._stretches.forget(sequence)
        record = sequence.record(finish)
        self._log.add(record)
        return record.usage
