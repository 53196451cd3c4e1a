"""From a plan to a mutant that can run: sources to serve, cases, predicates, and a diff to show."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from capturegate.scenario.model import Case
from capturegate.scenario.problems import Problems
from capturegate_mutations.operators import OPERATORS
from capturegate_mutations.plan import CodeFlip, Flip, Plan, PredicateFlip, ScenarioFlip
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

P = ParamSpec("P")
T = TypeVar("T")


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
        InputErrors: one cannot be applied, or changes nothing; each with its place in the plan.
    """
    problems = Problems()
    sources, originals, hunks = [], [], []
    keys: frozenset[Key] = frozenset()
    by_module: dict[str, list[CodeFlip]] = defaultdict(list)
    for code_flip in plan.code_flips:
        by_module[code_flip.module].append(code_flip)
    for module, flips in by_module.items():
        both = _tried(problems, flips[0], None, _flipped, module, flips, problems)
        if both is None:
            continue
        source, text = both
        sources.append(served(source, text))
        originals.append(source)
        hunks.append(diff(source, text))
        keys |= touched(source, text)
    flipped = list(cases)
    predicates = []
    for flip in plan.flips:
        if isinstance(flip, ScenarioFlip):
            flipped = _tried(problems, flip, flipped, flip_cases, flipped, [flip])
            hunks.append(told(flip))
    for flip in plan.flips:
        if isinstance(flip, PredicateFlip):
            predicates.append(_tried(problems, flip, {}, _predicate, flip, flipped))
            hunks.append(told(flip))
    problems.raise_any()
    return Mutant(
        sources=tuple(sources),
        originals=tuple(originals),
        predicates=tuple(predicates),
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
        edits += _edits_of(source, flip)
    text = apply(source, edits)
    before = compile_source(source.text, source.path)
    if same_bytecode(before, compile_source(text, source.path)):
        raise InvalidFlip(
            "the flip changes no bytecode",
            where=source.path,
            hint="a mutation that changes nothing proves nothing",
        )
    return text


def _edits_of(source: Source, flip: CodeFlip) -> list[Edit]:
    return OPERATORS[flip.operator].edits(open_scope(source, flip.qualname), flip.arguments)


def _flipped(
    module: str, flips: Sequence[CodeFlip], problems: Problems
) -> tuple[Source, str] | None:
    """A module with its flips made; None where one finds nothing to flip, which is kept."""
    source = read_source(module)
    found = [_tried(problems, flip, None, _edits_of, source, flip) for flip in flips]
    return None if None in found else (source, flip_source(source, flips))


def _tried(
    problems: Problems,
    flip: Flip,
    otherwise: T,
    work: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """What `work` makes of a flip; `otherwise` where it cannot be applied, and that is kept."""
    try:
        return work(*args, **kwargs)
    except InvalidFlip as error:
        problems.add(error.of_plan(flip.where))
        return otherwise


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
        asked = sorted({case.lane.skip_if for case in cases if case.lane.skip_if})
        raise InvalidFlip(
            f"no case{of} asks the predicate '{flip.predicate}'{where}",
            expected=f"one of {', '.join(asked)}, in a lane that asks it" if asked else "",
            hint="" if asked else "no lane of these scenarios has a 'skip_if'",
        )
    return {
        "predicate": flip.predicate,
        "answers": flip.answers,
        "lane": flip.lane,
        "scenarios": list(flip.scenarios),
    }
