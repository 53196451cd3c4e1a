"""Cases that start other processes: nobody hears what is entered there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import capturegate_mutations
from capturegate.run.plan import expand, load
from capturegate.run.pool import Pool, Task
from capturegate_mutations.prepare import prepare
from capturegate_mutations.reach import reached
from capturegate_mutations.reader import load_plans
from waiting import wait_until_gone


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


def test_a_pool_that_is_closed_lets_its_zygotes_end_by_themselves():
    with Pool(workers=1) as pool:
        pool.call(Task(target="no such target", request={}))
        [zygote] = [zygote.process for zygote in pool._zygotes.values()]
    assert zygote.returncode == 0


COPIED = """
import os, signal
from capturegate.run.pool import Pool, Task
pool = Pool(workers=1)
pool.call(Task(target="no such target", request={}))
copy = os.fork()
if copy:
    print(*pool.zygote_pids, copy, flush=True)
signal.pause()
"""


def test_a_zygote_ends_with_its_parent_though_a_copy_of_the_parent_lives_on():
    with subprocess.Popen([sys.executable, "-c", COPIED], stdout=subprocess.PIPE) as parent:
        zygote, copy = map(int, parent.stdout.readline().split())
        parent.kill()
        try:
            wait_until_gone(zygote)
        finally:
            os.kill(copy, signal.SIGKILL)
