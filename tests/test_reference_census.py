"""Every call of the reference engine that a capture depends on, against the plans that flip it.

What no plan flips stands in a table of `census.py`, with the reason; it may hold nothing else.
"""

from __future__ import annotations

import pytest

from call_sites import CALLS, Sites, plans_of, trimmed, uncovered
from capturegate.errors import Location
from capturegate.run.plan import load
from capturegate_mutations.operators import Arguments
from capturegate_mutations.plan import CodeFlip, Plan
from capturegate_mutations.scope import Anchor
from capturegate_mutations.source import Edit, Source, read_source
from census import MODULES, PAGE, WITHOUT_A_PLAN, page, shipped


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return shipped()


@pytest.fixture(scope="module")
def flips(plans) -> dict[str, list[CodeFlip]]:
    """The flips of the shipped plans, by module."""
    found: dict[str, list[CodeFlip]] = {}
    for plan in plans:
        for flip in plan.code_flips:
            found.setdefault(flip.module, []).append(flip)
    return found


def test_every_shipped_scenario_is_changed_by_some_plan(plans):
    changed = {case.partition("[")[0] for plan in plans for case in plan.expect}
    assert set() == {scenario.name for scenario in load([])} - changed


@pytest.mark.parametrize("name", MODULES)
def test_a_plan_flips_every_site_but_those_of_the_table(name, flips):
    module = f"capturegate_reference.{name}"
    open_sites = uncovered(read_source(module), flips.get(module, []))
    excused = [site for site in WITHOUT_A_PLAN if site.startswith(f"{name}:")]
    assert sorted(excused) == sorted(open_sites)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_of_the_census_has_sites(name):
    assert Sites(read_source(f"capturegate_reference.{name}")).found


PRE_GROWS = {
    "decode:DecodeDriver.step": "decode-pregrow-removed",
    "chunk:ChunkDriver.step": "chunk-pregrow-removed",
    "draft_driver:DraftDriver.draft": "draft-pregrow-removed",
    "prompt_cache:PromptGraphCache._record": "prompt-pregrow-removed",
}


def test_each_family_has_a_plan_of_its_own_without_a_pre_grow(plans):
    by_name = {plan.name: plan for plan in plans}
    for site, name in PRE_GROWS.items():
        module, _, function = site.partition(":")
        source = read_source(f"capturegate_reference.{module}")
        found = plans_of(source, [(name, flip) for flip in by_name[name].code_flips])
        assert [name] == found[f"{site} pool.pre_grow_for_capture"], function
        broken = [
            members
            for members in by_name[name].expect.values()
            if "no-driver-allocation-in-window" in members
            and members["no-driver-allocation-in-window"].verdict == "broken"
        ]
        assert broken, name


def test_the_page_says_what_the_plans_say(plans):
    assert page(plans) == PAGE.read_text(), "python tests/census.py writes it anew"


def test_the_table_names_modules_that_are_read():
    assert {site.partition(":")[0] for site in WITHOUT_A_PLAN} <= set(MODULES)


def test_each_name_of_the_list_is_called_somewhere():
    called = {
        site.name.partition(" ")[2].partition(" #")[0]
        for name in MODULES
        for site in Sites(read_source(f"capturegate_reference.{name}")).found
    }
    silent = [
        name
        for name in CALLS
        if not any(written == name or written.endswith(f".{name}") for written in called)
    ]
    assert [] == silent


MADE_UP = """\
class Driver:
    def step(self, ready, dbuf):
        if ready and not self.bypassed:
            self.backend.stream_begin_capture(self.stream)
            self.count += 1
        if dbuf:
            self.backend.stream_synchronize(self.stream)
        graph = self.backend.stream_end_capture(self.stream)
        return graph
"""
ALL_OF_IT = [
    "made_up:Driver.step self.backend.stream_begin_capture",
    "made_up:Driver.step self.backend.stream_synchronize",
    "made_up:Driver.step self.backend.stream_end_capture",
    "made_up:Driver.step if ready",
    "made_up:Driver.step if not self.bypassed",
    "made_up:Driver.step if dbuf",
]


def flip_of(operator: str, anchor: str = "", **texts: str) -> CodeFlip:
    anchors = {"here": Anchor(kind="call", text=anchor)} if anchor else {}
    return CodeFlip(
        module="engine.made_up",
        qualname="Driver.step",
        operator=operator,
        arguments=Arguments(anchors=anchors, texts=texts),
        where=Location("made-up.mutation.yaml", 1, 1),
    )


@pytest.mark.parametrize(
    ("flip", "covered"),
    [
        (None, []),
        (flip_of("delete", "self.backend.stream_end_capture"), [2]),
        (flip_of("wrap_in_if", "self.backend.stream_end_capture", test="dbuf"), [2]),
        # What decides on nothing else is answered the other way.
        (flip_of("delete", "self.backend.stream_synchronize"), [1, 5]),
        # The calls behind a condition that changes have to be taken away for themselves.
        (flip_of("replace", old="ready and ", new=""), [3]),
        # What is put beside a call does not touch it.
        (flip_of("replace", old="self.count += 1", new="self.count += 1; self.close()"), []),
        (flip_of("return_value", value="None"), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_what_no_flip_is_about_is_reported(flip, covered):
    source = Source(module="engine.made_up", path="made_up.py", text=MADE_UP)
    left = [site for number, site in enumerate(ALL_OF_IT) if number not in covered]
    assert left == uncovered(source, [flip] if flip else [])


def test_what_stays_is_not_taken_for_touched_because_it_begins_like_what_goes():
    line = "with scope(arena), self.capture():"
    source = Source(module="engine.made_up", path="made_up.py", text=f"{line}\n    pass\n")
    start, end = trimmed(source, Edit(0, len(line), "with self.capture():"))
    assert "scope(arena), " == line[start:end]
