"""Call programs as an engine: scenarios that are written call by call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureStatus, Device, Pointer
from capturegate.errors import InputError
from capturegate.programs.bench import Bench, must
from capturegate.programs.calls import MAKERS
from capturegate.programs.eager import Eager
from capturegate.programs.interpreter import key_of, stream_of
from capturegate.programs.kernels import BLOCK_BYTES
from capturegate.programs.lines import Line, parse_line
from capturegate.programs.names import Names
from capturegate.programs.observation import ABSENT
from capturegate.programs.ops import BLOCKS
from capturegate.programs.threads import Threads
from capturegate.status import SUCCESS, Outcome, Status

_NO_SURPRISE = "none"


class ProgramAdapter:
    """A program that makes the calls that a scenario's steps spell out, on one set of names.

    `looks: false` is a program that never reads an error code. `output` names the block that
    launches rewrite; it is then compared with a run of the same calls without a graph.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        "looks": (bool, True),
        "output": (str, ""),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {}
    tells_pool: ClassVar[bool] = False

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        if config["output"] and config["output"] not in BLOCKS:
            raise InputError(f"'{config['output']}' is no block", expected=", ".join(BLOCKS))
        self._backend = backend
        self._looks: bool = config["looks"]
        self._output: str = config["output"]
        self._eager = Eager() if oracle else None
        # What stands ready is no call of the program, so it is not recorded.
        self._bench = Bench(backend.device)
        self._bench.reset()
        # Statuses have the fields of outcomes; only a look at them differs.
        self._calls = cast(Device, backend.raw)
        self._names = Names(self._calls, self._bench, ())
        self._threads = Threads(lambda: must(backend.device.set_device(0), "device selection"))
        self._ran_work = False

    @verb
    def calls(self, lines: list[str]) -> Facts:
        """Make calls, one a line."""
        program = [parse_line(line) for line in lines]
        self._ran_work = False
        for line in program:
            self._names.prepare(line.call)
        errors = [self._error_of(line) for line in program]
        wrong = [
            f"{line.call[0]} {error}"
            for line, error in zip(program, errors, strict=True)
            if self._eager is None and error != line.error
        ]
        return {
            "made": sum(error != ABSENT for error in errors),
            "absent": errors.count(ABSENT),
            "unexpected": len(wrong),
            "surprise": wrong[0] if wrong else _NO_SURPRISE,
            "last": errors[-1] if errors else ABSENT,
            **self._changes(),
        }

    def counters(self) -> Mapping[str, int]:
        """None: facts and the trace say it all."""
        return {}

    def outputs(self) -> Sequence[Output]:
        """The output block, after a step that launched a graph."""
        if not (self._output and self._ran_work):
            return ()
        block = self._bench.blocks[self._output]
        return (
            Output(
                name=self._output,
                pointer=block,
                row_bytes=BLOCK_BYTES,
                rows=1,
                rows_padded=1,
                dtype="int32",
            ),
        )

    def buffers(self) -> Sequence[Pointer]:
        """The output block."""
        return (self._bench.blocks[self._output],) if self._output else ()

    def close(self) -> None:
        """Give back what the program made, and end its threads."""
        if not self._backend.recorder.open_captures:
            must(self._backend.device.device_synchronize(), "device synchronise at the end")
            self._names.release()
        self._threads.close()

    def _error_of(self, line: Line) -> str:
        """What a line's call came to; the oracle keeps what stands in a capture for the launch."""
        if self._eager is None:
            return self._make(line)
        if line.call[0] == "graph_launch":
            self._ran_work = True
        for due in self._eager.due(line):
            self._make(due)
        return line.error

    def _make(self, line: Line) -> str:
        return cast(str, self._threads.run(line.call[1], partial(self._call, line.call)))

    def _call(self, call: list[Any]) -> str:
        recorder = self._backend.recorder
        arguments = self._names.resolve(call, recorder.open_captures > 0)
        if arguments is None:
            return ABSENT
        status: Outcome[Any] | Status[Any] = MAKERS[call[0]](self._calls, self._bench, *arguments)
        if isinstance(status, Outcome):
            return status.error  # the call could not be put together, and was not made
        # The trace knows the answer whether or not the program looks at it.
        error = recorder.since(status.event)[0].error
        if self._looks:
            self._look(status)
        if error == SUCCESS:
            self._names.keep(call, status.value)
            self._ran_work |= call[0] == "graph_launch"
        self._follow_graphs(call, arguments, made=error == SUCCESS)
        return error

    def _follow_graphs(self, call: list[Any], arguments: list[Any], *, made: bool) -> None:
        """Remember which graph a capture adds to, until the capture is over."""
        key = key_of(stream_of(call), call[1])
        if call[0] == "begin_to_graph" and made:
            self._names.into[key] = arguments[1]
        elif call[0] == "end":
            info = self._backend.device.stream_get_capture_info(arguments[0]).value
            if info is not None and info.status is CaptureStatus.NONE:
                self._names.leave(key, alive=made)

    def _look(self, status: Status[Any]) -> None:
        """Read a code, as a program that cares does."""
        _ = status.error

    def _changes(self) -> dict[str, str]:
        """Per block whether it still holds its first content; nothing while something captures."""
        if self._backend.recorder.open_captures:
            return {}
        must(self._backend.device.device_synchronize(), "device synchronise after a step")
        changed = self._bench.contents()
        return {name: "changed" if name in changed else "kept" for name in BLOCKS}
