"""Call programs: one line of data a call, run alike on every backend."""

from capturegate.programs.generate import generate
from capturegate.programs.interpreter import Runner, run_program
from capturegate.programs.observation import Observation, Seen, first_difference
from capturegate.programs.ops import OPS, Op, check_program
from capturegate.programs.shrink import shrink

__all__ = [
    "OPS",
    "Observation",
    "Op",
    "Runner",
    "Seen",
    "check_program",
    "first_difference",
    "generate",
    "run_program",
    "shrink",
]
