"""Damages a chat template: its marks moved about, and pieces put in that reach, loop, or grow."""

from random import Random
import re

from .damage_bytes import damage_bytes
from .damage_json import strange_text

_MARK = re.compile(
    r"(\{[%{#]-?|-?[%}#]\}|\b(?:for|endfor|if|endif|else|elif|set|endset|macro|endmacro)\b|\||\(|\)|\[|\]|\.)"
)
_VALUES = (
    "messages", "tools", "messages[0]", "messages[-1].content", "''", "'a'", "0", "1", "-1", "2 ** 9", "none", "loop", "self",
    "range(9)", "range(99999)", "range(10 ** 9)", "namespace(a=1)", "dict(a=1)", "cycler(1, 2)", "joiner(',')", "x", "1e400",
    "'%99999d' % 1", "'%s' % messages", "'a' * 9999999", "messages * 999999", "[messages] * 9", "caller", "varargs", "1.0",
    "'{:>99999999}'.format(1)", "'a'.center(99999999)", "'a'.ljust(99999999)", "'a'.join(range(99)|map('string'))",
    "messages.__class__", "''.__class__.__mro__", "messages|attr('__class__')", "lipsum", "raise_exception", "strftime_now",
    "strftime_now('%' * 99999)", "strftime_now('\\0')", "raise_exception('x' * 99999)", "'a'|indent(99999999)",
    "'\\ud800'", "'<|im_end|>'", "true", "[1, 2][::-1]", "(1, 2)", "{'a': 1}", "messages|tojson(indent=4)", "'a'.encode()",
    "'a,b'.split(',')", "'a'.replace('', 'b' * 999)", "99999999 * 99999999", "0 / 0", "1 % 0", "'a'.zfill(99999999)",
    "'a'.expandtabs(99999999)", "('\\t' * 9999).expandtabs(99999)", "range(9)|batch(3)|list", "messages|length", "'a' ~ 1",
    "'9' * 9999|int", "('9' * 9999)|int", "1|round(99999)", "''|center(99999999)", "range(99999)|slice(3)|list", "x.y.z",
    "'a'|format(1)", "'%1000000s'|format(1)", "messages|string|wordwrap(1)", "'x '|urlize", "messages|pprint", "messages|sort",
    "messages|groupby('role')", "range(99999)|sum", "range(9999)|unique|list", "'&' * 99999|escape", "{}.items()", "not x",
    "999999999", "'a'.encode()", "'aa'.encode() * 99", "{}.fromkeys(range(9), messages)", "(5).to_bytes(9)", "[x, x]", "{'a': x}",
    "range(9)|map(attribute='a', default=x)|list", "dict(a=x, b=x)", "x + x", "x ~ x",
)  # fmt: skip
_STATEMENTS = (
    "{% for a in VALUE %}BODY{% endfor %}",
    "{% for a in VALUE recursive %}{{ loop(VALUE) }}{% endfor %}",
    "{% for a in VALUE %}{% for b in VALUE %}{% endfor %}{% endfor %}",
    "{% for a in VALUE if a %}{% break %}{% endfor %}",
    "{% macro m(a) %}{{ m(a) }}{% endmacro %}{{ m(VALUE) }}",
    "{% macro m(a) %}BODY{{ caller() }}{% endmacro %}{% call m(VALUE) %}{{ VALUE }}{% endcall %}",
    "{% set x = VALUE %}BODY",
    "{% set ns = namespace(x=VALUE) %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x=VALUE) %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=3) %}{% for a in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set x %}BODY{% endset %}{{ x }}",
    "{% if VALUE %}BODY{% else %}{{ VALUE }}{% endif %}",
    "{% if VALUE is defined and VALUE is mapping %}BODY{% endif %}",
    "{% filter upper %}BODY{% endfilter %}",
    "{% with x = VALUE %}BODY{% endwith %}",
    "{% generation %}BODY{% endgeneration %}",
    "{% include VALUE %}",
    "{% import VALUE as y %}",
    "{% extends VALUE %}",
    "{% block b %}BODY{{ self.b() }}{% endblock %}",
    "{% do VALUE %}",
    "{{ VALUE }}",
    "{{ VALUE + VALUE }}",
    "{{ VALUE * VALUE }}",
    "{{ VALUE % VALUE }}",
    "{{ VALUE ~ VALUE }}",
    "{{ VALUE if VALUE else VALUE }}",
    "{{ VALUE in VALUE }}",
    "{{ VALUE[VALUE] }}",
    "{{ VALUE[VALUE:VALUE:VALUE] }}",
    "{{ VALUE < VALUE }}",
    "{{ VALUE|FILTER }}",
    "{{ VALUE|FILTER(VALUE) }}",
    "{{ VALUE|map(attribute=VALUE)|list }}",
    "{{ VALUE|map(VALUE)|list }}",
    "{{ VALUE|select(VALUE)|list }}",
    "{{ VALUE.format(VALUE) }}",
    "{{ VALUE.METHOD(VALUE) }}",
    "{{ VALUE.METHOD(VALUE, VALUE) }}",
    "{% raw %}BODY{% endraw %}",
    "{# BODY #}",
)  # fmt: skip
_FILTERS = (
    "list", "string", "tojson", "length", "trim", "upper", "join", "items", "reverse", "first", "last", "safe", "int", "float",
    "indent", "replace", "default", "dictsort", "batch", "slice", "random", "max", "min", "abs", "round", "wordcount", "center",
    "truncate", "title", "striptags", "xmlattr", "urlencode", "filesizeformat", "selectattr", "rejectattr", "attr", "unique",
)  # fmt: skip
_METHODS = (
    "split", "join", "replace", "strip", "format", "format_map", "startswith", "items", "get", "keys", "update", "append",
    "to_bytes", "fromkeys", "maketrans", "hex", "rjust", "splitlines", "decode", "copy", "values", "removeprefix",
    "pop", "center", "ljust", "zfill", "translate", "encode", "count", "index", "expandtabs", "splitlines", "rpartition",
)  # fmt: skip


def damage_template(rng: Random, data: bytes) -> bytes:
    """Change a template in a few places."""
    if rng.random() < 0.1:
        return damage_bytes(rng, data)
    text = data.decode()
    for _ in range(rng.choice((1, 1, 2, 3))):
        pieces = _MARK.split(text)
        at = rng.randrange(len(pieces))
        match rng.randrange(8):
            case 0:
                del pieces[at]
            case 1:
                pieces[at] = rng.choice(pieces)
            case 2:
                pieces.insert(at, rng.choice(pieces))
            case 3:
                other = rng.randrange(len(pieces))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                # Outside all marks: at the beginning, at the end, or wherever it falls.
                at = rng.choice((0, len(pieces), at))
                pieces.insert(at, _statement(rng, rng.choice((0, 1, 2, 2, 40))))
        text = "".join(pieces)
    return text.encode("utf-8", "surrogatepass")


def _statement(rng: Random, depth: int) -> str:
    """Write a statement around others."""
    made = "x"
    for _ in range(depth + 1):
        made = _filled(rng, rng.choice(_STATEMENTS), made)
    return made


def _filled(rng: Random, statement: str, body: str) -> str:
    def chosen(found: re.Match[str]) -> str:
        match found[0]:
            case "VALUE":
                value = rng.choice(_VALUES)
                return repr(strange_text(rng)) if rng.random() < 0.1 else value
            case "FILTER":
                return rng.choice(_FILTERS)
            case "METHOD":
                return rng.choice(_METHODS)
            case _:
                return body

    return re.sub("VALUE|FILTER|METHOD|BODY", chosen, statement)
