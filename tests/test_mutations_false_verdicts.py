"""Whole runs that could tell something false, and what keeps each of them from it."""

from __future__ import annotations

import os
import py_compile
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from capturegate.run.plan import expand, load
from capturegate.run.pool import Pool
from capturegate_mutations import controls, verdict
from capturegate_mutations.batch import Settings
from capturegate_mutations.controls import ControlError
from capturegate_mutations.reader import load_plans
from capturegate_mutations.report.summary import Sheet
from capturegate_mutations.runner import Runner, TreeChanged, prepare_all
from capturegate_mutations.session import Request, Session
from mutation_toys import ADAPTER, CORE, PLAIN, SCENARIO, expecting, replacing, write_toy

FAILED = expecting(PLAIN, work__total="failed")
PROVED = replacing("self.base + amount", "0", FAILED)
INSTRUMENT = replacing(
    "if not window.nodes",
    "if window.nodes",
    expecting(PLAIN, capture_completes="broken"),
    "capturegate.gates.capture_completes:fault_of",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def sheet_of(folder: Path, **fields) -> Sheet:
    scenarios = (folder / "toy.scenario.yaml",)
    return Session(request=Request(plans=(folder / "plans",), scenarios=scenarios, **fields)).run()


def verdicts(sheet: Sheet) -> dict[str, str]:
    return {row.mutation: row.proof.value for row in sheet.rows}


# the controls: no verdict comes before all of them were seen


def test_a_run_whose_canary_survives_has_no_verdict(folder, monkeypatch):
    write_toy(folder, {"proved": PROVED})
    monkeypatch.setattr(controls, "_ALL_RED", dict.fromkeys(controls._ALL_RED, "\n"))

    with pytest.raises(ControlError, match="the canary left toy"):
        sheet_of(folder)


def test_a_run_that_sees_no_change_at_all_has_no_verdict(folder, monkeypatch):
    write_toy(folder, {"proved": PROVED})
    monkeypatch.setattr(verdict, "changed_members", lambda *_: {})

    with pytest.raises(ControlError, match="a red would not be seen"):
        sheet_of(folder)


def test_a_run_in_which_served_code_is_not_what_runs_has_no_verdict(folder, monkeypatch):
    write_toy(folder, {"proved": PROVED})
    monkeypatch.setattr(controls, "_RAISES", "\n")

    with pytest.raises(ControlError, match="a mutant of toy_core that raises on import did not"):
        sheet_of(folder)


def test_a_run_in_which_serving_the_instrument_changes_something_has_no_verdict(folder):
    served = 'hasattr(sys.modules["capturegate.gates.capture_completes"].__loader__, "_served")'
    adapter = ADAPTER.replace("total(amount)}", f"total(amount) + {served}}}")
    write_toy(folder, {"instrument": INSTRUMENT}, toy_adapter=f"import sys\n{adapter}")

    with pytest.raises(ControlError, match=r"the no-op control changed toy\[plain/default\]"):
        sheet_of(folder)


# what a case does to the process that it runs in

SCRUBS = """
import sys

def scrub(name):
    sys.meta_path[:] = [finder for finder in sys.meta_path if not hasattr(finder, "_served")]
    sys.modules.pop(name, None)
    __import__(name)
"""


@pytest.mark.parametrize(
    ("module", "plan", "said"),
    [
        ("toy_core", PROVED, "^the flip was not applied: toy_core was imported from elsewhere"),
        (
            "capturegate.gates.capture_completes",
            INSTRUMENT,
            "the no-op control did not run: the flip was not applied: capturegate.gates",
        ),
    ],
)
def test_a_case_that_brings_the_original_back_leaves_no_verdict(folder, module, plan, said):
    scrub = f"scrub('{module}'); import toy_core\n        self"
    adapter = SCRUBS + ADAPTER.replace("import toy_core\n        self", scrub)
    write_toy(folder, {"flip": plan}, toy_adapter=adapter)

    with pytest.raises(ControlError, match=said):
        sheet_of(folder)


def test_a_case_that_scrubs_what_is_around_it_still_runs_the_mutant(folder):
    scrub = (
        "import importlib, os, sys, toy_core; os.environ.clear(); "
        "importlib.reload(toy_core); del sys.modules['toy_core']; import toy_core"
    )
    adapter = ADAPTER.replace(
        "        import toy_core\n        self", f"        {scrub}\n        self"
    )
    write_toy(folder, {"proved": PROVED}, toy_adapter=adapter)

    assert {"proved": "proved"} == verdicts(sheet_of(folder))


def test_an_environment_that_turns_every_run_red_proves_nothing(folder, monkeypatch):
    core = CORE.replace("return min(", "return 0 if 'TOY_BREAK' in os.environ else min(")
    write_toy(folder, {"proved": PROVED}, toy_core=core)
    monkeypatch.setenv("TOY_BREAK", "1")

    assert {"proved": "baseline-red"} == verdicts(sheet_of(folder))


def test_a_process_that_dies_after_its_answer_has_crashed(folder):
    dying = "import sys; sys.stdout = type('Out', (), {'flush': lambda _: %s})()"
    plans = {
        name: replacing("self.warm(amount)", f"{dying % death}; self.base = 0", FAILED)
        for name, death in (("signal", "os.kill(os.getpid(), 11)"), ("exit", "os._exit(7)"))
    }
    write_toy(folder, plans)

    rows = {row.mutation: row for row in sheet_of(folder).rows}

    assert {"signal": "crash", "exit": "crash"} == {n: r.proof.value for n, r in rows.items()}
    assert "the process died by SIGSEGV" in rows["signal"].reason
    assert "the process exited with code 7" in rows["exit"].reason


# which code it was


def test_modules_of_the_same_base_name_are_not_taken_for_each_other(folder):
    for package in ("one", "two"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text("")
        (folder / package / "part.py").write_text("def part():\n    return 1\n")
    parts = '{"total": self._core.total(amount), "one": one.part.part(), "two": two.part.part()}'
    adapter = "import one.part, two.part\n" + ADAPTER.replace(
        '{"total": self._core.total(amount)}', parts
    )
    plans = {
        name: replacing(
            "return 1", "return 2", expecting(PLAIN, **{f"work__{name}": "failed"}), f"{name}.part"
        )
        for name in ("one", "two")
    }
    scenario = SCENARIO.replace("{total: 5}", "{total: 5, one: 1, two: 1}")
    write_toy(folder, plans, toy_adapter=adapter, toy=scenario)

    assert {"one": "proved", "two": "proved"} == verdicts(sheet_of(folder))


def test_bytecode_that_is_not_of_the_source_is_not_run(folder):
    write_toy(folder, {"proved": PROVED}, toy_core=CORE.replace("range(amount)", "range(0 * 12)"))
    core = folder / "toy_core.py"
    py_compile.compile(str(core))
    before = core.stat()
    core.write_text(CORE)
    os.utime(core, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert before.st_size == core.stat().st_size

    assert {"proved": "proved"} == verdicts(sheet_of(folder))


def write_apart(folder: Path, monkeypatch, plan: str, core: str) -> Path:
    """The toy with its engine in a folder of its own; the folder of its scenario and its plan."""
    proofs, engine = folder / "proofs", folder / "engine"
    proofs.mkdir()
    engine.mkdir()
    monkeypatch.syspath_prepend(str(engine))
    write_toy(proofs, {"flip": plan}, toy_core=core)
    for module in proofs.glob("*.py"):
        module.rename(engine / module.name)
    return proofs


def test_a_kept_verdict_is_taken_only_while_nothing_changed(folder, monkeypatch):
    proofs = write_apart(folder, monkeypatch, PROVED, f"import helper\n{CORE}")
    (folder / "other").mkdir()
    monkeypatch.syspath_prepend(str(folder / "other"))
    (folder / "other" / "helper.py").write_text("")
    (proofs / "data.yaml").write_text("")
    rows = folder / "rows.jsonl"

    def taken_after(change: str, **fields) -> int:
        with (folder / change).open("r+") as file:
            kept = file.read()
            file.write("# another\n")
            file.flush()
            taken = sheet_of(proofs, **fields).taken
            file.seek(0)
            file.truncate(0)
            file.write(kept)
        return taken

    assert 0 == sheet_of(proofs, results=rows).taken
    assert 1 == sheet_of(proofs, resume=rows).taken
    for change in ("engine/toy_core.py", "proofs/data.yaml", "other/helper.py"):
        assert 0 == taken_after(change, resume=rows), change


def test_an_edit_that_is_made_during_the_run_is_still_there_afterwards(folder, monkeypatch):
    core = folder / "engine" / "toy_core.py"
    edit = f'open("{core}", "a").write("# mine"); self.warm(amount)'
    plan = replacing("self.warm(amount)", edit, FAILED)
    proofs = write_apart(folder, monkeypatch, plan, CORE)

    with pytest.raises(TreeChanged, match="tracked files changed during the run"):
        sheet_of(proofs)

    # The oracle's run made it as well.
    assert f"{CORE}# mine# mine" == core.read_text()


def test_a_source_that_changed_after_it_was_flipped_leaves_no_verdict(folder):
    write_toy(folder, {"proved": PROVED})
    cases = expand(load([folder / "toy.scenario.yaml"]), "fake")
    plans = load_plans([folder / "plans/proved.mutation.yaml"], [case.name for case in cases])
    prepared = prepare_all(plans, cases)
    (folder / "toy_core.py").write_text(CORE.replace("range(amount)", "range(2 * amount)"))

    with Pool(workers=1) as pool:
        settings = Settings(seed=0, time_limit_s=30.0)
        runner = Runner(pool=pool, cases=cases, prepared=prepared, settings=settings)
        with pytest.raises(TreeChanged, match=r"toy_core\.py changed after it was flipped"):
            runner.ground()


# a run that is ended in the middle


def gone(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 60)[0])


def test_a_signal_while_a_flip_is_applied_strands_nothing(folder):
    fifo = folder / "applied"
    os.mkfifo(fifo)
    told = f'pipe = open("{fifo}", "w"); pipe.write(str(os.getpid())); pipe.close()'
    applied = f"{told}; import signal; signal.pause()"
    plans = {"blocks": replacing("self.warm(amount)", applied, FAILED), "proved": PROVED}
    write_toy(folder, plans)
    before = {path: path.read_bytes() for path in folder.glob("*.*")}
    path = os.pathsep.join([str(folder), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def start(name: str) -> subprocess.Popen[str]:
        arguments = ["--scenarios", "toy.scenario.yaml", "--quiet", f"plans/{name}.mutation.yaml"]
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "capturegate", "mutate", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            # A child of a shell that runs in the background would not be interrupted.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    codes = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
    for number, code in codes.items():
        with start("blocks") as run:
            child = int(fifo.read_text())
            zygotes = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
            parent = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[1]
            assert parent in zygotes
            handles = [os.pidfd_open(int(pid)) for pid in (child, *zygotes)]
            run.send_signal(number)
            assert ("", code) == (run.communicate()[0], run.returncode)
            assert {True} == {gone(handle) for handle in handles}
        for handle in handles:
            os.close(handle)
        assert before == {path: path.read_bytes() for path in before}

    with start("proved") as again:
        assert "mutations: 1 | 1 proved" in again.communicate()[0]
        assert 0 == again.returncode
