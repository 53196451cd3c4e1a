"""Asking an adapter: whatever it raises or answers wrongly is its own failure, never ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from capturegate.adapter import Adapter, Output
from capturegate.backend import Backend, CudaError, Pointer
from capturegate.errors import CapturegateError, InputError, Location
from capturegate.run.failures import EngineFailed, failure_of, fault, placed
from capturegate.scenario.model import Step
from capturegate.trace import CallBudgetExceeded

T = TypeVar("T")

Told = Mapping[str, int | float | str | bool]


def ask(call: Callable[[], T], step: str, where: Location | str = "") -> T:
    """What the engine answers.

    Raises:
        EngineFailed: it raised anything, be it SystemExit or KeyboardInterrupt.
        InputError: it found the scenario's mistake; `where` is its place if it names none.
    """
    try:
        return call()
    except CallBudgetExceeded:
        raise
    except InputError as error:
        raise placed(error, where) from error
    except BaseException as error:
        raise EngineFailed(failure_of(error, step)) from error


def told_by(adapter: Adapter, step: Step) -> Told:
    """The facts that the verb of a step tells.

    Raises:
        EngineFailed: the verb raised, or told something else than facts.
        InputError: the verb found the scenario's mistake.
    """
    method = ask(lambda: getattr(adapter, step.verb), step.id, step.where)
    told = ask(lambda: method(**step.args), step.id, step.where)
    return {} if told is None else _named(told, f"the verb {step.verb}()", step, method, _fact)


def counters_of(adapter: Adapter, step: Step) -> dict[str, int]:
    """The adapter's counters.

    Raises:
        EngineFailed: it cannot tell them.
    """
    told = ask(adapter.counters, step.id, step.where)
    return _named(told, "the adapter's counters()", step, adapter.counters, _count)


def outputs_of(adapter: Adapter, step: Step) -> list[Output]:
    """The adapter's outputs, each with one row at least that lies in its buffer.

    Raises:
        EngineFailed: it cannot show them.
    """
    outputs: list[Output] = _items(adapter.outputs, Output, "outputs()", step)
    for output in outputs:
        if problem := _output_problem(output):
            raise fault(f"the adapter's outputs() {problem}", step.id, adapter.outputs)
    names = [output.name for output in outputs]
    for name in names:
        if names.count(name) > 1:
            problem = f"the adapter's outputs() shows {names.count(name)} outputs named '{name}'"
            raise fault(problem, step.id, adapter.outputs)
    return outputs


def buffers_of(adapter: Adapter, step: Step) -> list[Pointer]:
    """The buffers that a coming replay will write.

    Raises:
        EngineFailed: the adapter cannot show them.
    """
    return _items(adapter.buffers, Pointer, "buffers()", step)


def read_output(adapter: Adapter, backend: Backend, output: Output, step: Step) -> bytes:
    """The bytes of an output's rows.

    Raises:
        EngineFailed: the adapter shows memory that is not there any more, or the work that the
            device had left to do, which has to be done first, is wrong.
    """
    try:
        return backend.harness_read(output.pointer, output.rows * output.row_bytes)
    except CudaError as error:
        problem = f"the adapter's outputs() shows '{output.name}', which cannot be read: {error}"
        raise fault(problem, step.id, adapter.outputs) from error
    except CapturegateError as error:
        raise EngineFailed(failure_of(error, step.id)) from error


def overwrite(adapter: Adapter, backend: Backend, pointer: Pointer, fill: int, step: Step) -> None:
    """Fill a buffer of the adapter's.

    Raises:
        EngineFailed: the adapter shows memory that is not there any more, or the work that the
            device had left to do, which has to be done first, is wrong.
    """
    try:
        backend.harness_write(pointer, bytes([fill]) * pointer.nbytes)
    except CudaError as error:
        problem = f"the adapter's buffers() shows one that cannot be written: {error}"
        raise fault(problem, step.id, adapter.buffers) from error
    except CapturegateError as error:
        raise EngineFailed(failure_of(error, step.id)) from error


def kind_of(value: object) -> str:
    """What an answer is, in words that do not ask the answer itself."""
    if value is None or type(value) in (bool, int, float):
        return f"{value!r}"
    return f"an object of type {type(value).__name__}"


def _named(
    told: object,
    who: str,
    step: Step,
    method: Callable[..., Any],
    plain: Callable[[object], Any],
) -> dict[str, Any]:
    """A mapping of names to what `plain` makes of each value, None for what it may not be."""
    if not isinstance(told, Mapping):
        raise fault(f"{who} answered {kind_of(told)}, no mapping", step.id, method)
    found = {}
    for name, value in ask(lambda: list(told.items()), step.id, step.where):
        if not isinstance(name, str):
            raise fault(f"{who} named something by {kind_of(name)}, no text", step.id, method)
        found[name] = plain(value)
        if found[name] is None:
            raise fault(f"{who} told '{name}' as {kind_of(value)}", step.id, method)
    return found


def _fact(value: object) -> int | float | str | bool | None:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    return None


def _count(value: object) -> int | float | None:
    """A count is whole, or a number that grows; not one that compares with nothing."""
    fact = _fact(value)
    return fact if isinstance(fact, int | float) and math.isfinite(fact) else None


def _items(method: Callable[[], Iterable[T]], kind: type[T], called: str, step: Step) -> list[T]:
    answered = ask(method, step.id, step.where)
    if not isinstance(answered, Iterable) or isinstance(answered, str | bytes | Mapping):
        raise fault(
            f"the adapter's {called} answered {kind_of(answered)}, no list", step.id, method
        )
    items = ask(lambda: list(answered), step.id, step.where)
    for item in items:
        if not isinstance(item, kind):
            problem = f"the adapter's {called} holds {kind_of(item)}, no {kind.__name__}"
            raise fault(problem, step.id, method)
    return items


def _output_problem(output: Output) -> str:
    """What is wrong with an output, empty for nothing."""
    if not isinstance(output.name, str) or not isinstance(output.dtype, str):
        return "shows an output whose name or dtype is no text"
    if not isinstance(output.pointer, Pointer):
        return f"shows '{output.name}' at {kind_of(output.pointer)}, no Pointer"
    for what in ("rows", "row_bytes", "rows_padded"):
        value = getattr(output, what)
        if type(value) is not int or value <= 0:
            return f"shows '{output.name}' with {what} {value!r}, and 1 is the least"
    needed = output.rows * output.row_bytes
    if needed > output.pointer.nbytes:
        return (
            f"shows '{output.name}' with {needed} bytes of rows in a buffer of "
            f"{output.pointer.nbytes}"
        )
    return ""
