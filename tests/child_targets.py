"""Targets for the tests of zygote and pool, plugged in by an entry point that a test writes."""

import ctypes
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from capturegate.errors import InputError

LOADED_IN = os.getpid()
SWITCH_AT_IMPORT = os.environ.get("CAPTUREGATE_TEST_SWITCH", "unset")


def behave(request):
    return getattr(sys.modules[__name__], f"_{request['do']}")(request)


def _echo(request):
    return {"said": request["say"]}


def _generate(request):
    """What an engine that generates code does: a module of its own, made anew for each case."""
    folder = Path(request["folder"])
    folder.mkdir(exist_ok=True)
    module = folder / "generated_today.py"
    module.write_text(f"VALUE = {request['value']}\n")
    os.utime(module, (1_700_000_000, 1_700_000_000))
    sys.path.insert(0, str(folder))
    return {"value": importlib.import_module("generated_today").VALUE}


def _draw(request):
    import numpy as np

    return {"drawn": np.random.random()}


def _cached(request):
    return {"cached": importlib.import_module(request["module"]).__spec__.cached}


def _environment(request):
    return {
        "switch": SWITCH_AT_IMPORT,
        "own": sorted(name for name in os.environ if name.startswith("CAPTUREGATE_")),
        "blas": os.environ["OPENBLAS_NUM_THREADS"],
        "kept": os.environ.get("SOME_OTHER", ""),
    }


def _where(request):
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "loaded_in": LOADED_IN,
        "modules": sorted(sys.modules),
    }


def _import(request):
    __import__(request["module"])
    return {"module": request["module"]}


def _print(request):
    print("from print")
    os.write(1, b"from descriptor 1\n")
    sys.stderr.write("from stderr\n")
    return {"printed": True}


def _print_and_raise(request):
    _print(request)
    raise ValueError("after printing")


def _shout(request):
    os.write(1, b"x" * 500_000 + b"the end")
    os._exit(3)


def _mistake(request):
    raise InputError("bad", where="f.yaml:1:2", expected="good", hint="do")


def _leave(request):
    sys.exit("I leave")


def _exit(request):
    os._exit(request["code"])


def _crash(request):
    os.kill(os.getpid(), signal.SIGSEGV)


def _null(request):
    ctypes.string_at(0)


def _hang(request):
    pids = [os.getpid()]
    if not request.get("alone"):
        # A grandchild in the same group: it has to go as well.
        code = "import signal; signal.pause()"
        pids.append(subprocess.Popen([sys.executable, "-c", code]).pid)
    pids.append(os.getppid())
    # Renamed into place: who sees the file sees all of it.
    note = Path(request["note"])
    part = note.with_suffix(".part")
    part.write_text(" ".join(map(str, pids)))
    part.rename(note)
    _wait()


def _wait():
    while True:
        signal.pause()


def _huge(request):
    frame_header = (1 << 31).to_bytes(4, "big")
    for fd in range(3, 64):
        try:
            os.write(fd, frame_header)
        except OSError:
            continue
    _wait()


def _large(request):
    return {"text": "y" * request["nbytes"]}


def _not_json(request):
    return {"value": object()}


class _Broken:
    def write(self, text):
        return len(text)

    def flush(self):
        raise SystemExit("the stream is broken")


def _break_streams(request):
    sys.stdout, sys.stderr = None, _Broken()
    return {"broken": True}


def _fork(request):
    os.fork()
    return {"forked": True}


def _daemon(request):
    """Leave a process in a session of its own, whose parent has ended."""
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    start = (
        "import subprocess\n"
        f"left = subprocess.Popen({command!r}, start_new_session=True, stdout=subprocess.DEVNULL)\n"
        "print(left.pid, flush=True)\n"
        "left.returncode = 0\n"
    )
    started = subprocess.run([sys.executable, "-c", start], stdout=subprocess.PIPE, check=True)
    Path(request["note"]).write_bytes(started.stdout)
    if request["then"] == "hang":
        _wait()
    if request["then"] == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"left": True}


def _noop(request):
    return {}
