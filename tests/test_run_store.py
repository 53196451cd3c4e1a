import json

import pytest

import report_samples as samples
from capturegate.errors import InputError
from capturegate.run.plan import expand, load
from capturegate.run.sources import digest_of, packages_of
from capturegate.run.store import RESULTS, fingerprint_of, read_results


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.jsonl"


def write(path, **results):
    with RESULTS.writer(path) as writer:
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
    with RESULTS.writer(path) as writer:
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
        RESULTS.writer(path / "below" / "a.jsonl")


@pytest.mark.parametrize(
    "content",
    [
        b"my notes, one line without an end",
        b"a line\nand another\n",
        b"\x00\xff\xfe binary \n\x80",
        b'{"schema": 1, "fingerprint": "f", "row": {}}\n',
        b'{"mine": 1}',
    ],
)
def test_a_file_of_somebody_else_is_refused_and_left_as_it_was(path, content):
    path.write_bytes(content)

    with pytest.raises(InputError, match="the line is no result"):
        RESULTS.writer(path)

    assert content == path.read_bytes()


def test_a_line_that_was_torn_within_its_first_word_is_cut(path):
    path.write_bytes(b'{"sche')

    write(path, a=samples.green())

    assert {"a": samples.green()} == read_results(path)


def test_the_digest_of_sources_changes_with_any_file_of_a_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "digested" / "inner"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "one.py").write_text("1")
    (tmp_path / "digested_alone.py").write_text("1")
    before = digest_of(["digested"]), digest_of(["digested_alone"])

    (package / "one.py").write_text("2")
    (tmp_path / "digested_alone.py").write_text("2")
    after = digest_of(["digested"]), digest_of(["digested_alone"])
    (package / "one.py").rename(package / "other.py")

    assert before[0] != after[0] != digest_of(["digested"])
    assert before[1] != after[1]


def test_the_sources_of_a_case_are_core_backend_and_engine():
    [case, *_] = expand(load([]), "fake")

    assert ("capturegate", "capturegate_backends", "capturegate_reference") == packages_of(case)


def test_the_fingerprint_covers_request_version_and_sources(monkeypatch):
    request = {"lane": "a", "seed": 0}
    first = fingerprint_of(request, "s")
    assert first == fingerprint_of(json.loads('{"seed": 0, "lane": "a"}'), "s")
    assert first != fingerprint_of(request | {"seed": 1}, "s")
    assert first != fingerprint_of(request, "t")
    monkeypatch.setattr("capturegate.__version__", "9.9")
    assert first != fingerprint_of(request, "s")
