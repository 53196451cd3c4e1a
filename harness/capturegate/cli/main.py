"""The command `capturegate`: finds its subcommands when they are used, and sets the exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import click

import capturegate
from capturegate.cli.options import OutputLostError
from capturegate.cli.stops import exit_code_of_stop, hearing_stops
from capturegate.cli.streams import lenient_streams
from capturegate.errors import InputError, message_of
from capturegate.run.totals import ExitCode

_GROUP = "capturegate.commands"
_DEBUG_SWITCH = "CAPTUREGATE_DEBUG"
_OWN = {
    "run": ("capturegate.cli.run:run", "Run scenarios and judge them."),
    "list": ("capturegate.cli.list:list_", "List cases, gates, engines and backends."),
    "explain": ("capturegate.cli.explain:explain", "Say what a gate checks and how to fix it."),
    "experiment": (
        "capturegate.cli.experiment:experiment",
        "Run experiments that were registered before, and read them.",
    ),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when one is used, not when the help is printed.

    Click wants a subclass here. Other distributions add commands by entry points of the group
    `capturegate.commands`; one that cannot be loaded spoils nothing but itself.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Our commands in the order of use, then the plugged-in ones."""
        return [*_OWN, *sorted(name for name in _plugged() if name not in _OWN)]

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """Import one command."""
        if cmd_name in _OWN:
            module, _, name = _OWN[cmd_name][0].partition(":")
            command: click.Command = getattr(importlib.import_module(module), name)
            return command
        if (point := _plugged().get(cmd_name)) is None:
            return None
        plugged: click.Command = point.load()
        return plugged

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing ours."""
        rows = [
            (name, _OWN[name][1] if name in _OWN else _help_of(name))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; as a program, exit with the code that tells what happened."""

        def call() -> Any:
            return super(LazyGroup, self).main(
                args=args,
                prog_name=prog_name,
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )

        if not standalone_mode:
            return call()
        sys.exit(exit_code_of_call(lambda: _as_program(call)))


def _as_program(call: Callable[[], Any]) -> int:
    """Call a command with signals and streams as a program has them; its exit code."""
    with hearing_stops():
        with lenient_streams() as outputs:
            code = exit_code_of_call(call)
        for output in outputs:
            if output.error is not None:
                _tell(f"standard output: {output.error.strerror}")
                return ExitCode.HARNESS_FAILED
    return code


def exit_code_of_call(call: Callable[[], Any]) -> int:
    """Call a command; its exit code, with a message for everything that it raised."""
    try:
        result = call()
    except click.UsageError as error:
        help_of = f"\n  help: {error.ctx.command_path} --help" if error.ctx else ""
        _tell(f"{error.format_message()}{help_of}")
        return error.exit_code
    except click.ClickException as error:
        _tell(error.format_message())
        return error.exit_code
    except InputError as error:
        _tell(str(error))
        return ExitCode.WRONG_INPUT
    except OutputLostError as error:
        _tell(str(error))
        return ExitCode.HARNESS_FAILED
    except (click.Abort, KeyboardInterrupt) as error:
        _say("interrupted")
        return exit_code_of_stop(error.__cause__ or error)
    except Exception as error:
        _tell(f"Capturegate itself failed: {type(error).__name__}: {message_of(error)}")
        if os.environ.get(_DEBUG_SWITCH):
            traceback.print_exc()
        else:
            _say("  help: run it again with --debug for the traceback")
        return ExitCode.HARNESS_FAILED
    return result if isinstance(result, int) else ExitCode.AS_EXPECTED


def _tell(problem: str) -> None:
    _say(f"error: {problem}")


def _say(text: str) -> None:
    # Where nobody can be told, the exit code still says it.
    with suppress(OSError):
        click.echo(text, err=True)


def _plugged() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=_GROUP)}


def _help_of(name: str) -> str:
    point = _plugged()[name]
    try:
        command: click.Command = point.load()
    except Exception as error:
        return f"Cannot be loaded: {type(error).__name__}: {error}"
    return command.get_short_help_str(limit=70)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(capturegate.__version__, prog_name="capturegate")
@click.option("--debug", is_flag=True, help="Show the traceback when Capturegate itself fails.")
def main(debug: bool) -> None:
    """Proves CUDA-graph capture and replay safe, and proves the proof.

    \b
    Exit codes: 0 all as expected, 1 something is not, 2 wrong input,
    3 the harness itself failed, 5 nothing was judged, 128 and its number
    for a signal: 129 hung up, 130 interrupted, 143 terminated.
    """  # noqa: D301, click looks for the character
    if debug:
        os.environ[_DEBUG_SWITCH] = "1"
    try:
        Path.cwd()
    except FileNotFoundError:
        raise InputError("the working directory is not there any more") from None
