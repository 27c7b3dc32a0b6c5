"""Runs programs plain and under Cupola: environments, time-outs, launches in a trace.

Used by scripts/run-apps and by the checks in tests/gpu. Standard library only. `build` is a build
folder, `device` is "sim" or "gpu".
"""
import argparse
import atexit
import ctypes
import glob
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOT_POSSIBLE_HERE = 77


class NotPossible(Exception):
    """Something that a run needs is missing here; the message says what."""


def default_build():
    candidates = [os.path.join(ROOT, "build", name) for name in ("release", "gpu", "dev")]
    return next((path for path in candidates if os.path.isdir(path + "/apps")), candidates[0])


def runtime_folder():
    """The folder of a real libcudart.so.13; "" where the loader knows it, None without one."""
    loader = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    if "libcudart.so.13" in loader:
        return ""
    patterns = ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/x86_64-linux/lib",
                "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
                "/usr/*/python3*/*-packages/nvidia/*/lib"]
    patterns += [os.path.join(path, "nvidia/*/lib") for path in sys.path if path]
    for pattern in patterns:
        for folder in sorted(glob.glob(pattern)):
            if os.path.exists(os.path.join(folder, "libcudart.so.13")):
                return folder
    return None


def private_token():
    """A file for the programs of this process alone to share the simulated device by."""
    path = os.path.join(tempfile.gettempdir(), f"cupola-test-token-{os.getpid()}")
    atexit.register(lambda: os.path.exists(path) and os.unlink(path))
    return path


def parser(text):
    """Arguments of a script that runs programs and says what became of each; `text` is its help."""
    made = argparse.ArgumentParser(description=text,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", default=default_build())
    made.add_argument("--device", choices=["sim", "gpu"], default="sim")
    made.add_argument("--json", help="write the results to this file")
    return made


def conclude(found, path):
    """Writes such a script's results, each {"run", "problem", "output"}, to `path` unless that is None;
    its exit code."""
    if path:
        with open(path, "w") as file:
            json.dump({"runs": found}, file, indent=1)
    return 1 if any(run["problem"] for run in found) else 0


def environment(build, device):
    """The environment of a program that runs plain on `device`, and under `cupola run` too."""
    plain = {key: value for key, value in os.environ.items()
             if not key.startswith("CUPOLA_") and key != "LD_PRELOAD"}
    folder = build + "/lib/sim" if device == "sim" else runtime_folder()
    for name in ("libcuda.so.1", "libcudart.so.13") if device == "sim" else ():
        if not os.path.exists(f"{folder}/{name}"):
            raise NotPossible(f"no {name} of the simulated device in {folder}: build it first")
    if device == "sim":
        plain["CUPOLA_SIM_TOKEN"] = private_token()
        # The context's earlier work may end slowly where many processes share the machine.
        plain["CUPOLA_TASK_PATIENCE_MS"] = "10000"
        # A task or a block that only waits for a processor must not count as one that waits for ever.
        plain["CUPOLA_WAIT_LIMIT_MS"] = "3000"
    if folder:
        plain["LD_LIBRARY_PATH"] = ":".join(filter(None, [folder, plain.get("LD_LIBRARY_PATH")]))
    return plain


def cupola_command(build, device, trace=None):
    """`cupola run` with what goes before the program."""
    command = build + "/bin/cupola"
    if not os.path.exists(command):
        raise NotPossible(f"{command} does not exist: build it first")
    return [command, "run", "--device", device] + (["--trace", trace] if trace else []) + ["--"]


def prepare_child():
    """Runs in the child before exec: no core files, and SIGINT as a terminal's programs have it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


PR_SET_PDEATHSIG = 1  # prctl(2)
LIBC = ctypes.CDLL(None)


def prepare_child_to_end():
    """As prepare_child; the child also does not outlive the thread that waits for it."""
    prepare_child()
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(command, environ, timeout, stdin=b""):
    """Runs to the end or the time-out (seconds). `code` is negative for a signal, or "timeout"."""
    start = time.monotonic()
    process = subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True,
                               preexec_fn=prepare_child_to_end)
    try:
        out, err = process.communicate(stdin, timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        code = "timeout"
    return {"code": code, "stdout": out, "stderr": err, "seconds": time.monotonic() - start}


BUILD_SECONDS = 300  # of programs, however busy the machine; one by itself takes 5


def share_store(build, store):
    """A store that is not there yet becomes the one that all tests of a build tree share: a program's
    variants are built once by each `cupola`, and those of the one before go. Elsewhere (a staged
    folder) each has its own."""
    if not os.path.exists(f"{build}/CMakeCache.txt") or os.path.lexists(store):
        return
    tool = os.stat(f"{build}/bin/cupola")
    stores = os.path.abspath(f"{build}/test_variants")
    shared = f"{stores}/{tool.st_mtime_ns:x}-{tool.st_size:x}"
    if not os.path.isdir(shared):
        os.makedirs(shared, mode=0o700, exist_ok=True)
        for old in set(glob.glob(f"{stores}/*")) - {shared}:
            shutil.rmtree(old, ignore_errors=True)
    os.symlink(shared, store)


def build_variants(build, store, *files):
    """`cupola build` of programs into a variant store: what went wrong, or ""."""
    share_store(build, store)
    built = run([f"{build}/bin/cupola", "build", "--quiet", "--store", store, *files], None,
                BUILD_SECONDS)
    if built["code"] == 0:
        return ""
    said = built["stderr"].decode(errors="replace")
    return f"cupola build: {describe_code(built['code'])} {said[-300:]}"


def describe_code(code):
    if code == "timeout":
        return code
    return f"exit {code}" if code >= 0 else signal.Signals(-code).name


def load_trace(path):
    """The events of a trace, or None where it cannot be read."""
    try:
        with open(path) as file:
            return json.load(file)["traceEvents"]
    except (OSError, ValueError, KeyError):
        return None


def count_launches(events):
    """Launches by kind: kernels run, captured, graphs, the kernels in graphs, failed."""
    if events is None:
        return None
    counts = {"kernels": 0, "captured": 0, "graphs": 0, "graph_kernels": 0, "failed": 0}
    keys = {"kernel": "kernels", "captured": "captured", "graph": "graphs", "failed": "failed"}
    for event in events:
        key = keys.get(event.get("cat"))
        if key is None:
            continue
        counts[key] += 1
        if key == "graphs":
            counts["graph_kernels"] += event["args"]["kernel_nodes"]
    return counts
