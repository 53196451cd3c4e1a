"""The pytest plugin: scenario files and plans are collected, checks are counted.

pytest loads this module in every run, so it imports nothing but pytest and the standard library;
what collects is imported with the first file that is collected.

Files `*.scenario.yaml` give one item for each gate that they name and one for their checks.
Other suffixes are plugged in by the entry points `capturegate.pytest_collectors`: the name is
the suffix, the value a function from the `pytest.File` to the items in it.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from capturegate.pytest_checks import Check, checks_of, failures_told
from capturegate.pytest_tally import TALLY, Counts, put_on

if TYPE_CHECKING:
    from capturegate.backend import Backend

_SCENARIO_SUFFIX = ".scenario.yaml"
_BACKEND_DEFAULT = "fake"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the same as settings of the configuration file."""
    group = parser.getgroup("capturegate")
    group.addoption(
        "--capturegate-backend",
        metavar="NAME",
        help="backend that scenarios and capture_backend run on (default: fake)",
    )
    group.addoption(
        "--capturegate-lane",
        metavar="LANE",
        action="append",
        help="run only the cases of this lane; may be given again",
    )
    parser.addini("capturegate_backend", "as --capturegate-backend", default=_BACKEND_DEFAULT)
    parser.addini("capturegate_lane", "as --capturegate-lane, several words", type="args")


def backend_of(config: pytest.Config) -> str:
    """The name of the backend that was chosen."""
    return str(config.getoption("capturegate_backend") or config.getini("capturegate_backend"))


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a backend that is not there, and begin to count."""
    if backend_of(config) != _BACKEND_DEFAULT:
        from capturegate.errors import InputError
        from capturegate.run.plan import check_backend

        try:
            check_backend(backend_of(config))
        except InputError as error:
            raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(Counts(), "capturegate-counts")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take scenario files, and those whose suffix is plugged in."""
    if file_path.name.endswith(_SCENARIO_SUFFIX):
        from capturegate.pytest_items import ScenarioFile

        return ScenarioFile.from_parent(parent, path=file_path)
    for suffix, point in _plugged().items():
        if file_path.name.endswith(suffix):
            from capturegate.pytest_items import PluggedFile

            return PluggedFile.from_parent(parent, path=file_path, make=point.load())
    return None


@cache
def _plugged() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="capturegate.pytest_collectors")}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases of lanes that were not chosen."""
    wanted = config.getoption("capturegate_lane") or config.getini("capturegate_lane")
    lanes = {item: item.stash[TALLY].lane for item in items if TALLY in item.stash}
    if not (wanted and lanes):
        return
    known = sorted(set(lanes.values()))
    if strange := [lane for lane in wanted if lane not in known]:
        said = f"no collected case has the lane '{strange[0]}'; they have {', '.join(known)}"
        if not hasattr(config, "workerinput"):
            raise pytest.UsageError(said)
        # xdist breaks when a worker refuses to collect, so there the items say it.
        for item in lanes:
            item.stash[TALLY].refusal = said
        return
    left_out = [item for item in items if item in lanes and lanes[item] not in wanted]
    items[:] = [item for item in items if item not in set(left_out)]
    config.hook.pytest_deselected(items=left_out)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail an item that cannot run as the command wants it."""
    if TALLY in item.stash and (said := item.stash[TALLY].refusal):
        pytest.fail(said, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test at its end for its failed checks."""
    with failures_told(item, "call"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fail a test for the checks that failed around its call."""
    with failures_told(item, "teardown"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send the counts along with the report."""
    report = yield
    if TALLY in item.stash:
        put_on(report, item.stash[TALLY])
    return report


@pytest.fixture
def capture_backend(pytestconfig: pytest.Config) -> Generator[Backend]:
    """A fresh, recorded backend: the fake one, or the one that was chosen; closed afterwards."""
    from capturegate.run.engines import fresh_backend

    backend = fresh_backend(backend_of(pytestconfig), 0)
    yield backend
    backend.close()


@pytest.fixture
def check(request: pytest.FixtureRequest) -> Check:
    """Counts an assertion: `check(condition, "what holds")`. A failed one fails the test's end."""
    return checks_of(request.node).check


@pytest.fixture
def require(request: pytest.FixtureRequest) -> Check:
    """Counts an assertion as `check` does; a failed one ends the test at once."""
    return checks_of(request.node).require
