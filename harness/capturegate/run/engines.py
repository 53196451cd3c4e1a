"""Finding adapters and backends by name, inside the case's own process."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoints
from importlib.metadata import entry_points as find_entry_points
from typing import Any

from capturegate.adapter import Adapter, verbs_of
from capturegate.backend import Backend, Device
from capturegate.errors import InputError
from capturegate.scenario.keys import STEP_KEYS

ADAPTERS = "capturegate.adapters"
BACKENDS = "capturegate.backends"
_ATTRIBUTES = ("config_keys", "predicates", "tells_pool")
_METHODS = ("counters", "outputs", "buffers", "close")


@cache
def entry_points(group: str) -> EntryPoints:
    """The entry points of a group; looked up once, since it reads every distribution."""
    return find_entry_points(group=group)


def load_adapter(engine: str) -> type[Adapter]:
    """The adapter class of an engine: a registered name, or `module:Class`.

    Raises:
        InputError: nothing of that name is registered, or it cannot be imported.
    """
    if ":" in engine:
        module_name, _, attribute = engine.partition(":")
        try:
            found: type[Adapter] = getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError) as error:
            raise InputError(
                f"engine '{engine}' cannot be imported: {error}",
                hint="the engine is `module:Class`; the module has to be importable from here",
            ) from error
        return found
    points = entry_points(ADAPTERS)
    for point in points:
        if point.name == engine:
            adapter: type[Adapter] = point.load()
            return adapter
    raise InputError(
        f"unknown engine '{engine}'",
        expected=f"one of {_names(points)}, or `module:Class` of your own adapter",
    )


def load_device(backend: str, seed: int) -> Device:
    """A fresh device of a backend.

    Raises:
        InputError: no backend of that name, or it cannot work on this machine.
    """
    points = entry_points(BACKENDS)
    for point in points:
        if point.name == backend:
            device: Device = point.load()(seed=seed)
            return device
    raise InputError(f"unknown backend '{backend}'", expected=f"one of {_names(points)}")


def fresh_backend(backend: str, seed: int) -> Backend:
    """A recorded backend over a fresh device."""
    return Backend(load_device(backend, seed))


def try_backend(backend: str) -> dict[str, Any]:
    """Open a device of a backend and close it: whether the backend works on this machine.

    Raises:
        InputError: it does not.
    """
    load_device(backend, 0).close()
    return {}


def describe(engine: str) -> dict[str, Any]:
    """What an engine's adapter offers, as plain data; `error` when it is none."""
    try:
        adapter = load_adapter(engine)
        _check_whole(engine, adapter)
        _check_arguments(engine, adapter)
    except InputError as error:
        return {"error": str(error)}
    return {
        "config_keys": {
            name: {"type": kind.__name__, "default": default}
            for name, (kind, default) in adapter.config_keys.items()
        },
        "verbs": {
            name: [{"name": a.name, "type": a.type, "required": a.required} for a in arguments]
            for name, arguments in verbs_of(adapter).items()
        },
        "predicates": sorted(adapter.predicates),
    }


def _check_whole(engine: str, adapter: type[Adapter]) -> None:
    """See that a class has what the harness will use, before a case finds out.

    Raises:
        InputError: it lacks something.
    """
    lacks = [name for name in _ATTRIBUTES if not hasattr(adapter, name)]
    for name in _METHODS:
        method = getattr(adapter, name, None)
        # Who derives from the protocol has its methods without having written them.
        if not callable(method) or method is getattr(Adapter, name):
            lacks.append(f"{name}()")
    if lacks:
        spelled = f"{adapter.__module__}.{getattr(adapter, '__qualname__', adapter)}"
        raise InputError(
            f"engine '{engine}': {spelled} lacks {', '.join(lacks)}",
            expected=f"an adapter: a class with {', '.join(_ATTRIBUTES)}, "
            f"{', '.join(f'{name}()' for name in _METHODS)}",
            hint="`capturegate.adapter.Adapter` says what each is for",
        )


def _check_arguments(engine: str, adapter: type[Adapter]) -> None:
    """See that no argument of a verb is called what a scenario file has a meaning for.

    Raises:
        InputError: one is; a file could not give it.
    """
    for name, arguments in verbs_of(adapter).items():
        if taken := [a.name for a in arguments if a.name in STEP_KEYS]:
            raise InputError(
                f"engine '{engine}': the verb {name}() has an argument '{taken[0]}', "
                "which is a word of scenario files",
                expected=f"another name than {', '.join(sorted(STEP_KEYS))}",
            )


def _names(points: Iterable[Any]) -> str:
    return ", ".join(sorted(point.name for point in points)) or "none (nothing is installed)"
