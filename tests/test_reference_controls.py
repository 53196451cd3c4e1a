"""Every shipped scenario has a control: an arm of its own, or a scenario that the page names."""

import re
from collections import Counter
from pathlib import Path

from capturegate.run.plan import load

PAGE = (Path(__file__).parent.parent / "docs/reference-engine.md").read_text()


def rows():
    """The scenarios of each row of the table, and the control of the row."""
    table = PAGE.split("## Controls", 1)[1].split("\n## ", 1)[0]
    cells = [line.split("|")[1:4] for line in table.splitlines() if line.startswith("| `")]
    names = re.compile(r"`([a-z-]+)`")
    return [(names.findall(first), names.findall(last)) for first, _, last in cells]


def test_every_scenario_without_a_second_arm_has_a_control_on_the_page():
    shipped = load([])
    single = {s.name for s in shipped if len(s.arms) < 2}
    named = Counter(name for scenarios, _ in rows() for name in scenarios)
    assert dict.fromkeys(single, 1) == dict(named)


def test_a_control_is_one_other_shipped_scenario():
    shipped = {scenario.name for scenario in load([])}
    assert rows()
    for scenarios, controls in rows():
        assert 1 == len(controls), scenarios
        assert controls[0] in shipped - set(scenarios)
