"""The core of the recordings as an engine, so that mutations can flip the rules of the fake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, Pointer
from capturegate.errors import InputError
from capturegate.programs import Runner, first_difference
from capturegate_backends.conform.devices import make_device
from capturegate_backends.truth.recordings import RecordedCase, read_recording


def core_path() -> Path:
    """The programs of the recordings that tell every flip of the rule book."""
    return Path(str(files("capturegate_backends.truth"))) / "core" / "core-h200.jsonl.gz"


@cache
def core_cases() -> dict[str, RecordedCase]:
    """The core's cases by name, in its order."""
    return {case.name: case for case in read_recording(core_path()).cases}


def step_id(name: str) -> str:
    """The name of a recorded program as a step's id."""
    return name.replace("/", "-").replace("_", "-")


class RecordedPrograms:
    """Runs recorded programs, each as one step, and says where the device answered otherwise."""

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {}
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {}
    tells_pool: ClassVar[bool] = False

    def __init__(
        self,
        backend: Backend,
        config: Mapping[str, Any],  # noqa: ARG002
        *,
        oracle: bool,
    ) -> None:
        self._backend = backend
        # A recording is compared with itself; there is nothing that an oracle could add.
        self._runner = None if oracle else Runner(backend.device)

    @verb
    def recorded(self, program: str) -> Facts:
        """Run one recorded program of the core."""
        case = core_cases().get(program)
        if case is None:
            raise InputError(
                f"the core has no program '{program}'", hint="`ci/rule_plans.py` chooses them"
            )
        if self._runner is None:
            return {"programs": 0, "differences": 0}
        try:
            differs = first_difference(case.observation, self._runner.run(case.program)) is not None
        except Exception:
            # The device did not come to rest, or a flipped one fell over: the next needs another.
            differs = True
            self._runner = Runner(make_device(self._backend.name))
        return {"programs": 1, "differences": int(differs)}

    def counters(self) -> Mapping[str, int]:
        """None."""
        return {}

    def outputs(self) -> Sequence[Output]:
        """None: results are compared as digests of the recording."""
        return ()

    def buffers(self) -> Sequence[Pointer]:
        """None."""
        return ()

    def close(self) -> None:
        """End the threads."""
        if self._runner is not None:
            self._runner.close()
