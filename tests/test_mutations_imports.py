"""Who imports whom: what may be loaded before a module is flipped."""

from capturegate_mutations.imports import import_graph, imported_by, importers_of


def test_imports_are_found_in_functions_and_in_every_form():
    text = "import a.b\ndef f():\n    from c import d\n    from . import e\n    from ..g import h\n"

    found = imported_by("p.q.r", text)

    assert {"a", "a.b", "c", "c.d", "p.q", "p.q.e", "p", "p.g", "p.g.h"} == found


def test_importers_are_found_over_any_distance_and_strangers_are_not():
    graph = {"core": set(), "a": {"core"}, "b": {"a"}, "c": {"os"}, "d": {"c", "b"}}

    assert {"core", "a", "b", "d"} == importers_of({"core"}, graph)


def test_the_real_graph_knows_that_the_adapter_of_the_engine_reaches_its_driver():
    names = {f"capturegate_reference.{name}" for name in ("adapters", "engine", "decode", "ladder")}

    reached = importers_of({"capturegate_reference.decode"}, import_graph(names))

    assert names - {"capturegate_reference.ladder"} == reached


def test_a_package_that_is_flipped_reaches_its_modules():
    graph = import_graph({"capturegate.errors", "capturegate.gates.base", "capturegate.gates"})

    assert {"capturegate.gates", "capturegate.gates.base"} == importers_of(
        {"capturegate.gates"}, graph
    )
