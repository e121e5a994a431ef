"""Ready replacements: they take the place of the sentence that changes, and of nothing else."""

import pytest

from custom_components.local_llm.linter.rewrite import Replacement, rewrite
from custom_components.local_llm.linter.source import TemplateSource

TIME = "Use the clock."
WEATHER = "Use the weather."
WORDS = {"{{ t }}": TIME, "{{ w }}": WEATHER, "{% if t %}": TIME, "{{ gone }}": ""}


def replaced(source: str, *spans: str) -> str:
    found = []
    for span in spans:
        start = source.index(span)
        words = next(
            (text for tag, text in WORDS.items() if span.startswith(tag)), "Ada"
        )
        found.append(
            Replacement(
                (start, start + len(span)), words, span.startswith(tuple(WORDS))
            )
        )
    return rewrite(source, found)


@pytest.mark.parametrize(
    ("source", "spans", "expected"),
    [
        ("It is {{ t }}.", ["{{ t }}"], TIME),
        (
            "Be kind.\nIt is {{ t }}.\nBe brief.",
            ["{{ t }}"],
            f"Be kind.\n{TIME}\nBe brief.",
        ),
        (
            "Be kind. It is {{ t }}! Be brief.",
            ["{{ t }}"],
            f"Be kind. {TIME} Be brief.",
        ),
        ("- Time: {{ t }}", ["{{ t }}"], f"- {TIME}"),
        ("  2. Time: {{ t }}", ["{{ t }}"], f"  2. {TIME}"),
        ("親切に。今は{{ t }}です。短く。", ["{{ t }}"], f"親切に。{TIME}短く。"),
        ("Now {{ t }}, {{ w }} out.", ["{{ t }}", "{{ w }}"], f"{TIME} {WEATHER}"),
        (
            "At {{ t }}\nand {{ t }} o'clock\nBe kind.",
            ["{{ t }}", "{{ t }} o'clock"],
            f"{TIME}\nBe kind.",
        ),
        (
            "It is {{ t }}. It is {{ t }} o'clock. Go.",
            ["{{ t }}", "{{ t }} o'clock"],
            f"{TIME} Go.",
        ),
        ("Be {{ r }}.", ["{{ r }}"], "Be Ada."),
        ("{{ r }} {{ s }} {{ r }}.", ["{{ r }}", "{{ s }}"], "Ada Ada {{ r }}."),
        ("{{ r }} at {{ t }}.", ["{{ r }}", "{{ t }}"], TIME),
        ("{{ t }} with {{ r }}.", ["{{ t }}", "{{ r }}"], TIME),
        (
            "A.\n{% if t %}\nIt is {{ w }}.\n{% endif %}\nB.",
            ["{% if t %}\nIt is {{ w }}.\n{% endif %}", "{{ w }}"],
            f"A.\n{TIME} {WEATHER}\nB.",
        ),
        ("A.\n{{ gone }}\nB.", ["{{ gone }}"], "A.\nB."),
        ("A.\n* {{ gone }}", ["{{ gone }}"], "A.\n"),
        ("{{ gone }}. B.", ["{{ gone }}"], "B."),
        ("{{ gone }}。親切に。", ["{{ gone }}"], "親切に。"),
        ("A {{ r.s('. x') }} {{ t }}. B", ["{{ t }}"], f"{TIME} B"),
        ("Nothing changes.", [], "Nothing changes."),
    ],
)
def test_replaces(source: str, spans: list[str], expected: str) -> None:
    assert replaced(source, *spans) == expected


@pytest.mark.parametrize(
    ("source", "expressions", "statements"),
    [
        ("{{ a }} {# {{ b }} #} {{ '}}' }}", ["{{ a }}", "{{ '}}' }}"], []),
        ("{% raw %}{{ a }}{% endraw %}{{- b -}}", ["{{- b -}}"], []),
        (
            "{% if a %}{% for b in c %}{% endfor %}{% else %}{% endif %}{% for d in e %}{%- endfor -%}",
            [],
            [
                "{% if a %}{% for b in c %}{% endfor %}{% else %}{% endif %}",
                "{% for b in c %}{% endfor %}",
                "{% for d in e %}{%- endfor -%}",
            ],
        ),
        (
            '{% if a == "%}" %}x{%+ endif %}{% endif %}',
            [],
            ['{% if a == "%}" %}x{%+ endif %}'],
        ),
    ],
)
def test_knows_where_everything_stands(
    source: str, expressions: list[str], statements: list[str]
) -> None:
    text = TemplateSource(source)
    found = text.expressions(len(expressions))
    assert found is not None
    assert [source[start:end] for start, end in found] == expressions
    found = text.statements(len(statements))
    assert found is not None
    assert [source[start:end] for start, end in found] == statements


def test_is_not_certain_where_the_numbers_differ() -> None:
    text = TemplateSource("{{ a }}{% if b %}{% endif %}")
    assert text.expressions(2) is None
    assert text.statements(0) is None
