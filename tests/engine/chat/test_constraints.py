"""What is compiled once, and what the library's faults come to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

from llguidance import LLMatcher, LLTokenizer
import pytest

from local_llm_engine.chat import ChatFormat, constraints
from local_llm_engine.errors import GenerationError, InvalidRequestError
from local_llm_engine.types import ToolSpec

from .walks import allowed_ids, asking, calling, control, refused_at, token_ids

COUNT = {"type": "integer", "minimum": 0, "maximum": 9}


class PanicError(BaseException):
    """As a panic of the library comes through: no Exception."""


def panic(*_: Any, **__: Any) -> Never:
    """Stand in for anything of the library."""
    raise PanicError("index out of bounds\n<state>\nall of it")


@pytest.fixture
def chat(folders: dict[str, Path]) -> ChatFormat:
    """A model that nothing was compiled for yet."""
    return ChatFormat.load(folders["qwen"])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every grammar that the library is given."""
    grammars: list[str] = []

    def make(tokens: Any, grammar: str, **options: Any) -> LLMatcher:
        grammars.append(grammar)
        return LLMatcher(tokens, grammar, **options)

    monkeypatch.setattr(constraints, "LLMatcher", make)
    return grammars


def tool(name: str, description: str = "") -> ToolSpec:
    """A tool without parameters."""
    return ToolSpec(name=name, description=description)


def test_the_same_tools_are_compiled_once(
    chat: ChatFormat, compiled: list[str]
) -> None:
    """What they are for plays no part; their names and order do."""
    for tools in ((tool("a"), tool("b")), (tool("a", "new"), tool("b"))):
        chat.guide(calling(*tools))
    assert len(compiled) == 1
    chat.guide(calling(tool("b"), tool("a")))
    assert len(compiled) == 2
    for _ in range(2):
        chat.guide(asking(answer_schema=COUNT))
    chat.guide(asking(answer_schema=COUNT, thinking=True))
    assert len(compiled) == 4


def test_what_failed_is_not_tried_again(chat: ChatFormat, compiled: list[str]) -> None:
    """A schema that takes long to fail would take long every time."""
    for _ in range(2):
        with pytest.raises(InvalidRequestError):
            chat.guide(asking(answer_schema={"not": {}}))
    assert len(compiled) == 1


def test_what_was_not_used_for_long_goes(chat: ChatFormat, compiled: list[str]) -> None:
    """Sixteen grammars are kept."""
    for number in (*range(16), 0, 16, 0, 1):
        chat.guide(calling(tool(f"tool_{number}")))
    assert len(compiled) == 18


def test_answers_to_the_same_tools_do_not_meet(chat: ChatFormat) -> None:
    """Each has a state of its own."""
    request = calling(tool("first"), tool("second"))
    guides = [chat.guide(request) for _ in range(3)]
    ids = token_ids(chat, "<tool_call>\n<function=second>\n</function>\n</tool_call>")
    for guide in guides[:2]:
        assert guide is not None
    for token_id in ids:
        for guide in guides[:2]:
            assert guide is not None
            mask = guide.allowed()
            assert mask is None or token_id in allowed_ids(mask)
            guide.accept(token_id)
    assert [guide and guide.allowed() for guide in guides] == [None, None, None]


def test_a_panic_in_the_library_ends_one_request_only(
    chat: ChatFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools then go unheld, a schema is refused, and the next request is served."""
    with monkeypatch.context() as patched:
        patched.setattr(constraints, "LLMatcher", panic)
        assert chat.guide(calling(tool("a"))) is None
        with pytest.raises(InvalidRequestError, match=r"index out of bounds$"):
            chat.guide(asking(answer_schema=COUNT))
    assert "index out of bounds" in chat.notices[-1]
    assert chat.guide(asking(answer_schema={"type": "boolean"})) is not None


def test_tokens_are_laid_out_once_and_ahead(
    chat: ChatFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the library cannot, whoever needs it is told, and a load goes on."""
    with monkeypatch.context() as patched:
        patched.setattr(constraints, "LLTokenizer", panic)
        chat.prepare_guides()
        assert chat.guide(calling(tool("a"))) is None
        with pytest.raises(InvalidRequestError, match=r"index out of bounds$"):
            chat.guide(asking(answer_schema=COUNT))
    chat.prepare_guides()
    with monkeypatch.context() as patched:
        patched.setattr(constraints, "LLTokenizer", panic)
        assert chat.guide(asking(answer_schema={"type": "boolean"})) is not None


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_who_ends_the_process_meanwhile_is_obeyed(
    chat: ChatFormat, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]
) -> None:
    """Ctrl+C ends a load, and Home Assistant's own end its threads, also while tokens are laid out."""

    def stop(*_: Any, **__: Any) -> LLTokenizer:
        raise end

    with monkeypatch.context() as patched:
        patched.setattr(constraints, "LLTokenizer", stop)
        with pytest.raises(end):
            chat.prepare_guides()
    chat.prepare_guides()
    with monkeypatch.context() as patched:
        patched.setattr(constraints, "LLMatcher", stop)
        with pytest.raises(end):
            chat.guide(asking(answer_schema={"const": end.__name__}))
    assert chat.notices == ()


def test_tools_that_are_no_data_go_unheld(chat: ChatFormat) -> None:
    """A schema that holds itself has no name to be kept under."""
    parameters: dict[str, Any] = {}
    parameters["properties"] = {"a": parameters}
    assert (
        chat.guide(calling(ToolSpec(name="odd", description="", parameters=parameters)))
        is None
    )
    assert "JSON" in chat.notices[0]


@pytest.mark.parametrize("depth", [60, 1_200, 100_000])
def test_endless_nesting_is_refused_in_one_line(chat: ChatFormat, depth: int) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(InvalidRequestError, match="nested too deeply") as caught:
        chat.guide(asking(answer_schema=schema))
    assert len(str(caught.value)) < 200
    chat.guide(calling(ToolSpec(name="Nested", description="", parameters=schema)))
    assert "nested too deeply" in chat.notices[-1]


def test_notices_are_bounded(chat: ChatFormat) -> None:
    """Each is given once, the latest are kept."""
    for number in (*range(25), 24):
        chat.guide(
            calling(
                ToolSpec(
                    name=f"odd_{number}", description="", parameters={"properties": 5}
                )
            )
        )
    assert len(chat.notices) == 20
    assert "odd_24" in chat.notices[-1]


@pytest.mark.parametrize("model", ["qwen", "nano"])
def test_what_no_tokenizer_can_read_is_held_as_the_prompt_shows_it(
    formats: dict[str, ChatFormat], model: str
) -> None:
    """A lone surrogate comes out of JSON; it takes nothing down."""
    chat = formats[model]
    schema = {"enum": ["\ud800"], "description": "\udfff"}
    broken = ToolSpec(
        name="\ud800", description="", parameters={"properties": {"a": schema}}
    )
    assert chat.guide(calling(broken)) is not None
    assert refused_at(chat, asking(answer_schema=schema), '"\ufffd"') is None


def test_a_notice_has_no_name_of_the_house_in_it(chat: ChatFormat) -> None:
    """The library would show the grammar."""
    fields = {"room": {"enum": ["Nursery"]}, "n": {"type": "object", "not": {}}}
    odd = ToolSpec(
        name="odd", description="", parameters={"properties": fields | {"m": COUNT}}
    )
    impossible = {**COUNT, "minimum": 10}
    for tool_spec in (odd, tool("even")):
        chat.guide(calling(tool_spec))
    with pytest.raises(InvalidRequestError) as raised:
        chat.guide(asking(answer_schema={"properties": fields | {"m": impossible}}))
    assert "Nursery" not in f"{chat.notices} {raised.value}"


def exhausted(chat: ChatFormat, beginning: str, **fields: Any) -> Any:
    """A guide whose library has given up, after this beginning."""
    guide: Any = chat.guide(asking(**fields))
    for token_id in token_ids(chat, beginning):
        guide.accept(token_id)
    matcher = guide._call if hasattr(guide, "_call") else guide._answer
    matcher.consume_token(control(chat, "<|im_start|>"))
    assert matcher.is_error()
    return guide


@pytest.mark.parametrize(
    "ask",
    [lambda guide: guide.allowed(), lambda guide: guide.accept(5)],
    ids=["mask", "token"],
)
def test_a_call_that_the_library_gives_up_goes_on_unheld(
    chat: ChatFormat, ask: Callable[[Any], object]
) -> None:
    """With a notice; the next call is held again."""
    guide = exhausted(chat, "<tool_call>\n<function=", tools=(tool("a"),))
    assert ask(guide) is None
    assert guide.allowed() is None
    (notice,) = chat.notices
    assert notice.startswith("a tool call was not checked while it was written: ")
    assert "\n" not in notice
    guide.accept(control(chat, "<tool_call>"))
    assert guide.allowed() is not None


@pytest.mark.parametrize(
    "ask",
    [lambda guide: guide.allowed(), lambda guide: guide.accept(5)],
    ids=["mask", "token"],
)
def test_an_answer_that_the_library_gives_up_fails(
    chat: ChatFormat, ask: Callable[[Any], object]
) -> None:
    """Nobody may take it for one that satisfies its schema."""
    guide = exhausted(chat, "", answer_schema=COUNT)
    with pytest.raises(GenerationError, match="schema"):
        ask(guide)


def test_text_that_the_tokenizer_would_change_is_spelled_byte_by_byte(
    chat: ChatFormat, folders: dict[str, Path]
) -> None:
    """A decomposed name in a schema is written as the schema has it."""
    decomposed = "Bu\u0308ro"
    guide = chat.guide(asking(answer_schema={"const": decomposed}))
    assert guide is not None
    written = b""
    for _ in range(30):
        mask = guide.allowed()
        assert mask is not None
        token_id = min(allowed_ids(mask), key=lambda found: found in chat.end_token_ids)
        if token_id in chat.end_token_ids:
            break
        written += chat._tokenizer.token_bytes(token_id)
        guide.accept(token_id)
    assert written.decode() == f'"{decomposed}"'


def test_capitals_are_written_as_the_tokenizer_writes_them(
    formats: dict[str, ChatFormat],
) -> None:
    """The built-in model has a mark for them, and keeps to its own tokens in names and choices."""
    chat = formats["nano"]
    assert chat._tokenizer.respell("HassTurnOn") == "⇧hass⇧turn⇧on"
    assert chat._tokenizer.respell("⇧") == "⇧"
    guide = chat.guide(asking(answer_schema={"enum": ["Kitchen"]}))
    assert guide is not None
    for token_id in token_ids(chat, '"Kitchen"'):
        mask = guide.allowed()
        assert mask is not None
        assert allowed_ids(mask) == [token_id]
        guide.accept(token_id)
