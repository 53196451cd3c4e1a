from __future__ import annotations

import re

import pytest

from capturegate.errors import InputError, Location
from capturegate.scenario.nodes import compose, read_yaml


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        compose(text, "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1),
        ("-20", -20),
        ("0", 0),
        ("1.5", 1.5),
        ("1.5e-3", 0.0015),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("word", "word"),
        ("two words", "two words"),
        ("3..7", "3..7"),
        ("1.2.3", "1.2.3"),
        ("'1'", "1"),
        ('"yes"', "yes"),
        ("'2024-01-02'", "2024-01-02"),
        ("yesterday", "yesterday"),
        ("[1, [a, false]]", [1, ["a", False]]),
        ("{b: {c: 1}}", {"b": {"c": 1}}),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_values_are_read_as_every_yaml_reads_them(written, value):
    found = compose(f"a: {written}", "f.yaml").plain()

    assert {"a": value} == found
    assert type(value) is type(found["a"])


@pytest.mark.parametrize(
    "word",
    [
        *("yes", "no", "on", "off", "Yes", "NO", "True", "FALSE", "Null"),
        *("010", "0777", "+08", "0x1F", "0b11", "0o17", "1:30", "190:20:30"),
        *("2024-01-02", "2001-12-14t21:59:43", ".inf", "-.INF", ".nan"),
        *("1_000", "+1", "1e3", ".5", "5.", "1.5E3", "12345678901234567890", "1.5e+999"),
    ],
)
def test_a_word_that_two_readers_of_yaml_take_differently_is_refused(word):
    assert refusal(f"a: {word}").startswith(f"f.yaml:1:4: unquoted '{word}' is ")
    assert {"a": word} == compose(f"a: '{word}'", "f.yaml").plain()


def test_a_surprising_key_is_refused_as_a_value_is():
    assert refusal("on: 1").startswith("f.yaml:1:1: unquoted 'on' is a boolean in YAML 1.1")


@pytest.mark.parametrize("key", ["1", "true", "~", "[a]", '""'])
def test_a_key_is_a_word(key):
    assert refusal(f"? {key}\n: 1").startswith("f.yaml:1:3: a key is ")


def test_every_key_knows_its_place():
    root = compose("a:\n  b: [x,\n    {c: 1}]\nd: 2\n", "f.yaml")

    assert {
        "a": Location("f.yaml", 1, 1),
        "a.b": Location("f.yaml", 2, 3),
        "a.b.0": Location("f.yaml", 2, 7),
        "a.b.1": Location("f.yaml", 3, 5),
        "a.b.1.c": Location("f.yaml", 3, 6),
        "d": Location("f.yaml", 4, 1),
    } == root.places()
    assert Location("f.yaml", 2, 6) == root.mapping("f")["a"].mapping("a")["b"].where


def test_columns_count_characters_not_bytes():
    assert refusal("{ä: 1, ö: 010}").startswith("f.yaml:1:11: unquoted '010'")


def test_twenty_levels_are_read_and_twenty_one_are_not():
    assert compose("[" * 20 + "]" * 20, "f.yaml").plain() != []
    assert refusal("[" * 21 + "]" * 21) == (
        "f.yaml:1:21: this is nested too deeply\n  expected: at most 20 levels"
    )


def test_too_many_values_are_refused():
    assert compose("[" + "1," * 49_999 + "]", "f.yaml").value is not None
    assert refusal("[" + "1," * 50_000 + "]").endswith(
        "the file holds too many values\n  expected: at most 50,000"
    )


def test_a_file_of_a_million_bytes_is_read_and_one_byte_more_is_not(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("a: 1 #".ljust(1_000_000, "x"))
    assert read_yaml(path).plain() == {"a": 1}

    path.write_text("a: 1 #".ljust(1_000_001, "x"))
    with pytest.raises(InputError, match=re.escape("the file has 1,000,001 bytes")):
        read_yaml(path)


def test_a_file_with_a_byte_order_mark_and_carriage_returns_is_read(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")

    assert read_yaml(path).plain() == {"a": 1, "b": 2}


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(InputError, match="this is not a regular file"):
        read_yaml(tmp_path)
    with pytest.raises(InputError, match="the file cannot be read: No such file or directory"):
        read_yaml(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("reader", "written", "message"),
    [
        ("mapping", "1", "it is the number 1\n  expected: a mapping of keys to values"),
        ("mapping", "~", "it is empty\n  expected: a mapping of keys to values"),
        ("mapping_or_empty", "x", "it is the text 'x'\n  expected: a mapping of keys to values"),
        (
            "sequence",
            "{a: 1}",
            (
                "it is a mapping\n  expected: a list\n"
                "  help: start each item with '- ' on a line of its own"
            ),
        ),
        ("text", "1", 'it is the number 1\n  expected: text\n  help: write "1", in quotes'),
        ("text", "[1]", "it is a list\n  expected: text"),
        ("text", '" "', "it is the text ' '\n  expected: text"),
        ("boolean", "1", "it is the number 1\n  expected: true or false"),
        ("scalar", "[]", "it is a list\n  expected: text, a number, true or false"),
    ],
)
def test_a_typed_reader_refuses_another_type(reader, written, message):
    node = compose(written, "f.yaml")

    with pytest.raises(InputError) as caught:
        getattr(node, reader)("it")

    assert f"f.yaml:1:1: {message}" == str(caught.value)


@pytest.mark.parametrize("written", ["0", "6", "true", "2.0", "'3'"])
def test_an_integer_is_an_integer_within_its_bounds(written):
    assert compose("5", "f.yaml").integer("it", 1, 5) == 5
    with pytest.raises(InputError, match="expected: an integer from 1 to 5"):
        compose(written, "f.yaml").integer("it", 1, 5)


def test_typed_readers_return_what_they_read():
    root = compose("{a: true, b: [x], c: 2.5}", "f.yaml").mapping("it")

    assert root["a"].boolean("a") is True
    assert [item.text("item") for item in root["b"].sequence("b")] == ["x"]
    assert root["c"].scalar("c") == 2.5


def test_a_parser_without_its_c_library_reads_and_refuses_the_same(monkeypatch):
    import yaml

    text = "a: [x, {b: 1, c: 'y'}]\nd: |\n  z\ne:\n"
    with_library = compose(text, "f.yaml")
    monkeypatch.delattr(yaml, "CSafeLoader")

    assert with_library == compose(text, "f.yaml")
    assert refusal("a: &x 1").startswith("f.yaml:1:4: the anchor '&x' is not allowed")
    assert refusal("a: [1").startswith("f.yaml:1:6: this is not valid YAML: ")
