"""The bounds of templates: nothing takes more than seconds or fills the memory, and honest ones never meet them.

What has no end would hold Python's lock: all of Home Assistant would stand still.
"""

from pathlib import Path
import resource
import time

import pytest

from local_llm_engine.chat import template_bounds
from local_llm_engine.chat.template import ChatTemplate
from local_llm_engine.errors import ChatTemplateError, InvalidRequestError

from .conversations import HOUSE, TOOLS
from .model_folders import HERMES_TEMPLATE, KEEPS_THINKING_TEMPLATE, QWEN_TEMPLATE

MESSAGES = [{"role": "user", "content": "Hello?"}]
ENDLESS = {
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops over what loops": "{% for a in range(9999) %}{% for b in range(9999) if b %}{{ a * b }}{% endfor %}{% endfor %}",
    "a loop's length": "{% for a in range(9999) %}{% for b in range(9999) %}{% if loop.length %}{% endif %}{% endfor %}{% endfor %}",
    "macros that call each other twice": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "recursive loops": "{% for a in range(9) recursive %}{{ loop(range(9)) if loop.depth < 30 }}{% endfor %}",
    "filters in filters": "{% for a in range(999) %}{{ range(99999) | map('string') | map('upper') | join | length }}{% endfor %}",
    "tests in filters": "{% for a in range(999) %}{{ range(99999) | select('odd') | list | length }}{% endfor %}",
    "slow steps": "{% set x = 'ab ' * 999999 %}{% for a in range(9999) %}{% if x | title | wordcount %}{% endif %}{% endfor %}",
    "slow comparisons": "{% set x = ('ab,' * 99999).split(',') %}{% for a in range(99999) %}{% if x == x[:] %}{% endif %}{% endfor %}",
}  # fmt: skip
GROWING = {
    "sums": "{% set n = namespace(x='ab') %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "joins": "{% set n = namespace(x='ab') %}{% for a in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "blocks": "{% set n = namespace(x='ab') %}{% for a in range(99) %}{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}{% endfor %}",
    "macros": "{% macro m(x, n) %}{% if n %}{{ m(x ~ x, n - 1) }}{% else %}{{ x }}{% endif %}{% endmacro %}{{ m('ab', 90) }}",
    "lists": "{% set n = namespace(x=[1]) %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "lists of the same": "{% set n = namespace(x=[]) %}{% for a in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
    "tuples of the same": "{% set n = namespace(x=1) %}{% for a in range(99) %}{% set n.x = (n.x, n.x) %}{% endfor %}{{ n.x == n.x }}",
    "objects of the same": "{% set n = namespace(x=1) %}{% for a in range(99) %}{% set n.x = {1: n.x, 2: n.x} %}{% endfor %}{{ n.x | tojson }}",
    "dict() of the same": "{% set n = namespace(x=1) %}{% for a in range(99) %}{% set n.x = dict(a=n.x, b=n.x) %}{% endfor %}{{ n.x | tojson }}",
    "copies of the same": "{% set n = namespace(x=1) %}{% for a in range(99) %}{% set n.x = {}.fromkeys(range(9), n.x) %}{% endfor %}{{ n.x | tojson }}",
    "defaults of the same": "{% set n = namespace(x=1) %}{% for a in range(99) %}{% set n.x = range(2) | map(attribute='x', default=n.x) | list %}{% endfor %}{{ n.x }}",
    "bytes": "{% set n = namespace(x='ab'.encode()) %}{% for a in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "padded bytes": "{{ 'a'.encode().ljust(999999999) }}",
    "numbers as bytes": "{{ (5).to_bytes(999999999) }}",
    "a loop's output": "{% set x = 'a' * 999999 %}{% set y %}{% for a in range(9999) %}{{ x }}{% endfor %}{% endset %}",
    "many that are kept": "{% set n = namespace(x=[]) %}{% for a in range(9999) %}{% set n.x = [n.x, 'a' * 999999 ~ a] %}{% endfor %}",
    "padding": "{{ 'a'.ljust(999999999) }}",
    "zeros": "{{ '1'.zfill(999999999) }}",
    "tabs": "{{ ('\t' * 9999).expandtabs(99999) }}",
    "replacing": "{% set x = 'a' * 99999 %}{{ x.replace('a', x) }}",
    "the filter that replaces": "{% set x = 'a' * 99999 %}{{ x | replace('a', x) }}",
    "replacing nothing": "{% set x = 'a' * 99999 %}{{ x.replace('', x) }}",
    "translating": "{% set x = 'a' * 99999 %}{{ x.translate({97: x}) }}",
    "joining": "{% set x = 'a' * 99999 %}{{ x.join(x) }}",
    "the filter that joins": "{% set x = 'a' * 99999 %}{{ range(99999) | join(x) }}",
    "formatting": "{{ '{:>999999999}'.format(1) }}",
    "formatting to a given width": "{{ '{:>{}}'.format(1, 999999999) }}",
    "formatting by a map": "{{ '{a:>999999999}'.format_map({'a': 1}) }}",
    "formatting the same": "{% set x = 'a' * 999999 %}{{ ('{0}' * 99999).format(x) }}",
    "percents of the same": "{% set x = 'a' * 999999 %}{{ ('%(x)s' * 99999) % {'x': x} }}",
    "the filter that formats": "{{ '%999999999d' | format(1) }}",
    "indenting": "{{ 'a\nb' | indent(999999999) }}",
    "indenting JSON": "{{ [[1]] | tojson(indent=999999999) }}",
    "adding lists up": "{{ ([[1] * 9999] * 99) | sum(start=[]) }}",
    "lists of characters": "{{ ('a' * 3999999) | list | length }}",
    "parts": "{{ (',' * 3999999).split(',') | length }}",
}  # fmt: skip


def render(source: str) -> str:
    return ChatTemplate(source).render(MESSAGES, thinking=False)


def test_what_has_no_end_is_refused_within_seconds() -> None:
    started = time.process_time()
    with pytest.raises(InvalidRequestError, match="may not take more than 500000"):
        render(ENDLESS["loops in loops"])
    assert time.process_time() - started < 3.0


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_whatever_has_no_end_is_bounded(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a tenth of the steps and of the time, which change nothing but how long this takes."""
    monkeypatch.setattr(template_bounds, "MAX_STEPS", 50_000)
    monkeypatch.setattr(template_bounds, "MAX_SECONDS", 0.15)
    started = time.process_time()
    with pytest.raises(InvalidRequestError, match=r"may not (take more|compute)"):
        render(source)
    assert time.process_time() - started < 3.0


@pytest.mark.parametrize("source", GROWING.values(), ids=GROWING)
def test_what_fills_the_memory_is_refused(source: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidRequestError, match="may not"):
        render(source)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < 300 << 20


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for a in [1, 2] %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/2 2/2 "),
        ("{% for a in [1, 2, 3] %}{{ a }}{{ ',' if not loop.last }}{% endfor %}", "1,2,3"),
        ("{% for a in [] %}x{% else %}none{% endfor %}", "none"),
        ("{% for a in nothing %}x{% else %}none{% endfor %}", "none"),
        ("{% for key, value in {'a': 1}.items() %}{{ key ~ value }}{% endfor %}", "a1"),
        ("{% for a in [1, 2, 3] if a != 2 %}{{ loop.previtem }}{{ a }} {% endfor %}", "1 13 "),
        ("{% for a in [[1], [2, [3]]] recursive %}{{ loop(a) if a is iterable else a }}{% endfor %}", "123"),
        ("{% for a in range(9) %}{% if a == 2 %}{% break %}{% endif %}{{ a }}{% endfor %}", "01"),
        ("{{ 'a' ~ 1 ~ none ~ [1, 'b'] }}", "a1None[1, 'b']"),
        ("{{ ['a', messages[0].role] | join(', ') }}", "a, user"),
        ("{{ messages | map(attribute='role') | join('-') }}", "user"),
        ("{{ messages | join('-', attribute='role') }}", "user"),
        ("{{ (1, messages[0].role)[1] }}", "user"),
        ("{{ 'a' + 'b' }}{{ 1 + 2 }}{{ [1] + [2] }}{{ [0] * 2 }}{{ 2 * 'c' }}", "ab3[1, 2][0, 0]cc"),
        ("{% set a, b = 1, messages[0].role %}{{ b }}", "user"),
        ("{{ 'a\nb' | indent(2) }}{{ 'a\nb' | indent('> ', first=true) }}", "a\n  b> a\n> b"),
        ("{{ 'x{}y{b}'.format(1, b='z') }}{{ '%s-%5.1f' | format('a', 2) }}", "x1yza-  2.0"),
        ("{{ 'a,b'.split(',') }}{{ '-'.join(['a', 'b']) }}{{ 'aa' | replace('a', 'b', 1) }}", "['a', 'b']a-bba"),
        ("{{ 2.25 | round(1) }} {{ 7 | round }} {{ [1, 2] | sum }} {{ [{'a': 2}] | sum(attribute='a') }}", "2.2 7 3 2"),
        ("{% set x %}{{ messages[0].role }}!{% endset %}{{ x | upper }}", "USER!"),
    ],
)  # fmt: skip
def test_honest_templates_write_what_they_did(source: str, expected: str) -> None:
    assert render(source) == expected


@pytest.mark.parametrize(
    "path",
    [QWEN_TEMPLATE, HERMES_TEMPLATE, KEEPS_THINKING_TEMPLATE],
    ids=["qwen", "hermes", "keeps thinking"],
)
def test_a_long_conversation_stays_far_below_the_bounds(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred turns over a large house take a tenth of the steps that are allowed."""
    monkeypatch.setattr(template_bounds, "MAX_STEPS", 50_000)
    template = ChatTemplate(path.read_text("utf-8"))
    turn = [
        {"role": "user", "content": "Turn on the light"},
        {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nDone. " * 20},
    ]
    messages = [{"role": "system", "content": HOUSE * 500}, *turn * 200, turn[0]]
    tools = [{"type": "function", "function": {"name": tool.name}} for tool in TOOLS]
    assert len(template.render(messages, tools, thinking=True)) > 50_000


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{{ 1 }}" * 99_999, "has 699993 characters; at most 200000"),
        ("{{ messages | wordwrap(1) }}", "No filter named 'wordwrap'"),
        ("{% for a in b %}" * 99 + "{% endfor %}" * 99, "too deep|cannot be compiled"),
        ("{{ " + "(" * 9_999 + ")" * 9_999 + " }}", "too deep|not valid Jinja"),
    ],
    ids=["length", "filter", "loops", "brackets"],
)
def test_what_cannot_be_compiled_is_refused(source: str, problem: str) -> None:
    with pytest.raises(ChatTemplateError, match=problem) as caught:
        ChatTemplate(source)
    assert len(str(caught.value)) < 400


def test_numbers_that_python_cannot_write_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="refuses these messages"):
        render("{% set x = [messages, 1e400] %}")
