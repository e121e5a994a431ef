"""A model's template is found, renders as transformers renders it, and cannot do harm."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from local_llm_engine.chat import template as template_module
from local_llm_engine.chat.template import ChatTemplate
from local_llm_engine.errors import ChatTemplateError, InvalidRequestError

from .conversations import TOOLS
from .model_folders import write_json
from .oracle import tools_as_dicts

MESSAGES = [
    {"role": "system", "content": "Büro — a/b <i> 'x'"},
    {"role": "user", "content": "Hi\n"},
    {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
        {"type": "function", "id": "c1", "function": {"name": "A", "arguments": {"z": [1, None, True], "a": "ß"}}}
    ]},
    {"role": "tool", "content": '{"state":"on"}', "tool_call_id": "c1"},
]  # fmt: skip


def rendered(source: str, messages: list[dict[str, Any]], **variables: Any) -> str:
    found = ChatTemplate(
        source, special_tokens={"bos_token": "<s>", "eos_token": "</s>"}
    )
    return found.render(
        messages,
        variables.get("tools") or (),
        thinking=variables.get("thinking", False),
    )


def reference(source: str, messages: list[dict[str, Any]], **variables: Any) -> str:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE()),
        bos_token="<s>",
        eos_token="</s>",
        chat_template=source,
    )
    text = tokenizer.apply_chat_template(
        messages,
        tools=variables.get("tools"),
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=variables.get("thinking", False),
    )
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    "source",
    [
        "{% for message in messages %}\n    {% if message.role == 'user' %}\n{{ message.content }}\n    {% endif %}\n{% endfor %}\n",
        "{% for message in messages %}{{ message.content | tojson }}{{ message.tool_calls | default(1) | tojson }}\n{% endfor %}",
        "{{ messages[2].tool_calls | tojson(indent=2) }}{{ messages[2].tool_calls | tojson(sort_keys=true, separators=(',', ':')) }}",
        "{{ messages[0].content | tojson(ensure_ascii=true) }}{{ '🛋️' | tojson(ensure_ascii=true) }}",
        "{{ messages[0].content | tojson | safe }}{{ messages[0].content | e }}",
        "{% for message in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{{ message.role }}{% if loop.index0 == 2 %}{% break %}{% endif %}{% endfor %}",
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
        "{% generation %}  {% set x = 1 %}{{ messages[1].content }}\n{% endgeneration %}\n{{ x is defined }}",
        "{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ add_generation_prompt }}|{{ enable_thinking }}",
        "{{ tools is none }}{{ tools is defined }}{{ documents is none }}",
        "{{ dict(a=1, **{'b': 2}) }}{{ messages[2].tool_calls[0].function.arguments | items | list }}",
        "{{ messages[1].content | trim }}|{{ messages[0].nothing }}|{{ nothing }}",
        "{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m('a') }}{{ messages[2]['reasoning_content'] }}{{ messages[2].thinking }}",
        "{{ strftime_now('%Y-%m-%d') }}",
    ],
    ids=[
        "blocks",
        "json",
        "json options",
        "ascii",
        "escaping",
        "loop controls",
        "namespace",
        "generation",
        "variables",
        "none",
        "dict",
        "undefined",
        "macro",
        "date",
    ],
)
@pytest.mark.parametrize("thinking", [True, False], ids=["thinking", "quick"])
def test_bytes_equal_the_reference(source: str, thinking: bool) -> None:
    messages = [
        {**message, "thinking": "hm"} if "reasoning_content" in message else message
        for message in MESSAGES
    ]
    assert rendered(source, messages, thinking=thinking) == reference(
        source, messages, thinking=thinking
    )


def test_tools_equal_the_reference() -> None:
    source = "{% for tool in tools %}{{ tool | tojson }}\n{{ tool.function.parameters.required }}{% endfor %}"
    tools = tools_as_dicts(TOOLS)
    assert rendered(source, MESSAGES, tools=tools) == reference(
        source, MESSAGES, tools=tools
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "{{ raise_exception('Only one system message, please.') }}",
            "Only one system message, please",
        ),
        ("{{ messages[0].content + 1 }}", "refuses these messages"),
        ("{{ messages[0].nothing.more }}", "nothing"),
        ("{{ 1 / 0 }}", "division"),
        ("{{ range(1, 5, 0) }}", "must not be zero"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "refuses these messages"),
        ("{{ messages | dictsort }}", "refuses these messages"),
    ],
    ids=["raise", "type", "undefined", "arithmetic", "value", "recursion", "attribute"],
)
def test_a_template_that_refuses_says_why(source: str, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        rendered(source, MESSAGES)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{% set ns = namespace() %}{% set ns.__call__ = 1 %}",
        "{{ namespace(__init__=1) }}",
        "{{ dict.__globals__['x'] }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ lipsum() }}",
        "{% for i in range(1000000) %}{% endfor %}",
        "{% for i in range(90000) %}{{ messages[0].content * 100 }}{% endfor %}",
    ],
    ids=[
        "append",
        "update",
        "class",
        "subclasses",
        "namespace",
        "namespace init",
        "dict",
        "globals",
        "lipsum",
        "range",
        "output",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(InvalidRequestError):
        rendered(source, [dict(message) for message in MESSAGES])


@pytest.mark.parametrize(
    "source",
    [
        "{% set n = 9 %}{% set x = n ** (n ** 9) %}",
        "{% set x = 9 ** 9 ** 9 %}",
        "{% set x = 'a' * 3000000000 %}",
        "{% set x = 3000000000 * [0] %}",
        "{% set x = '%3000000000d' % 1 %}",
        "{% set n = 10 ** 9 %}",
    ],
)
def test_one_step_neither_computes_for_ever_nor_fills_the_memory(source: str) -> None:
    """Such a step would hold Python's lock: all of Home Assistant would stand still."""
    with pytest.raises(InvalidRequestError, match="may not"):
        rendered(source, MESSAGES)


def test_ordinary_arithmetic_is_allowed() -> None:
    """What templates do compute."""
    source = "{{ '=' * 3 }}{{ 2 * 3 }}{{ 7 % 2 }}{{ '%s-%02d' % ('a', 5) }}"
    assert rendered(source, MESSAGES) == "===61a-05"


def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_module, "MAX_RENDERED_CHARACTERS", 10)
    assert rendered("{% for i in range(5) %}ab{% endfor %}", MESSAGES) == "ab" * 5
    with pytest.raises(InvalidRequestError, match="more than 10 characters"):
        rendered("{% for i in range(6) %}ab{% endfor %}", MESSAGES)


@pytest.mark.parametrize(
    "source", ["{% if %}", "{{ 'a }}", "{% for x in y %}", "{% unknown %}"]
)
def test_a_template_that_is_not_jinja_is_refused(source: str) -> None:
    with pytest.raises(ChatTemplateError, match="not valid Jinja"):
        ChatTemplate(source)


def render_loaded(folder: Path, tools: list[dict[str, Any]] | None = None) -> str:
    return ChatTemplate.load(folder).render(MESSAGES, tools or (), thinking=False)


def test_template_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text(
        "file {{ eos_token }}", encoding="utf-8"
    )
    config = {"chat_template": "config", "eos_token": {"content": "</s>"}}
    write_json(tmp_path / "tokenizer_config.json", config)
    assert render_loaded(tmp_path) == "file </s>"


def test_template_in_the_configuration(tmp_path: Path) -> None:
    config = {"chat_template": "config {{ bos_token }}", "bos_token": "<s>"}
    write_json(tmp_path / "tokenizer_config.json", config)
    assert render_loaded(tmp_path) == "config <s>"


def test_named_templates(tmp_path: Path) -> None:
    named = [
        {"name": "tool_use", "template": "tools"},
        {"name": "default", "template": "plain"},
    ]
    write_json(tmp_path / "tokenizer_config.json", {"chat_template": named})
    assert render_loaded(tmp_path) == "plain"
    assert render_loaded(tmp_path, tools_as_dicts(TOOLS)) == "tools"


def test_one_named_template_serves_both(tmp_path: Path) -> None:
    write_json(
        tmp_path / "tokenizer_config.json",
        {"chat_template": [{"name": "default", "template": "plain"}]},
    )
    assert render_loaded(tmp_path, tools_as_dicts(TOOLS)) == "plain"


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"chat_template": None},
        {"chat_template": []},
        {"chat_template": [{"name": "rag", "template": "x"}]},
        {"chat_template": 3},
    ],
    ids=["none", "null", "empty", "other name", "number"],
)
def test_a_missing_template_is_said(tmp_path: Path, config: dict[str, Any]) -> None:
    write_json(tmp_path / "tokenizer_config.json", config)
    with pytest.raises(ChatTemplateError, match="has no chat template"):
        ChatTemplate.load(tmp_path)


def test_a_missing_template_is_said_without_any_file(tmp_path: Path) -> None:
    with pytest.raises(ChatTemplateError, match="has no chat template"):
        ChatTemplate.load(tmp_path)
