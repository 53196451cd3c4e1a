"""The same program without graphs: what stands in a capture runs when its graph is launched."""

from __future__ import annotations

from capturegate.programs.lines import Line

_ABOUT_GRAPHS = frozenset(
    {
        "is_capturing",
        "info",
        "upload",
        "graph_create",
        "graph_destroy",
        "exec_destroy",
        "nodes",
    }
)


class Eager:
    """Turns calls with captures into calls without."""

    def __init__(self) -> None:
        self._open: dict[str, list[Line]] = {}
        self._recorded: dict[str, list[Line]] = {}

    def due(self, line: Line) -> list[Line]:
        """What to run now in this line's place."""
        name = line.call[0]
        if name == "begin":
            self._open[line.call[2]] = []
        elif name == "end":
            self._recorded[line.call[3]] = self._open.pop(line.call[2], [])
        elif name == "add_child":
            parent, child = (self._recorded.get(graph, []) for graph in line.call[2:4])
            self._recorded[line.call[2]] = [*parent, *child]
        elif name == "instantiate":
            self._recorded[line.call[3]] = self._recorded.get(line.call[2], [])
        elif name == "graph_launch":
            return self._recorded.get(line.call[2], [])
        elif name not in _ABOUT_GRAPHS:
            if not self._open:
                return [line]
            for lines in self._open.values():
                lines.append(line)
        return []
