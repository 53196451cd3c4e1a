"""What an adapter raises or answers wrongly is a failure of its own, never the harness's."""

import pytest

import toy_engines as toys
from capturegate.adapter import verb
from capturegate.backend import Access, Kernel, Param
from capturegate.errors import InputError
from capturegate.run.execute import judge_case
from capturegate.run.failures import failure_of
from capturegate.run.result import CheckOutcome
from capturegate.scenario.loader import load_scenario
from capturegate.scenario.model import Case
from capturegate.trace import CallBudgetExceeded

SCENARIO = """
scenario: toy
about: A toy.
engine: toy_engines:Faulty
lanes:
  plain: {env: {A: "1"}}
  idle: {skip_if: toy.off, judged_in: plain}
steps:
  - step: {id: first, check: {captures: 0}}
  - step: {id: again, times: 3}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    def run_one(adapter, lane=0):
        monkeypatch.setattr(toys, "Faulty", adapter, raising=False)
        path = tmp_path / "toy.scenario.yaml"
        path.write_text(SCENARIO)
        scenario = load_scenario(path)
        return judge_case(
            Case(
                scenario=scenario,
                lane=scenario.lanes[lane],
                arm=scenario.arms[0],
                backend="fake",
            )
        )

    return run_one


def failed_check(result):
    (check,) = [c for c in result.checks if c.outcome is CheckOutcome.FAILED]
    return check


def test_the_toy_without_a_fault_is_green(run):
    assert run(toys.doubling()).as_expected


ENDS = [
    ValueError("boom"),
    SystemExit(0),
    KeyboardInterrupt(),
    GeneratorExit(),
    toys.Unprintable(),
]


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("__init__", "build"),
        ("counters", "first"),
        ("buffers", "first"),
        ("step", "first"),
        ("outputs", "first"),
        ("close", "close"),
    ],
)
def test_what_any_method_raises_is_a_failed_check_of_its_step(run, method, step, error):
    raiser = toys.raising(error)
    result = run(toys.doubling(**{method: verb(raiser)}))
    check = failed_check(result)
    assert (check.id, result.as_expected, result.harness_error) == (f"{step}.completes", False, "")
    assert result.failure.type == type(error).__name__
    assert {frame.dotted for frame in result.failure.stack} >= {
        "toy_engines.raising.<locals>.method"
    }
    assert not any(frame.dotted.startswith("capturegate.") for frame in result.failure.stack)


@pytest.mark.parametrize(
    ("methods", "step", "problem"),
    [
        ({"counters": None}, "first", "the adapter's counters() answered None, no mapping"),
        ({"counters": 7}, "first", "the adapter's counters() answered 7, no mapping"),
        ({"counters": {"a": "x"}}, "first", "told 'a' as an object of type str"),
        ({"counters": {"a": float("nan")}}, "first", "told 'a' as nan"),
        ({"counters": {1: 2}}, "first", "named something by 1, no text"),
        ({"buffers": None}, "first", "the adapter's buffers() answered None, no list"),
        ({"buffers": 7}, "first", "the adapter's buffers() answered 7, no list"),
        ({"buffers": [7]}, "first", "the adapter's buffers() holds 7, no Pointer"),
        ({"outputs": None}, "first", "the adapter's outputs() answered None, no list"),
        ({"outputs": [None]}, "first", "the adapter's outputs() holds None, no Output"),
        ({"step": 5}, "first", "the verb step() answered 5, no mapping"),
        ({"step": "abc"}, "first", "answered an object of type str, no mapping"),
        ({"step": [("a", 1)]}, "first", "answered an object of type list, no mapping"),
        ({"step": {"x": object()}}, "first", "told 'x' as an object of type object"),
    ],
)
def test_a_wrong_answer_is_a_failed_check_with_the_adapters_own_frame(run, methods, step, problem):
    answers = {name: verb(toys.answering(answer)) for name, answer in methods.items()}
    result = run(toys.doubling(**answers))
    check = failed_check(result)
    assert (check.id, result.as_expected) == (f"{step}.completes", False)
    assert problem in result.failure.message
    assert result.failure.stack[0].path.endswith("toy_engines.py")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rows": 0}, "shows 'result' with rows 0, and 1 is the least"),
        ({"rows": -1}, "shows 'result' with rows -1, and 1 is the least"),
        ({"row_bytes": 0}, "shows 'result' with row_bytes 0, and 1 is the least"),
        ({"rows": 100}, "shows 'result' with 800 bytes of rows in a buffer of 32"),
        ({"pointer": 4096}, "shows 'result' at 4096, no Pointer"),
        ({"name": 5}, "shows an output whose name or dtype is no text"),
    ],
)
def test_an_output_that_cannot_be_is_told(run, changes, problem):
    result = run(toys.doubling(outputs=toys.with_output(**changes)))
    assert result.failure.message == f"the adapter's outputs() {problem}"
    assert not result.as_expected


def test_two_outputs_of_one_name_would_hide_one_of_them(run):
    def twice(self):
        return toys.with_output()(self) * 2

    result = run(toys.doubling(outputs=twice))
    assert "shows 2 outputs named 'result'" in result.failure.message


def test_a_buffer_that_was_freed_is_the_adapters_fault(run):
    def freed(self):
        pointer = self.backend.malloc(64)
        self.backend.free(pointer)
        return [pointer]

    result = run(toys.doubling(buffers=freed))
    assert "the adapter's buffers() shows one that cannot be written" in result.failure.message


def test_an_output_that_was_freed_is_the_adapters_fault(run):
    def freed(self):
        pointer = self.backend.malloc(64)
        self.backend.free(pointer)
        return toys.with_output(pointer=pointer)(self)

    result = run(toys.doubling(outputs=freed))
    said = "the adapter's outputs() shows 'result', which cannot be read"
    assert said in result.failure.message


def fails_on_the_device(*_):
    raise ValueError("boom")


@pytest.mark.parametrize(("method", "step"), [("outputs", "first"), ("buffers", "again")])
def test_work_that_fails_while_the_harness_waits_for_it_is_the_engines_fault(run, method, step):
    into = Param("into", Access.INOUT)
    fault = Kernel(name="fault", params=(into,), body=fails_on_the_device, cuda="")

    def launching(self):
        if self.steps == 1:
            self.backend.launch(fault, (self.result.array((8,)),), self.stream, 1)
        return getattr(toys.Doubling, method)(self)

    result = run(toys.doubling(**{method: launching}))
    assert ("KernelMisuse", step) == (result.failure.type, result.failure.step)
    assert "its body failed: boom" in result.failure.message
    assert (failed_check(result).id, result.harness_error) == (f"{step}.completes", "")


def test_a_fact_that_is_a_number_in_one_run_and_a_word_in_another_is_told(run):
    def step(self):
        told = toys.Doubling.step(self)
        return told | {"x": 1 if self.steps % 2 else "one"}

    result = run(toys.doubling(step=verb(step)))
    assert failed_check(result).id == "again.completes"
    said = "the verb step() tells 'x' as a number in one run, not in all"
    assert result.failure.message == said


def test_numpy_numbers_are_numbers(run):
    import numpy as np

    result = run(
        toys.doubling(
            step=verb(toys.answering({"x": np.int64(2), "y": np.float32(0.5)})),
            outputs=toys.answering([]),
            counters=toys.answering({"n": np.int64(1)}),
        )
    )
    assert result.failure is None


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        (toys.raising(ValueError("boom")), "ValueError: boom"),
        (toys.raising(SystemExit(0)), "SystemExit: 0"),
        (toys.answering(None), "AdapterError: the predicate answered None, no boolean"),
    ],
)
def test_a_predicate_that_does_not_answer_skips_nothing(run, predicate, said):
    result = run(toys.doubling(predicates={"toy.off": predicate}), lane=1)
    assert result.skip is None
    assert failed_check(result).id == "skip_if toy.off.completes"
    assert said == failed_check(result).observed
    assert result.failure.stack[0].path.endswith("toy_engines.py")


def test_a_predicate_that_answers_decides(run):
    assert run(toys.doubling(predicates={"toy.off": lambda: True}), lane=1).skip is not None
    assert run(toys.doubling(predicates={"toy.off": lambda: False}), lane=1).as_expected


def test_a_call_budget_ends_a_case_whatever_the_adapter_does(run):
    with pytest.raises(CallBudgetExceeded):
        run(toys.doubling(counters=toys.raising(CallBudgetExceeded("enough"))))


@pytest.mark.parametrize("method", ["__init__", "counters", "buffers", "step", "outputs", "close"])
def test_a_mistake_of_the_scenarios_is_told_at_its_place_whichever_method_finds_it(run, method):
    with pytest.raises(InputError) as caught:
        run(toys.doubling(**{method: verb(toys.raising(InputError("bad", hint="do")))}))
    assert (caught.value.problem, caught.value.hint) == ("bad", "do")
    assert "toy.scenario.yaml:" in str(caught.value.where)


def test_a_message_of_megabytes_is_cut_with_a_mark():
    failure = failure_of(ValueError("m" * 5_000_000), "first")
    assert failure.message == "m" * 4000 + " [cut: 5,000,000 characters in all]"


def test_an_exception_without_words_is_still_told():
    said = failure_of(toys.Unprintable(), "first").message
    assert said == "(it cannot say what it is: RuntimeError from its __str__)"
