"""Flips on source: every operator by its own examples, anchors, encodings, odd places."""

from __future__ import annotations

import sys

import pytest

from capturegate.errors import Location
from capturegate_mutations.operators import OPERATORS, Arguments
from capturegate_mutations.plan import CodeFlip
from capturegate_mutations.prepare import diff, flip_source
from capturegate_mutations.scope import Anchor, open_scope
from capturegate_mutations.source import (
    InvalidFlip,
    Source,
    apply,
    compile_source,
    read_source,
    same_bytecode,
)

EXAMPLES = [(op, example) for op in OPERATORS.values() for example in op.examples]


def source(text: str) -> Source:
    return Source(module="pump", path="pump.py", text=text)


def flip(operator: str, target: str, texts=None, **anchors) -> CodeFlip:
    arguments = Arguments(anchors=anchors, texts=texts or {})
    return CodeFlip(
        module="pump", qualname=target, operator=operator, arguments=arguments, where=Location("p")
    )


def call(text: str) -> Anchor:
    return Anchor(kind="call", text=text)


def refused(text: str, *flips: CodeFlip) -> str:
    with pytest.raises(InvalidFlip) as caught:
        flip_source(source(text), flips)
    return str(caught.value)


@pytest.mark.parametrize(("operator", "example"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_an_operator_makes_of_its_example_what_it_says(operator, example):
    before = source(example.before)
    edits = operator.edits(open_scope(before, example.target), example.arguments)

    after = apply(before, edits)

    assert example.after == after
    assert not same_bytecode(compile_source(after, "x"), compile_source(example.before, "x"))
    assert example.before.count("\n") == after.count("\n")


def test_every_operator_has_an_example_and_there_are_five():
    assert {"wrap_in_if", "replace", "return_value", "delete", "move"} == set(OPERATORS)
    assert set(OPERATORS) == {operator.name for operator, _ in EXAMPLES}


def test_an_anchor_that_matches_nothing_is_refused_with_the_targets_line():
    message = refused("\n\ndef f():\n    g()\n", flip("delete", "f", here=call("h")))

    assert message.startswith("pump.py:3: call 'h' matches nothing in the target\n")


def test_an_anchor_that_matches_twice_is_refused_with_both_lines():
    text = "def f(g):\n    g()\n    if g:\n        g()\n"

    message = refused(text, flip("delete", "f", here=call("g")))

    assert message == (
        "pump.py:1: call 'g' matches 2 times in the target: pump.py:2, pump.py:4\n"
        "  expected: exactly one match\n"
        "  help: take in more of the text around it, or name a smaller target"
    )


def test_a_replaced_text_has_to_stand_once_and_overlaps_count():
    text = "def f():\n    return 111\n"

    message = refused(text, flip("replace", "f", {"old": "11", "new": "2"}))

    assert "matches 2 times in the target: pump.py:2, pump.py:2" in message


def test_an_anchor_outside_the_target_does_not_count():
    text = "def f(g):\n    g()\ndef h(g):\n    g()\n"

    after = flip_source(source(text), [flip("delete", "h", here=call("g"))])

    assert after == "def f(g):\n    g()\ndef h(g):\n    pass\n"


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        (
            "@d\n@e(\n 1)\nasync def f(g):\n    g()\n",
            "f",
            "@d\n@e(\n 1)\nasync def f(g):\n    pass\n",
        ),
        (
            "class A:\n class B:\n  def f(s, g):\n   g()\n",
            "A.B.f",
            "class A:\n class B:\n  def f(s, g):\n   pass\n",
        ),
        (
            "def o(g):\n\tdef i():\n\t\tg()\n\treturn i\n",
            "o.<locals>.i",
            "def o(g):\n\tdef i():\n\t\tpass\n\treturn i\n",
        ),
        ("if 1:\n  def f(g):\n    g()\n", "f", "if 1:\n  def f(g):\n    pass\n"),
    ],
)
def test_targets_are_found_wherever_they_are_defined(text, target, expected):
    assert expected == flip_source(source(text), [flip("delete", target, here=call("g"))])


def test_a_name_that_is_defined_twice_is_refused_with_both_lines():
    text = "if 1:\n    def f(g): g()\nelse:\n    def f(g): g()\n"

    message = refused(text, flip("delete", "f", here=call("g")))

    assert "'f' of module pump matches 2 times in the target: pump.py:2, pump.py:4" in message


def test_an_unknown_target_is_refused():
    assert "'A.f' of module pump matches nothing" in refused(
        "def f(): pass\n", flip("return_value", "A.f", {"value": "1"})
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def f(g):\n    x = 1; g()\n", "shares its line"),
        ("def f(g):\n    g(); x = 1\n", "shares its line"),
        ("def f(g): g()\n", "shares its line"),
        ("def f(g):\n    if g():\n        pass\n", "is a compound statement"),
        ("def f(g):\n    with g() as h:\n        h()\n", "is a compound statement"),
    ],
)
def test_a_statement_that_cannot_be_wrapped_alone_is_refused(text, problem):
    wrap = flip("wrap_in_if", "f", {"test": "0"}, here=call("g"))

    assert problem in refused(text, wrap)


def test_a_flip_that_changes_no_bytecode_is_refused():
    text = "def f(g):\n    g()\n"

    message = refused(text, flip("wrap_in_if", "f", {"test": "True"}, here=call("g")))

    assert message.startswith("pump.py: the flip changes no bytecode\n")


def test_a_flip_that_does_not_compile_is_refused():
    message = refused("def f():\n    return 1\n", flip("replace", "f", {"old": "1", "new": "("}))

    assert message.startswith("pump.py: the flipped source does not compile")


def test_a_test_that_is_not_an_expression_is_refused():
    wrap = flip("wrap_in_if", "f", {"test": "x = 1"}, here=call("g"))

    assert refused("def f(g):\n    g()\n", wrap) == "'test' is not an expression: 'x = 1'"


def test_two_flips_that_edit_the_same_text_are_refused():
    one = flip("replace", "f", {"old": "a + b", "new": "a"})
    other = flip("replace", "f", {"old": "b + c", "new": "c"})

    message = refused("def f(a, b, c):\n    return a + b + c\n", one, other)

    assert message.startswith("pump.py:2: two flips edit the same characters\n")


def test_two_flips_on_one_function_are_both_made():
    text = "def f(g, h):\n    g()\n    h()\n    return 1\n"
    flips = [
        flip("move", "f", here=call("g"), after=call("h")),
        flip("replace", "f", {"old": "return 1", "new": "return 2"}),
    ]

    after = flip_source(source(text), flips)

    assert after == "def f(g, h):\n    pass\n    h(); g()\n    return 2\n"


def test_a_generator_is_not_made_to_return():
    text = "def f():\n    yield 1\n"

    assert "is a generator" in refused(text, flip("return_value", "f", {"value": "0"}))


def test_a_module_target_reaches_default_arguments_and_module_code():
    text = "LIMIT = 3\ndef f(n=LIMIT): return n\n"

    after = flip_source(source(text), [flip("replace", "", {"old": "= 3", "new": "= 4"})])

    assert after == "LIMIT = 4\ndef f(n=LIMIT): return n\n"


def test_same_bytecode_tells_constants_of_another_type_apart():
    one, true, moved = (compile_source(text, "x") for text in ("f(1)", "f(True)", "\n\nf(1)"))

    assert not same_bytecode(one, true)
    assert same_bytecode(one, moved)


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, data: bytes):
        (tmp_path / f"{name}.py").write_bytes(data)
        return read_source(name)

    yield write
    assert not [name for name in sys.modules if name.startswith("flipped_")]


def test_a_source_with_a_cookie_and_crlf_lines_is_flipped_as_the_compiler_sees_it(module):
    data = "# coding: latin-1\r\ndef f(g):\r\n\tx = 'é'; y = 'é'\r\n\tg('é')\r\n\treturn x\r\n"
    found = module("flipped_latin", data.encode("latin-1"))

    wrap = flip("wrap_in_if", "f", {"test": "x == y"}, here=call("g"))

    assert "\tif x == y: g('é')\n" in flip_source(found, [wrap])


def test_a_source_that_does_not_decode_is_refused(module):
    with pytest.raises(InvalidFlip, match="cannot decode the source"):
        module("flipped_binary", b"x = '\xff'\n")


def test_a_module_without_source_is_refused():
    with pytest.raises(InvalidFlip, match="module 'no_such_module' has no Python source"):
        read_source("no_such_module")


def test_the_diff_names_the_module_and_shows_the_line():
    before = source("def f(g):\n    g()\n")

    lines = diff(before, "def f(g):\n    pass\n").splitlines()

    assert lines[:3] == ["--- a/pump.py", "+++ b/pump.py", "@@ -1,2 +1,2 @@"]
    assert lines[3:] == [" def f(g):", "-    g()", "+    pass"]
