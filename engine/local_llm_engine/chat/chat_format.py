"""The one door to the room: how one model's conversations are written, and how its answers are read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local_llm_engine.errors import ChatTemplateError, InvalidRequestError, shown
from local_llm_engine.prompts import InspectedSegment, Prompt
from local_llm_engine.types import ChatRequest, Delta
from local_llm_engine.weights.gguf_header import gguf_file_of

from .constraints import Constraints
from .detokenizer import Detokenizer, spell
from .gguf import read_gguf_chat
from .grammar import GrammarWriter, Thinking
from .guide import AnswerGuide, CallGuide
from .markup_scanner import THINK, THINK_END, TOOL_CALL, TOOL_CALL_END
from .model_files import read_json_object, read_optional_json_object
from .output_parser import OutputParser
from .prompt_builder import PromptBuilder
from .template import ChatTemplate
from .tokenizer import Tokenizer
from .tool_call_grammar import CallForm
from .tool_call_syntax import Schemas

# The largest published ones have a sixteenth of it.
_MAX_VOCAB_SIZE = 1 << 22
_PROBE = "Hello?"
_OTHER_PROBE = "Hello there?"
_PROBE_CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "type": "function",
            "id": "call_probe",
            "function": {"name": "probe", "arguments": {"probe": "probe"}},
        }
    ],
}
_MARKUP = (THINK, THINK_END, TOOL_CALL, TOOL_CALL_END)


class ChatFormat:
    """Template and tokenizer of one model; immutable once made, and safe to use from several threads.

    `end_token_ids` end an answer; `vocab_size` is that of the model, padding included.
    """

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        *,
        end_token_ids: frozenset[int],
        vocab_size: int,
    ) -> None:
        """Join the parts that belong to one model."""
        self.end_token_ids = end_token_ids
        self.vocab_size = vocab_size
        self._tokenizer = tokenizer
        self._control_texts = frozenset(
            token.text for token in tokenizer.control_tokens
        )
        self._builder = PromptBuilder(template, tokenizer)
        self._begins_thinking = {
            thinking: _begins_thinking(template, thinking=thinking)
            for thinking in (False, True)
        }
        control_ids = {token.text: token.id for token in tokenizer.control_tokens}
        self._constraints = Constraints(
            tokenizer,
            GrammarWriter(
                control_ids={
                    text: control_ids[text] for text in _MARKUP if text in control_ids
                },
                forms=_call_forms(template),
                respell=tokenizer.respell,
                has_phrases=tokenizer.has_token_with("<parameter="),
            ),
            end_token_ids=end_token_ids,
            vocab_size=vocab_size,
        )

    @classmethod
    def load(cls, folder: Path) -> ChatFormat:
        """Read template, tokenizer and end tokens of a model folder or file.

        Raises:
            ChatTemplateError: a file is missing, damaged or does not fit the model; the message names it.
            WeightFormatError: the model is a GGUF file, and damaged.
        """
        file = gguf_file_of(folder)
        if file is not None:
            parts = read_gguf_chat(file)
            return cls(
                parts.template,
                parts.tokenizer,
                end_token_ids=parts.end_token_ids,
                vocab_size=parts.vocab_size,
            )
        config = read_json_object(folder / "config.json")
        tokenizer = Tokenizer.load(folder)
        vocab_size = _vocab_size(config, folder)
        if tokenizer.num_ids > vocab_size:
            raise ChatTemplateError(
                f"{folder / 'tokenizer.json'} has token ids up to {shown(tokenizer.num_ids - 1)}; "
                f"the model's vocab_size is {vocab_size}"
            )
        return cls(
            ChatTemplate.load(folder),
            tokenizer,
            end_token_ids=_end_token_ids(config, folder, tokenizer, vocab_size),
            vocab_size=vocab_size,
        )

    def prepare(self, request: ChatRequest) -> Prompt:
        """Render and tokenize a request, with segments and breakpoints.

        Raises:
            InvalidRequestError: the model's template refuses the messages.
        """
        return self._builder.build(request)

    def segments_before_question(self, prompt: Prompt) -> tuple[InspectedSegment, ...]:
        """Return a prompt's segments up to the words of its question, with what they spell."""
        found: list[InspectedSegment] = []
        start = 0
        for segment in prompt.segments:
            end = min(segment.end, prompt.question_start)
            if start < end:
                text = spell(self._tokenizer, prompt.token_ids[start:end])
                found.append(
                    InspectedSegment(
                        name=segment.name, num_tokens=end - start, text=text
                    )
                )
                start = end
        return tuple(found)

    @property
    def notices(self) -> tuple[str, ...]:
        """What answers could not be held to, oldest first."""
        return self._constraints.notices

    def prepare_guides(self) -> None:
        """Do ahead what the first guide would otherwise wait for, up to a second, and other threads with it."""
        self._constraints.prepare()

    def guide(self, request: ChatRequest) -> CallGuide | AnswerGuide | None:
        """Make what holds the answer to a request to its schema, or its calls to their tools; None for neither.

        Raises:
            InvalidRequestError: an answer cannot be held to the request's `answer_schema`.
        """
        thinking = Thinking.POSSIBLE if request.thinking else Thinking.NONE
        if self._begins_thinking[request.thinking]:
            thinking = Thinking.BEGUN
        return self._constraints.guide(request, thinking)

    def decoder(self, request: ChatRequest) -> AnswerDecoder:
        """Start to read the answer to a request."""
        parser = OutputParser(
            Schemas(request.tools),
            thinking=self._begins_thinking[request.thinking],
            control_texts=self._control_texts,
        )
        return AnswerDecoder(Detokenizer(self._tokenizer), parser, self.end_token_ids)


class AnswerDecoder:
    """Turns the tokens of one answer into deltas, all but the last FinishDelta."""

    def __init__(
        self,
        detokenizer: Detokenizer,
        parser: OutputParser,
        end_token_ids: frozenset[int],
    ) -> None:
        """Take the two steps of one answer."""
        self._detokenizer = detokenizer
        self._parser = parser
        self._end_token_ids = end_token_ids

    @property
    def has_tool_calls(self) -> bool:
        """Whether a call, valid or not, has been read so far."""
        return self._parser.has_tool_calls

    def feed(self, token_id: int) -> list[Delta]:
        """Add one token; returns what is certain now. An end token adds nothing."""
        if token_id in self._end_token_ids:
            return []
        deltas: list[Delta] = []
        for text, is_control in self._detokenizer.push(token_id):
            deltas += (
                self._parser.feed_control(text)
                if is_control
                else self._parser.feed_text(text)
            )
        return deltas

    def finish(self) -> list[Delta]:
        """End the answer: gives out what was held back; a call that was cut short is an InvalidToolCallDelta."""
        deltas: list[Delta] = []
        for text, _ in self._detokenizer.flush():
            deltas += self._parser.feed_text(text)
        return deltas + self._parser.finish()


def _begins_thinking(template: ChatTemplate, *, thinking: bool) -> bool:
    """Find out whether the template leaves a think block open where the answer begins.

    Raises:
        ChatTemplateError: the template refuses a plain question, or writes the same for any.
    """
    try:
        rendered, other = (
            template.render([{"role": "user", "content": probe}], thinking=thinking)
            for probe in (_PROBE, _OTHER_PROBE)
        )
    except InvalidRequestError as err:
        raise ChatTemplateError(f"no question can be asked: {err}") from err
    if rendered == other:
        raise ChatTemplateError("the chat template does not write what it is asked")
    opening = rendered.rpartition(_PROBE)[2]
    return opening.rfind(THINK) > opening.rfind(THINK_END)


def _call_forms(template: ChatTemplate) -> tuple[CallForm, ...]:
    """Find out how the model's template writes a call; both ways where it does not say."""
    question = {"role": "user", "content": _PROBE}
    try:
        rendered = template.render(
            [question, _PROBE_CALL], thinking=False, add_generation_prompt=False
        )
    except InvalidRequestError:
        return tuple(CallForm)
    if "<function=probe>" in rendered:
        return (CallForm.XML,)
    if '"name": "probe"' in rendered:
        return (CallForm.JSON,)
    return tuple(CallForm)


def _vocab_size(config: Mapping[str, Any], folder: Path) -> int:
    for section in (config, config.get("text_config")):
        if (
            isinstance(section, Mapping)
            and isinstance(size := section.get("vocab_size"), int)
            and 0 < size <= _MAX_VOCAB_SIZE
        ):
            return size
    raise ChatTemplateError(
        f"{folder / 'config.json'} has no vocab_size from 1 to {_MAX_VOCAB_SIZE}"
    )


def _end_token_ids(
    config: Mapping[str, Any], folder: Path, tokenizer: Tokenizer, vocab_size: int
) -> frozenset[int]:
    """All tokens that any file names as the end of an answer: the files differ, and each can be right."""
    found: set[int] = set()
    generation = read_optional_json_object(folder / "generation_config.json")
    for section in (generation, config, config.get("text_config")):
        if isinstance(section, Mapping):
            ids = section.get("eos_token_id")
            for token_id in ids if isinstance(ids, list) else [ids]:
                if token_id is not None:
                    found.add(_end_token_id(token_id, folder, vocab_size))
    named = read_optional_json_object(folder / "tokenizer_config.json").get("eos_token")
    name = named.get("content") if isinstance(named, Mapping) else named
    if isinstance(name, str):
        token_id = tokenizer.token_id(name)
        if token_id is None:
            raise ChatTemplateError(
                f"{folder / 'tokenizer_config.json'}: the tokenizer has no token {shown(name)}"
            )
        found.add(token_id)
    if not found:
        raise ChatTemplateError(f"{folder} names no token that ends an answer")
    return frozenset(found)


def _end_token_id(token_id: object, folder: Path, vocab_size: int) -> int:
    if type(token_id) is int and 0 <= token_id < vocab_size:
        return token_id
    raise ChatTemplateError(
        f"{folder} names {shown(token_id)} as an end token; ids are whole numbers below {vocab_size}"
    )
