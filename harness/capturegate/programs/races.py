"""Which graphs race with themselves: parallel branches that touch one block.

A conservative count: two streams of one capture touch one block, and not both only read it or
only add to it, whether or not an event orders them. When such a graph runs, no single answer is
right, and the program's bytes are not compared.
"""

from __future__ import annotations

from capturegate.programs.ops import Call

Touches = dict[str, set[tuple[str, str]]]
"""Per block: which streams touch it, and how: `r`ead, `a`dd or `w`rite."""


_RACING = "a race"
"""Stands for a block in which something races that is not told apart any more."""


def touched(call: Call) -> list[tuple[str, str]]:
    """The blocks that a call's work touches, and how."""
    name, arguments = call[0], call[2:]
    if name in ("memcpy_async", "memcpy_batch"):
        return [(arguments[0], "w"), (arguments[1], "r")]
    if name == "memset_async":
        return [(arguments[0], "w")]
    if name in ("launch", "set_params"):
        kernel, block = arguments[:2] if name == "launch" else arguments[3:5]
        if kernel == "move":
            return [(block, "w"), ("d4", "r")]
        return [(block, "a" if kernel == "add" else "w")]
    return []


def races(touches: Touches) -> bool:
    """Whether two streams touch one block in ways that do not commute."""
    for uses in touches.values():
        ways = {way for _, way in uses}
        if len({stream for stream, _ in uses}) > 1 and ways not in ({"r"}, {"a"}):
            return True
    return False


def _embedded(parent: Touches, child: Touches, which: str, number: int) -> Touches:
    """What a graph touches with another one embedded in it, beside its nodes or after them."""
    found: Touches = {}
    if which == "leaves":
        # One comes after the other, so that only each by itself can race.
        for uses_by_block in (parent, child):
            for block, uses in uses_by_block.items():
                found.setdefault(block, set()).update((f"line {number}", way) for _, way in uses)
        if races(parent) or races(child):
            found[_RACING] = {("one", "w"), ("other", "w")}
        return found
    for block, uses in parent.items():
        found[block] = set(uses)
    for block, uses in child.items():
        found.setdefault(block, set()).update((f"child {number} {s}", way) for s, way in uses)
    return found


class Races:
    """Follows the captured work of one program.

    Attributes:
        happened: whether a graph that races with itself has been launched.
    """

    def __init__(self) -> None:
        self.happened = False
        self._captures: dict[str, Touches] = {}
        self._graphs: dict[str, Touches] = {}
        self._executables: dict[str, Touches] = {}
        self._children = 0

    def follow(self, call: Call, stream: str, before: str, after: str) -> None:
        """Take a successful call into account; `before` and `after` label the stream's capture."""
        name = call[0]
        if name == "begin_to_graph":
            # The graph and the capture share one record, whatever the graph is called later.
            touches = self._graphs.setdefault(call[3], {})
            _relabel(touches)
            self._captures[after] = touches
        elif name == "end":
            self._graphs[call[3]] = self._captures.pop(before, {})
        elif name == "add_child":
            self._children += 1
            parent, child = self._graphs.setdefault(call[2], {}), self._graphs.get(call[3], {})
            grown = _embedded(parent, child, call[4], self._children)
            parent.clear()
            parent.update(grown)  # in place: a capture may be adding to the same graph
        elif name == "instantiate":
            self._executables[call[3]] = _copied(self._graphs.get(call[2], {}))
        elif name == "update":
            self._executables[call[2]] = _copied(self._graphs.get(call[3], {}))
        elif name == "set_params":
            touches = _copied(self._executables.get(call[2], {}))
            _add(touches, "set", call)
            self._executables[call[2]] = touches
        elif name == "graph_launch":
            self.happened = self.happened or races(self._executables.get(call[2], {}))
        elif before.startswith("A"):
            _add(self._captures.setdefault(before, {}), stream, call)


def _copied(touches: Touches) -> Touches:
    return {block: set(uses) for block, uses in touches.items()}


def _relabel(touches: Touches) -> None:
    """Tell the streams so far apart from streams of the same names later on."""
    for block, uses in touches.items():
        touches[block] = {(f"earlier {stream}", way) for stream, way in uses}


def _add(touches: Touches, stream: str, call: Call) -> None:
    for block, way in touched(call):
        touches.setdefault(block, set()).add((stream, way))
