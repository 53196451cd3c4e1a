"""Reading experiment files; every complaint names its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from capturegate.errors import InputError
from capturegate.experiment.model import (
    ARMS,
    AS_IS,
    CONTROL,
    Conditions,
    Experiment,
    Kind,
    Outcome,
    Reading,
    Variable,
)
from capturegate.scenario.grammar import FORMS, Expectation, parse_expectation
from capturegate.scenario.keys import ENGINE, NAME, NAME_SPELLED, WORD, WORD_SPELLED
from capturegate.scenario.model import Arm, Check, Lane, Scenario, Step
from capturegate.scenario.nodes import Node, check_keys, read_yaml
from capturegate.scenario.problems import Problems, unknown
from capturegate.scenario.steps import read_steps

SUFFIX = ".experiment.yaml"
REQUIRED = (
    "experiment",
    "about",
    "claim",
    "engine",
    "steps",
    "variable",
    *ARMS,
    "took_effect",
    "reproduces",
    "outcomes",
)
KEYS = frozenset({*REQUIRED, "origin", "order", "config", "env", "code", "faults", "next"})
OUTCOME_KEYS = frozenset({"when", "reads", "means"})
ORDER_MAX = 1000


def find_experiments(paths: Sequence[Path]) -> list[Path]:
    """The experiment files that are named, and those in the folders that are named.

    Raises:
        InputError: a path does not exist, is no experiment file, or holds none.
    """
    found: dict[Path, None] = {}
    for path in paths:
        files = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not files or not all(file.is_file() and file.name.endswith(SUFFIX) for file in files):
            raise InputError(
                f"there is no experiment at {path}",
                expected=f"a file whose name ends in {SUFFIX}, or a folder that holds some",
            )
        found.update(dict.fromkeys(files))
    return list(found)


def load_experiments(paths: Iterable[Path]) -> list[Experiment]:
    """The experiments in files, in their order.

    Raises:
        InputErrors: what is wrong in any of them.
    """
    problems = Problems()
    loaded: dict[str, Experiment] = {}
    for path in paths:
        experiment = problems.take(None, load_experiment, path)
        if experiment is None:
            continue
        if experiment.name in loaded:
            where = experiment.scenario.where["experiment"]
            problems.add(InputError(f"experiment '{experiment.name}' is given twice", where=where))
        loaded[experiment.name] = experiment
    problems.raise_any()
    return sorted(loaded.values(), key=lambda experiment: (experiment.order, experiment.name))


def load_experiment(path: Path) -> Experiment:
    """The experiment in a file.

    Raises:
        InputErrors: the file cannot be read, or does not say a whole experiment.
    """
    root = read_yaml(path)
    problems = Problems()
    fields = root.mapping("an experiment file")
    check_keys(fields, KEYS, "an experiment", problems)
    if missing := [f"'{key}'" for key in REQUIRED if key not in fields]:
        problems.add(InputError(f"an experiment needs {', '.join(missing)}", where=root.where))
    problems.raise_any()
    experiment = _Reader(root, fields, problems).read()
    problems.raise_any()
    return experiment


class _Reader:
    """Reads one file whose keys are all there."""

    def __init__(self, root: Node, fields: dict[str, Node], problems: Problems) -> None:
        self._root = root
        self._fields = fields
        self._problems = problems
        self._readings: dict[str, Node] = {}

    def read(self) -> Experiment:
        fields = self._fields
        variable = self._variable()
        outcomes = self._outcomes()
        effect = self._effect()
        faults = [item.text("a fault counter") for item in self._items("faults")]
        for name, item in zip(faults, self._items("faults"), strict=True):
            self._readings.setdefault(name, item)
        reproduces = fields["reproduces"].text("'reproduces'")
        if reproduces not in {outcome.name for outcome in outcomes}:
            known = [outcome.name for outcome in outcomes]
            raise unknown("outcome", reproduces, known, where=fields["reproduces"].where)
        return Experiment(
            name=fields["experiment"].word("an experiment's name", NAME, NAME_SPELLED),
            about=fields["about"].text("'about'"),
            claim=fields["claim"].text("'claim'"),
            origin=self._text("origin"),
            order=fields["order"].integer("'order'", 1, ORDER_MAX) if "order" in fields else 1,
            scenario=self._scenario(variable),
            code=self._text("code"),
            variable=variable,
            effect=effect,
            outcomes=outcomes,
            reproduces=reproduces,
            faults=tuple(faults),
            next=self._text("next"),
        )

    def _text(self, key: str) -> str:
        return self._fields[key].text(f"'{key}'") if key in self._fields else ""

    def _items(self, key: str) -> list[Node]:
        return self._fields[key].sequence(f"'{key}'") if key in self._fields else []

    def _variable(self) -> Variable:
        node = self._fields["variable"]
        spelled = node.text("'variable'")
        kind, _, name = spelled.partition(".")
        if kind not in list(Kind) or bool(name) is (kind == Kind.CODE):
            raise node.error("'variable'", "config.KEY, env.NAME or code")
        values = {arm: self._fields[arm].scalar(f"the value of the {arm}") for arm in ARMS}
        if len({(type(value), value) for value in values.values()}) < len(ARMS):
            raise InputError(
                f"both arms give {spelled} the same value",
                where=self._fields[CONTROL].where,
                expected="arms that differ in this one variable",
            )
        base = self._fields.get(kind)
        if base is not None and (kind == Kind.CODE or name in base.mapping(f"'{kind}'")):
            raise InputError(
                f"{spelled} is the variable, and '{kind}' sets it for both arms",
                where=base.where,
                hint="leave it to the arms",
            )
        return Variable(kind=Kind(kind), name=name, values=values)

    def _outcomes(self) -> tuple[Outcome, ...]:
        found = []
        for name, node in self._fields["outcomes"].mapping("'outcomes'").items():
            entries = node.mapping(f"outcome '{name}'")
            check_keys(entries, OUTCOME_KEYS, f"outcome '{name}'", self._problems)
            if missing := sorted(OUTCOME_KEYS - entries.keys()):
                raise InputError(f"outcome '{name}' lacks {', '.join(missing)}", where=node.where)
            reads = entries["reads"].text(f"'reads' of outcome '{name}'")
            if reads not in list(Reading):
                raise unknown("reading", reads, list(Reading), where=entries["reads"].where)
            found.append(
                Outcome(
                    name=name,
                    when=self._conditions(entries["when"], f"'when' of outcome '{name}'"),
                    reading=Reading(reads),
                    means=entries["means"].text(f"'means' of outcome '{name}'"),
                )
            )
        if len(found) < len(ARMS):
            raise self._fields["outcomes"].error("'outcomes'", "two outcomes at least")
        return tuple(found)

    def _effect(self) -> dict[str, Conditions]:
        entries = self._fields["took_effect"].mapping("'took_effect'")
        check_keys(entries, frozenset(ARMS), "'took_effect'", self._problems)
        if missing := [arm for arm in ARMS if arm not in entries]:
            raise InputError(
                f"'took_effect' says nothing of the {' and the '.join(missing)}",
                where=self._fields["took_effect"].where,
            )
        return {arm: self._conditions(entries[arm], f"'took_effect' of {arm}") for arm in ARMS}

    def _conditions(self, node: Node, what: str) -> Conditions:
        entries = node.mapping(what)
        if not entries:
            raise node.error(what, "readings with what they have to be")
        found = {}
        for reading, item in entries.items():
            if item.value is None or isinstance(item.value, dict | list):
                raise item.error(f"the expectation of '{reading}'", FORMS)
            found[reading] = parse_expectation(item.raw, item.where)
            self._readings.setdefault(reading, item)
        return found

    def _scenario(self, variable: Variable) -> Scenario:
        """Engine and steps as a scenario, with an arm, a lane and the readings as checks."""
        fields, where = self._fields, self._root.where
        env = self._env()
        arms, lanes = [], []
        for name in ARMS:
            value = variable.values[name]
            config = {variable.name: value} if variable.kind is Kind.CONFIG else {}
            own = {variable.name: str(value)} if variable.kind is Kind.ENV else {}
            arms.append(Arm(name=name, config=config, expect={}, where=fields[name].where))
            lane = Lane(name=name, env=env | own, skip_if="", reason="", judged_in="", where=where)
            lanes.append(lane)
        config_node = fields.get("config")
        return Scenario(
            name=fields["experiment"].text("an experiment's name"),
            about=fields["about"].text("'about'"),
            origin=self._text("origin"),
            engine=fields["engine"].word("'engine'", ENGINE, "an engine's name"),
            config=config_node.plain() if config_node is not None else {},
            arms=tuple(arms),
            lanes=tuple(lanes),
            steps=self._steps(),
            gates=(),
            path=where.path,
            where=self._root.places(),
        )

    def _env(self) -> dict[str, str]:
        if "env" not in self._fields:
            return {}
        entries = self._fields["env"].mapping("'env'")
        for name, node in entries.items():
            if not WORD.fullmatch(name):
                raise InputError(f"'{name}'", where=node.key_where, expected=WORD_SPELLED)
        return {name: node.text(f"'{name}'") for name, node in entries.items()}

    def _steps(self) -> tuple[Step, ...]:
        """The steps, each with a check for every reading of it: that is how readings come back."""
        steps = {step.id: step for step in read_steps(self._fields["steps"], self._problems)}
        for step in steps.values():
            if step.checks:
                raise InputError(
                    f"step '{step.id}' has checks; an experiment has outcomes",
                    where=step.where,
                )
            if step.only:
                raise InputError(
                    f"step '{step.id}' is for some arms only",
                    where=step.where,
                    expected="the same steps in both arms of an experiment",
                )
        wanted: dict[str, list[Check]] = {name: [] for name in steps}
        for reading, node in self._readings.items():
            step_id, _, counter = reading.partition(".")
            if step_id not in steps or not counter:
                raise unknown("step", step_id, steps, where=node.key_where, within=reading)
            wanted[step_id].append(
                Check(
                    id=reading,
                    counter=counter,
                    expectation=ANYTHING,
                    required=False,
                    where=node.where,
                )
            )
        return tuple(
            dataclasses.replace(step, checks=tuple(wanted[step.id])) for step in steps.values()
        )


ANYTHING = Expectation(text=">= 0", relation=">=", operand=0)


def code_of(experiment: Experiment, arm: str) -> str:
    """The variant of the code that an arm runs; empty for the code as it stands."""
    value: Any = experiment.code
    if experiment.variable.kind is Kind.CODE:
        value = experiment.variable.values[arm]
    return "" if value == AS_IS else str(value)
