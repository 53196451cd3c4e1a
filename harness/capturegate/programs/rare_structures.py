"""Call programs for answers that random programs seldom get."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from capturegate.programs.ops import MODES
from capturegate.programs.sweeps import Calls

_HUGE_BYTES = 1 << 50
_END: Calls = [["end", 0, "n1", "g5"], ["instantiate", 0, "g5", "x5"]]
_LAUNCH: Calls = [["graph_launch", 0, "x5", "n2"], ["get_last_error", 0]]


def rare_answers() -> Iterator[tuple[str, Calls]]:
    """All of them, named by what they ask for; the generator weighs the last parts alike."""
    yield from _memory()
    yield from _nothing()
    yield from _executables()
    yield from _ends()


def _memory() -> Iterator[tuple[str, Calls]]:
    for mode in MODES:
        head: Calls = [["begin", 0, "n1", mode], ["launch", 0, "add", "d1", 1, "n1"]]
        yield from _nodes(mode, head)
        yield from _spaces(mode, head)


def _nodes(mode: str, head: Calls) -> Iterator[tuple[str, Calls]]:
    """Memory nodes that are too large, or freed and launched when they should not be."""
    yield (
        f"rare/{mode}/huge-node",
        [
            *head,
            ["malloc_async", 0, "m1", _HUGE_BYTES, "n1"],
            ["get_last_error", 0],
            *_END,
            *_LAUNCH,
        ],
    )
    yield (
        f"rare/{mode}/free-of-node",
        [
            ["exchange", 0, "relaxed"],
            *head,
            ["malloc_async", 0, "m1", 4096, "n1"],
            ["free", 0, "m1"],
            ["free", 1, "m1"],
            ["get_last_error", 0],
            *_END,
        ],
    )
    yield (
        f"rare/{mode}/launched-twice-beside",
        [
            ["begin", 0, "n2", "relaxed"],
            ["malloc_async", 0, "m1", 4096, "n2"],
            ["end", 0, "n2", "g1"],
            ["instantiate", 0, "g1", "x1"],
            *head,
            ["graph_launch", 0, "x1", "n2"],
            ["graph_launch", 0, "x1", "n2"],
            ["get_last_error", 0],
            *_END,
        ],
    )
    yield (
        f"rare/{mode}/free-of-node-in-invalidated",
        [
            ["exchange", 0, "relaxed"],
            *head,
            ["malloc_async", 0, "m1", 4096, "n1"],
            ["device_sync", 0],
            ["free", 0, "m1"],
            ["get_last_error", 0],
            *_END,
        ],
    )


def _spaces(mode: str, head: Calls) -> Iterator[tuple[str, Calls]]:
    """Work on memory of the wrong kind."""
    for block in ("h1", "h2"):
        yield (
            f"rare/{mode}/{block}/set-of-pageable",
            [
                ["memset_async", 0, block, 3, "n1"],
                ["get_last_error", 0],
                *head,
                ["memset_async", 0, block, 3, "n2"],
                ["memset_async", 0, "d2", 3, "n1"],
                *_END,
                *_LAUNCH,
            ],
        )
        yield (
            f"rare/{mode}/{block}/set-of-pageable-beside-broken",
            [
                *head,
                ["device_sync", 0],
                ["memset_async", 0, block, 3, "n2"],
                ["memset_async", 1, block, 3, "legacy"],
                ["get_last_error", 0],
                *_END,
            ],
        )
    yield (
        f"rare/{mode}/managed-freed-in-order",
        [
            ["malloc_managed", 0, "m1", 4096],
            ["free_async", 0, "m1", "n2"],
            *head,
            ["free_async", 0, "m1", "n1"],
            *_END,
            ["free_async", 0, "m1", "n1"],
            ["free", 0, "m1"],
        ],
    )


def _nothing() -> Iterator[tuple[str, Calls]]:
    """Zero bytes asked for, and what that gives freed again."""
    for mode, stream, poisoned, thread in product(
        MODES, ("n1", "n2", "legacy", "own"), (False, True), (0, 1)
    ):
        broken: Calls = [["device_sync", 0]] if poisoned else []
        name = f"rare/{mode}/{stream}/{'poisoned' if poisoned else 'sound'}/{thread}"
        yield (
            f"{name}/nothing-freed-in-order",
            [
                ["malloc_async", 0, "m1", 0, "n2"],
                ["free_async", thread, "m1", stream],
                ["malloc_async", 0, "m2", 0, "n2"],
                ["begin", 0, "n1", mode],
                ["launch", 0, "add", "d1", 1, "n1"],
                *broken,
                ["free_async", thread, "m2", stream],
                *_END,
            ],
        )
        yield (
            f"{name}/nothing-managed",
            [
                ["malloc_managed", thread, "m1", 0],
                ["begin", 0, "n1", mode],
                ["launch", 0, "add", "d1", 1, "n1"],
                *broken,
                ["malloc_managed", thread, "m2", 0],
                ["get_last_error", thread],
                ["launch", 0, "add", "d1", 1, stream],
                *_END,
            ],
        )


def _executables() -> Iterator[tuple[str, Calls]]:
    for mode, freed in product(MODES, (False, True)):
        kept = "freed" if freed else "kept"
        free: Calls = [["free_async", 0, "m1", "n1"]] if freed else []
        other: Calls = [["free_async", 0, "m2", "n1"]] if freed else []
        one: Calls = [
            ["begin", 0, "n1", mode],
            ["malloc_async", 0, "m1", 4096, "n1"],
            *free,
            ["end", 0, "n1", "g1"],
            ["instantiate", 0, "g1", "x1"],
        ]
        two: Calls = [
            ["begin", 0, "n1", mode],
            ["malloc_async", 0, "m2", 4096, "n1"],
            *other,
            ["end", 0, "n1", "g2"],
        ]
        update: Calls = [["update", 0, "x1", "g2"], ["get_last_error", 0]]
        launch: Calls = [["graph_launch", 0, "x1", "n2"]]
        yield f"rare/{mode}/{kept}/update-from-memory-in-use", [
            *one, *two, ["instantiate", 0, "g2", "x2"], *update, *launch,
        ]  # fmt: skip
        yield f"rare/{mode}/{kept}/update-from-memory-let-go", [
            *one, *two, ["instantiate", 0, "g2", "x2"], ["exec_destroy", 0, "x2"], *update, *launch,
        ]  # fmt: skip
    for mode, thread in product(MODES, (0, 1)):
        yield (
            f"rare/{mode}/{thread}/foreign-node",
            [
                ["begin", 0, "n1", "relaxed"],
                ["launch", 0, "add", "d1", 2, "n1"],
                ["end", 0, "n1", "g1"],
                ["instantiate", 0, "g1", "x1"],
                ["begin", 0, "n1", "relaxed"],
                ["launch", 0, "mix", "d2", 2, "n1"],
                ["end", 0, "n1", "g2"],
                ["begin", 0, "n1", mode],
                ["set_params", thread, "x1", "g2", 0, "add", "d3", 6],
                ["get_last_error", thread],
                *_END,
            ],
        )


def _ends() -> Iterator[tuple[str, Calls]]:
    """Ends of forks, beside other captures and out of another thread's sight."""
    for mode, broken in product(MODES, (False, True)):
        beside: Calls = [["stream_sync", 0, "n1"]] if broken else []
        two: Calls = [
            ["begin", 0, "n1", "relaxed"],
            ["begin", 0, "b2", mode],
            *beside,
            ["launch", 0, "add", "d1", 1, "b2"],
            ["record", 0, "e1", "b2", 0],
            ["wait", 0, "n2", "e1", 0],
        ]
        both: Calls = [["end", 0, "b2", "g6"], *_END, *_LAUNCH]
        says = "broken" if broken else "sound"
        yield f"rare/{mode}/{says}/end-of-fork-beside", [*two, ["end", 0, "n2", "g4"], *both]
        poison: Calls = [["device_sync", 0]] if broken else []
        own: Calls = [
            ["begin", 0, "n1", mode],
            ["launch", 0, "add", "d1", 1, "n1"],
            ["record", 0, "e1", "n1", 0],
            ["wait", 1, "own", "e1", 0],
            ["launch", 1, "mix", "d2", 1, "own"],
            ["record", 1, "e2", "own", 0],
            ["wait", 0, "n1", "e2", 0],
            *poison,
        ]
        yield f"rare/{mode}/{says}/ended-elsewhere", [*own, ["end", 1, "n1", "g5"], *_END]
        late: Calls = [["end", 0, "n1", "g5"], ["end", 1, "own", "g6"]]
        yield f"rare/{mode}/{says}/ended-unseen", [*own, *late, *_LAUNCH]
