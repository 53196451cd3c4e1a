import json

import pytest

import report_samples as samples
from capturegate.errors import InputError
from capturegate.run.store import ResultWriter, fingerprint_of, read_results


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.jsonl"


def write(path, **results):
    with ResultWriter(path) as writer:
        for fingerprint, result in results.items():
            writer.append(fingerprint, result)


def test_what_was_written_is_read_back(path):
    write(path, a=samples.green(), b=samples.red(case="other"))
    assert {"a": samples.green(), "b": samples.red(case="other")} == read_results(path)


def test_a_second_writer_appends_and_the_later_result_wins(path):
    write(path, a=samples.green(), b=samples.green(case="b"))
    write(path, a=samples.red())
    assert {"a": samples.red(), "b": samples.green(case="b")} == read_results(path)


def test_a_result_is_in_the_file_before_the_writer_is_closed(path):
    with ResultWriter(path) as writer:
        writer.append("a", samples.green())
        assert {"a": samples.green()} == read_results(path)


def test_a_torn_last_line_is_passed_over_and_cut_by_the_next_writer(path):
    write(path, a=samples.green(), b=samples.red(case="other"))
    path.write_bytes(path.read_bytes()[:-20])
    assert {"a": samples.green()} == read_results(path)
    write(path, c=samples.green(case="c"))
    assert {"a": samples.green(), "c": samples.green(case="c")} == read_results(path)


def test_a_result_that_the_harness_failed_to_get_is_tried_again(path):
    write(path, a=samples.result(harness_error="died"), b=samples.red(case="other"))
    assert list(read_results(path)) == ["b"]


def test_an_empty_file_holds_no_results(path):
    path.write_bytes(b"")
    assert read_results(path) == {}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "the line is no result: JSONDecodeError"),
        ("[1]", "the line is no result: TypeError"),
        ('{"schema": 2}', "the line is no result: ValueError: schema 2"),
        ('{"schema": 1, "fingerprint": "f"}', "the line is no result: KeyError: 'result'"),
    ],
)
def test_a_file_of_something_else_is_refused_with_its_line(path, line, problem):
    write(path, a=samples.green())
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(InputError) as error:
        read_results(path)
    assert f"{path}:2:1: {problem}" in str(error.value)


def test_a_missing_file_is_the_users_mistake(path):
    with pytest.raises(InputError, match="the results cannot be read"):
        read_results(path)
    with pytest.raises(InputError, match="the results cannot be written"):
        ResultWriter(path / "below" / "a.jsonl")


def test_the_fingerprint_covers_request_and_version(monkeypatch):
    request = {"lane": "a", "seed": 0}
    first = fingerprint_of(request)
    assert first == fingerprint_of(json.loads('{"seed": 0, "lane": "a"}'))
    assert first != fingerprint_of(request | {"seed": 1})
    monkeypatch.setattr("capturegate.__version__", "9.9")
    assert first != fingerprint_of(request)
