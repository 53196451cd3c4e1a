"""Which cases a mutant can change: what a flip touches, where its probe stands, what it reaches."""

from __future__ import annotations

import marshal
import sys

import pytest

from capturegate_mutations.probes import probed, write_probed
from capturegate_mutations.serve import PROBE, NotServedError, check_served, serve_probed
from capturegate_mutations.session import Request, Session
from capturegate_mutations.source import Source
from capturegate_mutations.touched import touched
from mutation_toys import ADAPTER, CORE, SCENARIO, write_toy

MODULE = '''\
"""A module."""
import functools

LIMIT = 3
TABLE = [value * 2 for value in (1, 2)]
TWICE = lambda value: value * 2


def plain(a, b=LIMIT):
    """Say nothing."""
    c = a + b
    if c > 10:
        c = c - 10
    elif c < 0:
        c = 0
    else:
        c = c + 1
    return c


def outer(a):
    def inner(b):
        return a + b

    return inner(1)


@functools.lru_cache
def cached():
    return 7


def steps():
    yield 1
    yield 2


def guarded(a):
    try:
        return 10 // a
    except ZeroDivisionError:
        a = -1
    finally:
        LIMIT
    return a


class Thing:
    size = 1

    @property
    def twice(self):
        return self.size * 2

    @twice.setter
    def twice(self, value):
        self.size = value // 2

    class Inner:
        def f(self):
            return 1


FOUND = plain(1)
'''


def source(text: str = MODULE) -> Source:
    return Source(module="m", path="m.py", text=text)


def flipped(old: str, new: str) -> set[str]:
    assert MODULE.count(old) == 1
    return set(touched(source(), MODULE.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("c = a + b", "c = a - b", {"m:plain@body.1"}),
        ("c = c - 10", "c = c - 9", {"m:plain@body.2.body.0"}),
        ("c = 0", "c = 1", {"m:plain@body.2.orelse.0.body.0"}),
        ("c = c + 1", "c = c + 2", {"m:plain@body.2.orelse.0.orelse.0"}),
        ("if c > 10", "if c > 11", {"m:plain@body.2"}),
        ("        c = c - 10\n", "        c = c - 10\n        c = 5\n", {"m:plain@body.2.body.1"}),
        ("        c = c - 10\n", "        c = b = 4\n", {"m:plain@body.2.body.0"}),
        # A name that becomes the function's own means something else before the flip, too.
        ("        c = c - 10\n", "        LIMIT = 4\n", {"m:plain@body.1"}),
        (
            "return a + b\n\n    return inner(1)",
            "return a\n\n    return inner(1)",
            {"m:outer@body.0"},
        ),
        ("return inner(1)", "return inner(2)", {"m:outer@body.1"}),
        ("return 7", "return 8", {"m:cached@body.0"}),
        ("yield 2", "yield 3", {"m:steps@body.1"}),
        ("a = -1", "a = -2", {"m:guarded@body.0.handlers.0.body.0"}),
        ("except ZeroDivisionError", "except KeyError", {"m:guarded@body.0"}),
        ("return self.size * 2", "return self.size", {"m:Thing.twice"}),
        ("self.size = value // 2", "self.size = value", {"m:Thing.twice"}),
        ("            return 1", "            return 2", {"m:Thing.Inner.f@body.0"}),
        # What takes effect without a call.
        ("LIMIT = 3", "LIMIT = 4", {"m:"}),
        ("value * 2 for", "value * 3 for", {"m:"}),
        ("lambda value: value * 2", "lambda value: value * 3", {"m:"}),
        ("b=LIMIT", "b=2", {"m:"}),
        ("size = 1", "size = 2", {"m:"}),
        ("@functools.lru_cache", "@functools.cache", {"m:"}),
        ("FOUND = plain(1)", "FOUND = plain(2)", {"m:"}),
        ("def plain(a, b=LIMIT)", "def plain(c, b=LIMIT)", {"m:"}),
        ("def plain(a, b=LIMIT)", "def plain(a, *rest, b=LIMIT)", {"m:"}),
        ("    yield 1\n    yield 2\n", "    return [1, 2]\n", {"m:"}),
    ],
)
def test_a_flip_touches_what_differs_and_where_it_begins(old, new, keys):
    assert keys == flipped(old, new)


def test_several_flips_touch_all_that_they_differ_in():
    text = MODULE.replace("return 7", "return 8").replace("LIMIT = 3", "LIMIT = 4")

    assert {"m:cached@body.0", "m:"} == touched(source(), text)


def test_the_same_text_touches_nothing():
    assert frozenset() == touched(source(), MODULE)
    assert frozenset() == touched(source(), f"\n\n{MODULE}")


def hits(keys: set[str], work: str) -> set[str]:
    """What the probes of some keys tell of the module's import and of some work after it."""
    found: set[str] = set()
    namespace = {PROBE: found.add, "__name__": "m"}
    exec(probed(source(), keys), namespace)
    imported = set(found)
    found.clear()
    exec(work, namespace)
    return {f"import {key}" for key in imported} | found


@pytest.mark.parametrize(
    ("key", "work", "hit"),
    [
        ("m:plain@body.2.body.0", "plain(20)", True),
        ("m:plain@body.2.body.0", "plain(2)", False),
        ("m:plain@body.2.body.1", "plain(20)", True),
        ("m:plain@body.2.orelse.0.orelse.0", "plain(20)", False),
        ("m:cached@body.0", "cached()", True),
        ("m:steps@body.1", "list(steps())", True),
        ("m:steps@body.1", "next(steps())", False),
        ("m:steps@body.1", "steps()", False),
        ("m:guarded@body.0.handlers.0.body.0", "guarded(0)", True),
        ("m:guarded@body.0.handlers.0.body.0", "guarded(1)", False),
        ("m:outer@body.0", "outer(1)", True),
        ("m:Thing.twice", "Thing().twice", True),
        ("m:Thing.twice", "Thing().twice = 4", True),
        ("m:Thing.twice", "Thing()", False),
        ("m:Thing.Inner.f@body.0", "Thing.Inner().f()", True),
        ("m:nothing@body.0", "plain(20)", False),
    ],
)
def test_a_probe_tells_when_control_gets_to_it(key, work, hit):
    assert hit == (key in hits({key}, work))


def test_a_probe_tells_of_a_call_during_the_import():
    assert {"import m:plain@body.1"} == hits({"m:plain@body.1"}, "cached()")


def test_several_probes_in_one_function_stand_where_each_belongs():
    keys = {"m:plain@body.1", "m:plain@body.2", "m:plain@body.2.body.0", "m:plain@body.2.body.1"}

    assert keys <= hits(keys, "plain(20)")
    assert {"m:plain@body.1", "m:plain@body.2"} == {
        key for key in hits(keys, "plain(2)") if not key.startswith("import")
    }


def test_probes_move_no_line_and_keep_docstrings():
    namespace = {PROBE: set().add, "__name__": "m"}
    exec(probed(source(), {"m:plain@body.1", "m:guarded@body.0"}), namespace)
    plain, line = namespace["plain"], MODULE[: MODULE.index("return c")].count("\n") + 1

    assert "Say nothing." == plain.__doc__
    assert line == max(at for _, _, at in plain.__code__.co_lines() if at)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    (tmp_path / "toy_probed.py").write_text("def f():\n    return 1\n")
    return tmp_path


def test_probed_modules_are_served_when_somebody_imports_them(folder):
    write_probed({"toy_probed:f@body.0"}, folder / "probed")

    modules, hits = serve_probed(folder / "probed")
    before = set(hits)
    import toy_probed

    imported = set(hits)
    assert 1 == toy_probed.f()
    check_served(modules)
    assert (set(), {"toy_probed:"}) == (before, imported)
    assert {"toy_probed:", "toy_probed:f@body.0"} == hits


def test_a_probed_module_that_somebody_else_loads_is_noticed(folder):
    write_probed({"toy_probed:"}, folder / "probed")
    modules, _ = serve_probed(folder / "probed")
    sys.meta_path.pop(0)
    import toy_probed

    assert toy_probed.f
    with pytest.raises(NotServedError, match="toy_probed was imported from elsewhere"):
        check_served(modules)
    with pytest.raises(NotServedError, match="toy_probed is loaded already"):
        serve_probed(folder / "probed")


def test_no_key_makes_a_file_without_modules(tmp_path):
    write_probed((), tmp_path / "probed")

    assert {} == marshal.loads((tmp_path / "probed").read_bytes())


# whole runs: with and without the map

WAYS = """

SCALE = 1
_kept = None

def kept():
    global _kept
    if _kept is None:
        _kept = read_once()
    return _kept

def read_once():
    return 5

def at_import():
    return 5

AT_IMPORT = at_import()

def nested(amount):
    def inner():
        return amount + 3
    return inner()

def generated(amount):
    yield amount
    yield 3

def doubled(call):
    def wrapper(amount):
        return call(amount) // 2
    return wrapper

@doubled
def decorated(amount):
    return 2 * (amount + 3)

def defaulted(amount, more=3):
    return amount + more

class Held:
    @property
    def five(self):
        return 5

WAYS = {
    "kept": lambda amount: kept(),
    "kept-too": lambda amount: kept(),
    "at_import": lambda amount: AT_IMPORT,
    "nested": nested,
    "generated": lambda amount: sum(generated(amount)),
    "decorated": decorated,
    "defaulted": defaulted,
    "property": lambda amount: Held().five,
    "constant": lambda amount: (amount + 3) * SCALE,
}
"""
ADAPTER_OF_WAYS = ADAPTER.replace("base", "way").replace("(int, 3)", '(str, "")')
CORE_OF_WAYS = (
    CORE.replace("base", "way").replace(
        "min(self.way + amount, self.limit)", "WAYS[self.way](amount)"
    )
    + WAYS
)
WAY_NAMES = (
    "kept",
    "kept-too",
    "at_import",
    "nested",
    "generated",
    "decorated",
    "defaulted",
    "property",
    "constant",
)
SCENARIO_OF_WAYS = SCENARIO.replace(
    "lanes:", "arms:\n" + "".join(f"  {way}: {{way: {way}}}\n" for way in WAY_NAMES) + "lanes:"
)
EVERY = len(WAY_NAMES)

FLIPS = {
    "kept": ("toy_core:read_once", "return 5", "return 6", "{kept,kept-too}", 2),
    "at-import": ("toy_core:at_import", "return 5", "return 6", "at_import", 2 * EVERY),
    "nested": ("toy_core:nested", "amount + 3", "amount + 4", "nested", 1),
    "generated": ("toy_core:generated", "yield 3", "yield 4", "generated", 1),
    "decorated": ("toy_core:decorated", "2 * (amount", "4 * (amount", "decorated", 1),
    "defaulted": ("toy_core:defaulted", "more=3", "more=4", "defaulted", 2 * EVERY),
    "property": ("toy_core:Held", "return 5", "return 6", "property", 1),
    "constant": ("toy_core", "SCALE = 1", "SCALE = 2", "constant", 2 * EVERY),
}


def plan_of(target: str, old: str, new: str, way: str) -> str:
    return (
        f"flips:\n  - target: {target}\n    replace: {{old: '{old}', new: '{new}'}}\n"
        f"expect:\n  toy[plain/{way}]: {{work.total: failed}}\n"
    )


def test_a_run_of_the_cases_that_are_reached_says_what_a_run_of_all_says(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    plans = {name: plan_of(*flip[:-1]) for name, flip in FLIPS.items()}
    plans["nobody-calls"] = plan_of("toy_core:Core.unused", "1", "2", "kept")
    plans["lane"] = (
        "flips:\n  - {predicate: toy.off, answers: false, lane: idle}\n"
        "expect:\n  toy[idle/{"
        + ",".join(WAY_NAMES)
        + "}]: {work.total: passed, capture.captures: passed, capture-completes: held}\n"
    )
    unused = "    def unused(self):\n        return 1\n\n    def close"
    core = CORE_OF_WAYS.replace("    def close", unused)
    write_toy(tmp_path, plans, toy=SCENARIO_OF_WAYS, toy_core=core, toy_adapter=ADAPTER_OF_WAYS)
    request = {"plans": (tmp_path / "plans",), "scenarios": (tmp_path / "toy.scenario.yaml",)}

    some = Session(request=Request(**request)).run()
    everything = Session(request=Request(**request, all_cases=True)).run()

    told = [(row.mutation, row.proof.value, row.observed, row.checks_mutant) for row in some.rows]
    assert told == [
        (row.mutation, row.proof.value, row.observed, row.checks_mutant) for row in everything.rows
    ]
    verdicts = {row.mutation: row.proof.value for row in some.rows}
    assert {
        **dict.fromkeys(FLIPS, "proved"),
        "nobody-calls": "survived",
        "lane": "proved",
    } == verdicts
    ran = {row.mutation: row.cases_run for row in some.rows}
    assert {name: flip[-1] for name, flip in FLIPS.items()} | {
        "nobody-calls": 0,
        "lane": EVERY,
    } == ran
    assert {2 * EVERY} == {row.cases_run for row in everything.rows}
    assert sum(ran.values()) == some.cases_run
