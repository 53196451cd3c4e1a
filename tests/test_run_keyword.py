import pytest

from capturegate.errors import InputError
from capturegate.run.keyword import parse_keyword

IDS = [
    "decode[pooled/census]@fake",
    "decode[bypass/census]@fake",
    "wide-decode[pooled/census]@fake",
    "pool[pooled/default]@fake",
]


def chosen(text):
    matches = parse_keyword(text, IDS)
    return [IDS.index(id_) for id_ in IDS if matches(id_)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decode", [0, 1, 2]),
        ("decode and bypass", [1]),
        ("bypass or default", [1, 3]),
        ("not decode", [3]),
        ("decode and not wide", [0, 1]),
        ("not (bypass or wide)", [0, 3]),
        ("bypass or wide and default", [1]),
        ("(bypass or wide) and census", [1, 2]),
        ("not not default", [3]),
        ("decode[pooled", [0, 2]),
        ("decode[pooled/census]@fake", [0]),
        ("decode[pooled/census]", [0]),
        ("not decode[pooled/census]@fake", [1, 2, 3]),
        ("DECODE", []),
    ],
)
def test_the_expression_selects(text, expected):
    assert expected == chosen(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("and", "'and' stands where a word should be"),
        ("decode and", "it ends where a word should be"),
        ("decode bypass", "nothing can follow before 'bypass'"),
        ("(decode", "a parenthesis is not closed"),
        ("decode)", "nothing can follow before ')'"),
        ("()", "')' stands where a word should be"),
        ("not", "it ends where a word should be"),
        ("(" * 60 + "a", "it is nested more than 50 deep"),
    ],
)
def test_what_is_no_expression_is_refused(text, problem):
    with pytest.raises(InputError) as error:
        chosen(text)
    assert f"-k {text!r} cannot be read: {problem}" == str(error.value).splitlines()[0]
