import os
import py_compile
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from capturegate.run.pool import Pool, Task
from waiting import wait_for, wait_for_file, wait_until_gone

TESTS = Path(__file__).parent


@pytest.fixture(autouse=True)
def _targets(tmp_path, monkeypatch):
    info = tmp_path / "plugged-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[capturegate.child_targets]\nbehave = child_targets:behave\n"
    )
    monkeypatch.syspath_prepend(str(TESTS))
    monkeypatch.syspath_prepend(str(tmp_path))


def task(do, *, env=None, spawn=False, time_limit_s=60.0, absent=(), preload=(), **arguments):
    return Task(
        target="behave",
        request={"do": do, **arguments},
        env=env or {},
        spawn=spawn,
        absent=absent,
        preload=preload,
        time_limit_s=time_limit_s,
    )


def call(do, **options):
    with Pool(workers=1) as pool:
        return pool.call(task(do, **options))


both_ways = pytest.mark.parametrize("spawn", [False, True], ids=["forked", "spawned"])


@both_ways
def test_a_child_answers(spawn):
    answer = call("echo", say="hé", spawn=spawn)
    assert (answer.value, answer.fate, answer.error) == ({"said": "hé"}, "answered", "")


ENGINE = """
class Engine:
    verbs = counters = predicates = {}

    def __init__(self, *arguments):
        pass
"""


def test_what_describes_an_engine_compiles_it_for_all_children(tmp_path, monkeypatch):
    (tmp_path / "engine_of_today.py").write_text(ENGINE)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    describe = Task(target="describe", request={"engine": "engine_of_today:Engine"}, env={})
    with Pool(workers=1) as pool:
        before = Path(pool.call(task("cached", module="engine_of_today")).value["cached"])
        assert not before.exists()
        pool.call(describe)
        assert before.is_file()
        after = pool.call(task("cached", module="engine_of_today", spawn=True)).value["cached"]
        assert after == str(before)
    assert not before.exists()
    assert list(tmp_path.rglob("*.pyc")) == []


@both_ways
def test_what_an_engine_generates_is_compiled_anew_for_each_case(tmp_path, spawn):
    with Pool(workers=1) as pool:
        made = [
            pool.call(task("generate", folder=str(tmp_path / "made"), value=n, spawn=spawn)).value
            for n in (1, 2)
        ]
    assert made == [{"value": 1}, {"value": 2}]


def test_forks_do_not_draw_the_same_numbers():
    with Pool(workers=1) as pool:
        first, second = (pool.call(task("draw")).value for _ in range(2))
    assert first != second


@both_ways
def test_bytecode_that_lies_beside_the_sources_is_not_believed(tmp_path, spawn):
    source = tmp_path / "engine_of_today.py"
    source.write_text("raise SystemExit('stale')\n")
    py_compile.compile(str(source))
    then = source.stat()
    source.write_text("VALUE = 1 #34567890123456\n")
    assert source.stat().st_size == then.st_size
    os.utime(source, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert call("cached", module="engine_of_today", spawn=spawn).error == ""


def test_every_task_is_answered_once_and_under_its_ticket():
    with Pool(workers=2) as pool:
        said = {pool.submit(task("echo", say=n)): n for n in range(20)}
        answers = list(pool.answers())
    assert sorted(said) == sorted(ticket for ticket, _ in answers)
    assert said == {ticket: answer.value["said"] for ticket, answer in answers}


def test_tasks_submitted_while_answers_are_read_are_answered_too():
    seen = []
    with Pool(workers=2) as pool:
        pool.submit(task("echo", say=3))
        for _, answer in pool.answers():
            seen.append(answer.value["said"])
            if answer.value["said"]:
                pool.submit(task("echo", say=answer.value["said"] - 1))
    assert seen == [3, 2, 1, 0]


def test_each_task_has_a_process_of_its_own_under_one_zygote():
    with Pool(workers=2) as pool:
        for _ in range(3):
            pool.submit(task("where"))
        places = [answer.value for _, answer in pool.answers()]
        assert [place["parent"] for place in places] == pool.zygote_pids * 3
    assert len({place["pid"] for place in places}) == 3
    assert {place["loaded_in"] for place in places} == {places[0]["parent"]}


def test_a_spawned_child_loads_everything_itself():
    place = call("where", spawn=True).value
    assert place["pid"] == place["loaded_in"]


def test_a_zygote_has_numpy_and_yaml_but_no_backend_and_no_engine():
    modules = set(call("where").value["modules"])
    assert {"numpy", "yaml"} <= modules
    packages = {name.split(".")[0] for name in modules}
    assert set() == packages & {"capturegate_reference", "capturegate_backends", "cupy", "cuda"}


def test_our_switches_are_scrubbed_and_the_lanes_are_set_before_the_import(monkeypatch):
    monkeypatch.setenv("CAPTUREGATE_TEST_SWITCH", "from the parent")
    monkeypatch.setenv("CAPTUREGATE_OTHER", "1")
    monkeypatch.setenv("SOME_OTHER", "kept")
    plain = call("environment").value
    assert plain == {"switch": "unset", "own": [], "blas": "1", "kept": "kept"}
    lane = call("environment", env={"CAPTUREGATE_TEST_SWITCH": "lane"}).value
    assert (lane["switch"], lane["own"]) == ("lane", ["CAPTUREGATE_TEST_SWITCH"])


def test_lanes_have_zygotes_of_their_own():
    with Pool(workers=2) as pool:
        for value in ("a", "b", "a"):
            pool.submit(task("environment", env={"CAPTUREGATE_TEST_SWITCH": value}))
        switches = sorted(answer.value["switch"] for _, answer in pool.answers())
        assert len(pool.zygote_pids) == 2
    assert switches == ["a", "a", "b"]


def test_a_fork_is_refused_when_the_zygote_has_what_the_child_wants_to_load():
    answer = call("echo", say=1, absent=("json", "no_such_package"), preload=("json.tool",))
    assert (answer.fate, answer.value) == ("not started", None)
    assert "UncleanZygoteError: loaded before the fork: json, json.decoder" in answer.error


def test_what_a_child_loads_does_not_reach_the_zygote():
    with Pool(workers=1) as pool:
        assert pool.call(task("import", module="colorsys")).fate == "answered"
        assert pool.call(task("echo", say=1, absent=("colorsys",))).fate == "answered"


@both_ways
def test_output_does_not_disturb_the_answer_and_is_kept(spawn):
    answer = call("print", spawn=spawn)
    assert answer.value == {"printed": True}
    lines = sorted(answer.output.splitlines())
    assert lines == ["from descriptor 1", "from print", "from stderr"]


@both_ways
def test_what_a_target_raises_is_told_with_its_trace_and_output(spawn):
    answer = call("print_and_raise", spawn=spawn)
    assert (answer.fate, answer.error) == ("raised", "ValueError: after printing")
    assert "in _print_and_raise" in answer.trace
    assert "from descriptor 1" in answer.output


def test_only_the_last_64_kib_of_output_are_kept():
    answer = call("shout")
    assert (answer.fate, len(answer.output)) == ("exit", 65536)
    assert answer.output.endswith("xthe end")


def test_the_users_mistake_crosses_the_pipe_whole():
    error = call("mistake").input_error
    assert str(error) == "f.yaml:1:2: bad\n  expected: good\n  help: do"


def test_an_engine_that_calls_sys_exit_is_heard():
    answer = call("leave")
    assert (answer.fate, answer.error) == ("raised", "SystemExit: I leave")


@both_ways
@pytest.mark.parametrize("code", [0, 7])
def test_a_child_that_exits_without_an_answer_is_told(spawn, code):
    answer = call("exit", code=code, spawn=spawn)
    said = f"the process exited with code {code} and without an answer"
    assert ("exit", said, None) == (answer.fate, answer.error, answer.value)


@both_ways
@pytest.mark.parametrize("how", ["crash", "null"])
def test_a_child_that_crashes_is_told_with_its_signal(spawn, how):
    answer = call(how, spawn=spawn)
    assert (answer.fate, answer.error) == ("signal", "the process died by SIGSEGV")


def test_a_target_that_nobody_plugged_in_is_not_started():
    with Pool(workers=1) as pool:
        answer = pool.call(Task(target="nonsense", request={}))
    assert answer.fate == "not started"
    assert "no target 'nonsense' for a child process" in answer.error


def test_an_answer_that_is_not_json_is_an_error_of_its_target():
    answer = call("not_json")
    assert (answer.fate, answer.value) == ("raised", None)
    assert "TypeError" in answer.error


def test_an_answer_with_an_impossible_length_is_refused_and_the_child_killed():
    answer = call("huge")
    said = "the answer was larger than a pipe frame may be"
    assert ("oversized", said) == (answer.fate, answer.error)


def test_requests_and_answers_larger_than_pipes_pass_both_ways():
    with Pool(workers=4) as pool:
        sizes = {
            pool.submit(task("large", nbytes=n, ballast="z" * 300_000)): n
            for n in (900_000, 800_000, 700_000, 600_000, 500_000, 400_000)
        }
        answered = {ticket: len(answer.value["text"]) for ticket, answer in pool.answers()}
    assert sizes == answered


@both_ways
def test_a_child_past_its_time_limit_is_killed(spawn, tmp_path):
    answer = call("hang", note=str(tmp_path / "note"), spawn=spawn, time_limit_s=0.2)
    assert (answer.fate, answer.error) == ("timeout", "still running after 0.2 s, and killed")


def test_the_group_of_a_child_past_its_time_limit_goes_with_it(tmp_path):
    note = tmp_path / "note"
    assert call("hang", note=str(note), time_limit_s=5.0).fate == "timeout"
    for pid in map(int, note.read_text().split()):
        wait_until_gone(pid)


def test_the_next_task_runs_after_a_crash():
    with Pool(workers=1) as pool:
        pool.submit(task("crash"))
        pool.submit(task("echo", say="still here"))
        assert [answer.fate for _, answer in pool.answers()] == ["signal", "answered"]


def test_a_preload_that_cannot_be_imported_is_told_with_what_the_zygote_said():
    answer = call("echo", say=1, preload=("no_such_module_at_all",))
    assert answer.fate == "lost"
    assert "ended before it was ready" in answer.error
    assert "No module named 'no_such_module_at_all'" in answer.output


def test_closing_the_pool_ends_children_that_still_run(tmp_path):
    note = tmp_path / "note"
    with Pool(workers=1) as pool:
        pool.submit(task("hang", note=str(note)))
        wait_for_file(note)
    for pid in map(int, note.read_text().split()):
        wait_until_gone(pid)


@both_ways
def test_killing_the_zygote_leaves_no_process_and_the_next_task_has_a_new_one(spawn, tmp_path):
    note = tmp_path / "note"
    with Pool(workers=1) as pool:
        pool.submit(task("hang", note=str(note), spawn=spawn))
        wait_for_file(note)
        child, grandchild, _ = map(int, note.read_text().split())
        (zygote,) = pool.zygote_pids
        os.kill(zygote, signal.SIGKILL)
        ((_, answer),) = pool.answers()
        assert answer.fate == "lost"
        assert "ended after it was ready (exit code -9)" in answer.error
        for pid in (child, grandchild, zygote):
            wait_until_gone(pid)
        assert pool.call(task("echo", say=2)).value == {"said": 2}


_PARENT = """
import sys
sys.path[:0] = {path!r}
from capturegate.run.pool import Pool, Task
pool = Pool(workers=1)
pool.submit(Task(target="behave", request={request!r}, spawn={spawn!r}))
list(pool.answers())
"""


@both_ways
def test_killing_the_parent_leaves_no_process_and_no_bytecode(spawn, tmp_path):
    note = tmp_path / "note"
    request = {"do": "hang", "note": str(note)}
    script = _PARENT.format(path=sys.path[:2], request=request, spawn=spawn)
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", script], env=env)
    wait_for_file(note)
    assert list(tmp_path.glob("capturegate-*"))
    parent.kill()
    parent.wait()
    for pid in map(int, note.read_text().split()):
        wait_until_gone(pid)
    wait_for(lambda: not list(tmp_path.glob("capturegate-*")))


def test_a_child_dies_with_its_zygote_even_when_the_parent_is_dead(tmp_path):
    note = tmp_path / "note"
    request = {"do": "hang", "note": str(note), "alone": True}
    script = _PARENT.format(path=sys.path[:2], request=request, spawn=False)
    # Nobody is left who could clear away what was compiled.
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", script], env=env)
    wait_for_file(note)
    child, zygote = map(int, note.read_text().split())
    # Stopped, the zygote cannot notice that its parent has gone.
    os.kill(zygote, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    os.kill(zygote, signal.SIGKILL)
    for pid in (zygote, child):
        wait_until_gone(pid)


@both_ways
def test_an_engine_that_breaks_the_standard_streams_keeps_its_answer(spawn):
    answer = call("break_streams", spawn=spawn)
    assert (answer.fate, answer.value) == ("answered", {"broken": True})


@both_ways
def test_a_copy_that_an_engine_forked_does_not_answer_for_it(spawn):
    answer = call("fork", spawn=spawn)
    assert (answer.fate, answer.value) == ("answered", {"forked": True})


@both_ways
@pytest.mark.parametrize(
    ("then", "fate"), [("return", "answered"), ("crash", "signal"), ("hang", "timeout")]
)
def test_a_process_in_a_session_of_its_own_is_killed_and_told(spawn, then, fate, tmp_path):
    note = tmp_path / "note"
    with Pool(workers=1) as pool:
        limit_s = 3.0 if then == "hang" else 60.0
        asked = task("daemon", note=str(note), then=then, spawn=spawn, time_limit_s=limit_s)
        answer = pool.call(asked)
        wait_until_gone(int(note.read_text()))
        assert pool.call(task("echo", say=1)).left == ()
    assert answer.fate == fate
    (left,) = answer.left
    assert left.endswith("-c import signal; signal.pause()")


def test_closing_the_pool_ends_what_a_running_child_left_in_a_session_of_its_own(tmp_path):
    note = tmp_path / "note"
    with Pool(workers=1) as pool:
        pool.submit(task("daemon", note=str(note), then="hang"))
        wait_for(lambda: note.exists() and note.read_text().endswith("\n"))
    wait_until_gone(int(note.read_text()))


@pytest.mark.parametrize(
    "env",
    [{"PYTHONHOME": "/nowhere"}, {"LARGE": "x" * 300_000}, {"ODD": "a\0b"}],
    ids=["no library", "too large", "NUL"],
)
def test_an_environment_that_keeps_python_from_starting_is_told_as_such(env):
    with Pool(workers=1) as pool:
        assert pool.call(task("echo", say=1)).fate == "answered"
        answer = pool.call(task("echo", say=2, env=env))
        said = f"Python does not start in this environment: {next(iter(env))}"
        assert ("unstartable", said) == (answer.fate, answer.error)
        assert pool.call(task("echo", say=3)).value == {"said": 3}
