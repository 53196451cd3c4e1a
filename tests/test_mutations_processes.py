"""Cases that start other processes: nobody hears what is entered there."""

import subprocess
import sys
from pathlib import Path

import pytest

import capturegate_mutations
from capturegate.run.plan import expand, load
from capturegate_mutations.prepare import prepare
from capturegate_mutations.reach import reached
from capturegate_mutations.reader import load_plans


@pytest.mark.parametrize(
    ("work", "heard"),
    [
        ("os.waitpid(os.fork() or os._exit(0), 0)", ["*"]),
        ("subprocess.run(['true'])", ["*"]),
        ("sorted([2, 1])", []),
    ],
)
def test_a_case_that_starts_another_process_may_have_entered_anything(work, heard):
    program = (
        "import os, subprocess\n"
        "from capturegate_mutations.child import mark_other_processes\n"
        f"hits = set(); mark_other_processes(hits); {work}; print(sorted(hits))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str(heard), done.stderr


def test_every_mutant_reaches_a_case_that_may_have_entered_anything():
    cases = expand(load(()), "fake")
    plans = Path(capturegate_mutations.__file__).parent / "plans"
    path = plans / "seed/step-boundary-removed.mutation.yaml"
    [plan] = load_plans([path], [case.name for case in cases])
    mutant = prepare(plan, cases)
    nothing = {case.name: frozenset() for case in cases}
    assert reached(plan, mutant, nothing) == ()
    anything = nothing | {cases[0].name: frozenset({"*"})}
    assert reached(plan, mutant, anything) == (cases[0],)
