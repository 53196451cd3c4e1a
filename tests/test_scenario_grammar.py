from __future__ import annotations

import pytest

from capturegate.errors import InputError, Location
from capturegate.scenario.grammar import parse_expectation


@pytest.mark.parametrize(
    ("text", "holding", "failing"),
    [
        ("1", [1, 1.0], [0, 2, -1, 1.5]),
        ("0", [0], [1, -1]),
        ("-3", [-3], [3, 0]),
        ("1.5", [1.5], [1, 2]),
        ("> 0", [1, 0.5], [0, -1]),
        (">0", [1], [0]),
        (">= 3", [3, 4], [2]),
        ("< 5", [4, -9], [5, 6]),
        ("<= 5", [5, 4], [6]),
        ("!= 2", [1, 3], [2, 2.0]),
        ("3..7", [3, 5, 7], [2, 8]),
        ("-2..-1", [-2, -1], [-3, 0]),
        ("0.5..1.5", [0.5, 1, 1.5], [0.4, 1.6]),
        ("true", [True], [False]),
        ("false", [False], [True]),
        ("replay", ["replay"], ["Replay", "replays", ""]),
        ("pool miss", ["pool miss"], ["pool"]),
    ],
)
def test_an_expectation_holds_for_these_values_and_fails_for_those(text, holding, failing):
    expectation = parse_expectation(text)

    assert [True] * len(holding) == [expectation.holds(value) for value in holding]
    assert [False] * len(failing) == [expectation.holds(value) for value in failing]


@pytest.mark.parametrize("text", ["1", "> 0", "!= 2", "<= 5", "0..3"])
@pytest.mark.parametrize("observed", [True, "1", None, [1], float("nan"), 1j, b"1"])
def test_a_value_that_is_no_number_never_holds_where_a_number_is_expected(text, observed):
    assert parse_expectation(text).holds(observed) is False


@pytest.mark.parametrize(
    ("text", "observed"), [("true", 1), ("false", 0), ("true", "true"), ("replay", 1)]
)
def test_booleans_and_words_hold_for_their_own_type_only(text, observed):
    assert parse_expectation(text).holds(observed) is False


def test_numbers_of_numpy_count_as_numbers():
    numpy = pytest.importorskip("numpy")

    assert parse_expectation("> 0").holds(numpy.int64(3)) is True
    assert parse_expectation("3").holds(numpy.float32(2)) is False


@pytest.mark.parametrize(
    "text", ["1", "> 0", ">=3", "3..7", "true", "replay", "-1.5", "cudaErrorInvalidValue"]
)
def test_the_text_of_an_expectation_gives_the_same_expectation_back(text):
    expectation = parse_expectation(text)

    assert expectation == parse_expectation(expectation.text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ">",
        "> x",
        "=> 3",
        "3...7",
        "3..",
        "..7",
        "01",
        "+1",
        "1e3",
        "1_000",
        "> 0 and < 5",
        "__import__('os')",
        "a == 1",
        "1\n",
        "9" * 5000,
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(InputError, match="is not understood"):
        parse_expectation(text)


def test_a_refusal_names_its_place_what_is_allowed_and_what_to_write():
    with pytest.raises(InputError) as caught:
        parse_expectation("== 3", Location("a.yaml", 4, 9))

    assert str(caught.value) == (
        "a.yaml:4:9: expectation '== 3' is not understood\n"
        '  expected: 1, "> 0", ">= 3", "< 5", "<= 5", "!= 2", "3..7", true, false, or a word\n'
        "  help: for equality write the number alone"
    )


def test_a_range_that_nothing_can_be_in_is_refused():
    with pytest.raises(InputError, match=r"expectation '7\.\.3' is an empty range"):
        parse_expectation("7..3")
