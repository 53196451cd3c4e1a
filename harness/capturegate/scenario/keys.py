"""The words of a scenario file: its keys, and what names may look like."""

from __future__ import annotations

import re

SCENARIO_KEYS = frozenset(
    {"scenario", "about", "origin", "engine", "config", "arms", "lanes", "steps", "gates"}
)
REQUIRED_KEYS = ("scenario", "about", "engine", "steps")
STEP_KEYS = frozenset({"check", "id", "only", "require", "times"})
"""The keys of a step that are not arguments of its verb."""
ARM_KEYS = frozenset({"expect", "raises"})
"""The keys of an arm that are not overrides of the configuration."""
EXPECT_KEYS = frozenset({"verdict", "witness"})
LANE_KEYS = frozenset({"env", "judged_in", "reason", "skip_if"})

TIMES_MAX = 1_000_000
ARMS_OR_LANES = "names of arms, or of lanes, of this file"

# Names go into `scenario[lane/arm]@backend` and onto command lines.
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
NAME_SPELLED = "small letters, digits, '-', '_' and '.'"
ENGINE = re.compile(r"[A-Za-z_][\w.-]*(:[A-Za-z_][\w.]*)?")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORD_SPELLED = "letters, digits and '_', no digit first"
