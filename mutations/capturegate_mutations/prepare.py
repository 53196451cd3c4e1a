"""From a plan to a mutant that can run: sources to serve, cases, predicates, and a diff to show."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capturegate.scenario.model import Case
from capturegate_mutations.operators import OPERATORS
from capturegate_mutations.plan import CodeFlip, Plan, PredicateFlip, ScenarioFlip
from capturegate_mutations.scenario_flips import flip_cases
from capturegate_mutations.scope import open_scope
from capturegate_mutations.source import (
    Edit,
    InvalidFlip,
    Source,
    apply,
    compile_source,
    read_source,
    same_bytecode,
)
from capturegate_mutations.touched import Key, touched

_CONTEXT_LINES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """What one child needs to be a mutant.

    `sources` are served modules as the child's request has them, `originals` what they were
    before; `hunk` is the flip to show; `touched` says what of the modules differs.
    """

    sources: tuple[Mapping[str, Any], ...] = ()
    originals: tuple[Source, ...] = ()
    predicates: tuple[Mapping[str, Any], ...] = ()
    cases: tuple[Case, ...]
    hunk: str = ""
    touched: frozenset[Key] = frozenset()

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that are served."""
        return tuple(source["module"] for source in self.sources)


def prepare(plan: Plan, cases: Sequence[Case]) -> Mutant:
    """Apply a plan's flips to sources and scenarios, in memory.

    Raises:
        InvalidFlip: one cannot be applied, or changes nothing.
    """
    sources, originals, hunks = [], [], []
    keys: frozenset[Key] = frozenset()
    by_module: dict[str, list[CodeFlip]] = defaultdict(list)
    for flip in plan.code_flips:
        by_module[flip.module].append(flip)
    for module, flips in by_module.items():
        source = read_source(module)
        text = flip_source(source, flips)
        sources.append(served(source, text))
        originals.append(source)
        hunks.append(diff(source, text))
        keys |= touched(source, text)
    scenario_flips = [flip for flip in plan.flips if isinstance(flip, ScenarioFlip)]
    flipped = flip_cases(cases, scenario_flips)
    hunks += [told(flip) for flip in scenario_flips]
    answers = [flip for flip in plan.flips if isinstance(flip, PredicateFlip)]
    hunks += [told(flip) for flip in answers]
    return Mutant(
        sources=tuple(sources),
        originals=tuple(originals),
        predicates=tuple(_predicate(flip, flipped) for flip in answers),
        cases=tuple(flipped),
        hunk="\n".join(hunks),
        touched=keys,
    )


def flip_source(source: Source, flips: Iterable[CodeFlip]) -> str:
    """A module's text with flips made; every anchor is looked up in the original.

    Raises:
        InvalidFlip: a flip cannot be applied, the result does not compile, or does the same.
    """
    edits: list[Edit] = []
    for flip in flips:
        scope = open_scope(source, flip.qualname)
        edits += OPERATORS[flip.operator].edits(scope, flip.arguments)
    text = apply(source, edits)
    before = compile_source(source.text, source.path)
    if same_bytecode(before, compile_source(text, source.path)):
        raise InvalidFlip("the flip changes no bytecode", where=source.path)
    return text


def served(source: Source, text: str) -> dict[str, Any]:
    """A served module as a child's request has it."""
    return {
        "module": source.module,
        "path": source.path,
        "text": text,
    }


def diff(source: Source, text: str) -> str:
    """The change of a module as unified diff hunks, paths as modules are imported."""
    name = source.module.replace(".", "/") + ".py"
    lines = difflib.unified_diff(
        source.text.splitlines(),
        text.splitlines(),
        f"a/{name}",
        f"b/{name}",
        n=_CONTEXT_LINES,
        lineterm="",
    )
    return "\n".join(lines)


def told(flip: ScenarioFlip | PredicateFlip) -> str:
    """A flip that is not on code, as one line."""
    if isinstance(flip, PredicateFlip):
        lane = f" in lane {flip.lane}" if flip.lane else ""
        of = f" of {', '.join(flip.scenarios)}" if flip.scenarios else ""
        return f"predicate {flip.predicate}{lane}{of}: answers {str(flip.answers).lower()}"
    values = ", ".join(f"{name}: {value}" for name, value in flip.values.items())
    return f"scenario {flip.scenario}: {flip.action}: {flip.name or values}"


def _predicate(flip: PredicateFlip, cases: Sequence[Case]) -> dict[str, Any]:
    asking = {
        case.scenario.name
        for case in cases
        if case.lane.skip_if == flip.predicate and flip.reaches(case.scenario.name, case.lane.name)
    }
    silent = [name for name in flip.scenarios if name not in asking]
    if silent or not asking:
        where = f" in lane '{flip.lane}'" if flip.lane else ""
        of = f" of scenario '{silent[0]}'" if silent else ""
        raise InvalidFlip(
            f"no case{of} asks the predicate '{flip.predicate}'{where}", where=str(flip.where)
        )
    return {
        "predicate": flip.predicate,
        "answers": flip.answers,
        "lane": flip.lane,
        "scenarios": list(flip.scenarios),
    }
