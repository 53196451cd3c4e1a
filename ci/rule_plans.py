"""Chooses the core of the recordings and writes a mutation plan for each thing the rule book says.

Run it after a change of the rule book or of the recordings; it takes some minutes. For every flip
of the book it looks for recorded programs that notice, keeps the fewest that tell all flips from
one another, and writes them, a scenario that runs them, and one plan a flip.
"""

import json
import shutil
import sys
import types
from collections import defaultdict
from itertools import combinations
from pathlib import Path

from capturegate.programs import Runner, first_difference
from capturegate_backends.conform.recorded import core_path, step_id
from capturegate_backends.conform.rule_flips import MODULE, rule_flips, source_text
from capturegate_backends.fake import rules, situations
from capturegate_backends.fake.device import FakeDevice
from capturegate_backends.truth.recordings import read_recording, shipped, write_recording

PLANS = Path(__file__).parent.parent / "mutations/capturegate_mutations/rule_plans"
SCENARIO = "fake-conforms"
CATCHES_MAX = 15
WITNESSES = 2
DRIVER = "580"


def flipped_book(text, flip):
    """The rule book with one flip made, in the enumerations of the real module."""
    module = types.ModuleType("flipped_rules")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(text.replace(flip.old, flip.new), "<flipped>", "exec"), module.__dict__)
    book = module.rule_book(DRIVER)
    return rules.RuleBook(
        driver=DRIVER,
        rules=tuple(
            rules.Rule(
                calls=rule.calls,
                when=rules.When[rule.when.name],
                error=rule.error,
                effect=rules.Effect[rule.effect.name],
                source=rule.source,
            )
            for rule in book.rules
        ),
        restrictions=book.restrictions,
        records=book.records,
        silent=book.silent,
    )


class Bodies:
    """The recorded programs, shortest first, and what each asks of the rule book."""

    def __init__(self):
        recordings = [read_recording(path) for path in shipped()]
        self.description = recordings[0].description
        cases = [case for recording in recordings for case in recording.cases]
        self.cases = sorted(cases, key=lambda case: (len(case.program), case.name))
        self.asked = self._ask()

    def _ask(self):
        """Per program the calls that were judged, and whether they were refused."""
        judge, now = situations.CaptureMachine.judge, set()

        def noting(machine, call, *args, **kwargs):
            error = judge(machine, call, *args, **kwargs)
            now.add((call, error != "cudaSuccess"))
            return error

        situations.CaptureMachine.judge = noting
        runner, asked = Runner(FakeDevice()), []
        for case in self.cases:
            now.clear()
            if first_difference(case.observation, runner.run(case.program)) is not None:
                sys.exit(f"the fake does not answer {case.name} as recorded; mend that first")
            asked.append(frozenset(now) | {(call[0], True) for call in case.program})
        situations.CaptureMachine.judge = judge
        return asked

    def noticing(self, book, numbers):
        """The programs among `numbers` that come out otherwise under a rule book."""
        before = rules._BOOKS[DRIVER]
        rules._BOOKS[DRIVER] = book
        runner = Runner(FakeDevice())
        try:
            for number in numbers:
                case = self.cases[number]
                try:
                    found = first_difference(case.observation, runner.run(case.program))
                except Exception:  # a flipped fake may fall over itself
                    found, runner = (-1, "rest"), Runner(FakeDevice())
                if found is not None:
                    yield number
        finally:
            rules._BOOKS[DRIVER] = before
            runner.close()

    def concerned(self, book):
        """The programs that ask what a book answers otherwise than the real one."""
        real = rules.rule_book(DRIVER)
        mine, theirs = _by_call(real), _by_call(book)
        calls = {(c, True) for c in mine.keys() | theirs if mine.get(c) != theirs.get(c)}
        if book.restrictions != real.restrictions:
            restricted = [r for r in real.rules if r.when is rules.When.RESTRICTED]
            calls |= {(call, True) for rule in restricted for call in rule.calls}
        calls |= {(call, False) for call in real.records.keys() - book.records.keys()}
        silent = real.silent - book.silent
        calls |= {(call, True) for call in silent}
        if "graph_exec_kernel_node_set_params" in silent:
            calls.add(("set_params", True))
        return [n for n, asked in enumerate(self.asked) if asked & calls]


def _by_call(book):
    found = defaultdict(list)
    for rule in book.rules:
        for call in rule.calls:
            found[call].append((rule.when, rule.error, rule.effect))
    return found


def first(iterator, count):
    return [one for one, _ in zip(iterator, range(count), strict=False)]


def covering(catches):
    """The fewest programs that catch every flip twice, shortest where there is a choice."""
    wanted = {name: min(WITNESSES, len(found)) for name, found in catches.items()}
    catching = defaultdict(set)
    for name, found in catches.items():
        for number in found:
            catching[number].add(name)
    core = set()
    while any(wanted.values()):
        left = [n for n in catching if n not in core]
        best = max(left, key=lambda n: (sum(wanted[f] > 0 for f in catching[n]), -n))
        core.add(best)
        for name in catching[best]:
            wanted[name] = max(0, wanted[name] - 1)
    return core


def separating(bodies, books, core):
    """Programs that tell apart the flips which `core` cannot; and the flips that none can."""
    numbers = sorted(core)
    seen = {name: frozenset(bodies.noticing(book, numbers)) for name, book in books.items()}
    more, alike = set(), []
    for one, other in combinations(books, 2):
        if seen[one] != seen[other]:
            continue
        among = sorted({*bodies.concerned(books[one]), *bodies.concerned(books[other])})
        for start in range(0, len(among), 200):
            part = among[start : start + 200]
            both = [set(bodies.noticing(books[name], part)) for name in (one, other)]
            if apart := both[0] ^ both[1]:
                more.add(min(apart))
                break
        else:
            alike.append((one, other))
    return more, alike


def write(bodies, core, flips, books):
    cases = [bodies.cases[number] for number in sorted(core)]
    core_path().parent.mkdir(exist_ok=True)
    write_recording(core_path(), bodies.description, cases)
    shutil.rmtree(PLANS, ignore_errors=True)
    PLANS.mkdir()
    lines = [
        f"scenario: {SCENARIO}",
        "about: The fake answers the core of the recordings as the device did, call by call.",
        "engine: capturegate_backends.conform.recorded:RecordedPrograms",
        "steps:",
    ]
    for case in cases:
        said = f"id: {step_id(case.name)}, program: {case.name}, check: {{differences: 0}}"
        lines.append(f"  - recorded: {{{said}}}")
    (PLANS / f"{SCENARIO}.scenario.yaml").write_text("\n".join(lines) + "\n")
    for flip in flips:
        noticed = sorted(bodies.noticing(books[flip.name], sorted(core)))
        text = plan_text(flip, [bodies.cases[number].name for number in noticed])
        (PLANS / f"{flip.name}.mutation.yaml").write_text(text)


def plan_text(flip, names):
    checks = "".join(f"    {step_id(name)}.differences: failed\n" for name in names)
    return (
        f"mutation: {flip.name}\n"
        f"about: {json.dumps(f'The rule book does not know: {flip.says}.')}\n"
        "flips:\n"
        f"  - target: {MODULE}\n"
        "    replace:\n"
        f"      old: {json.dumps(flip.old)}\n"
        f"      new: {json.dumps(flip.new)}\n"
        "expect:\n"
        f"  {SCENARIO}[default/default]:\n{checks}"
    )


def main():
    text = source_text()
    flips = rule_flips(text)
    books = {flip.name: flipped_book(text, flip) for flip in flips}
    bodies = Bodies()
    catches = {}
    for name, book in books.items():
        catches[name] = first(bodies.noticing(book, bodies.concerned(book)), CATCHES_MAX)
        if not catches[name]:
            print(f"nothing recorded notices {name}: a rule by belief")
    core = covering(catches)
    more, alike = separating(bodies, books, core)
    for one, other in alike:
        print(f"no recorded program tells {one} from {other}")
    core |= more
    write(bodies, core, [flip for flip in flips if catches[flip.name]], books)
    print(f"{len(flips)} flips, {len(core)} of {len(bodies.cases)} programs")
    sys.exit(not all(catches.values()))


if __name__ == "__main__":
    main()
