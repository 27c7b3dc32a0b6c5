#!/usr/bin/env python3
"""Counts the files that one launch enters: pairs of a header and a source of intercept/ with a function that the launching
thread runs in one preemptible cuLaunchKernel, inlined functions too. The thread has made the same launch many times.

  launch_files.py --build DIR [--most N] [--list]

Builds the library once more with a call at the entry of each function (target launch_files), and runs a program under it
on the simulated device, with a board and its variants. Exit code 1: more than N (default 14); 77: something that it
needs cannot be built.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/preempt"))
import pestered_board  # noqa: E402

NOT_POSSIBLE_HERE = 77
PROGRAM = "tests/preempt/preempt_app"


def traced_launch(build, folder):
    """Addresses of the functions, from a run whose launches are preemptible."""
    library = os.path.join(build, "tests/tree/libcupola_traced.so")
    store, trace = os.path.join(folder, "store"), os.path.join(folder, "trace")
    program = os.path.join(build, PROGRAM)
    subprocess.run([os.path.join(build, "bin/cupola"), "build", "--quiet", "--store", store, program], check=True,
                   stdout=subprocess.DEVNULL)
    board = pestered_board.Board(folder)
    environ = {**os.environ, "LD_PRELOAD": library, "CUPOLA_DRIVER": os.path.join(build, "lib/sim/libcuda.so.1"),
               "LD_LIBRARY_PATH": os.path.join(build, "lib/sim"), "CUPOLA_STORE": store, "CUPOLA_BOARD": board.path,
               "CUPOLA_PREEMPT": "always", "CUPOLA_LAUNCH_TRACE": trace, "CUPOLA_LOG": "info"}
    done = subprocess.run([program, "in-a-row", "non-blocking"], env=environ, capture_output=True, text=True, timeout=120)
    if done.returncode != 0 or not os.path.exists(trace):
        raise SystemExit(f"launch_files: the program ended with {done.returncode}, without a trace:\n{done.stderr}")
    if not re.search(r"[1-9]\d* launches preemptible", done.stderr):
        raise SystemExit(f"launch_files: no launch was preemptible:\n{done.stderr}")
    with open(trace) as file:
        return os.path.join(build, "tests/tree/libcupola_traced/libcuda.so.1"), file.read().split()


def files_of(library, addresses):
    """{pair of files, without its ending: names of its functions}"""
    out = subprocess.run(["addr2line", "-f", "-C", "-e", library, *("0x" + each for each in addresses)],
                         capture_output=True, text=True, check=True).stdout.splitlines()
    found = collections.defaultdict(set)
    for name, place in zip(out[::2], out[1::2]):
        match = re.search(r"/(intercept/[a-z_/]+)\.(?:h|cpp):", place)
        if match:
            found[match.group(1)].add(re.sub(r"\(.*", "", name))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/dev"))
    parser.add_argument("--most", type=int, default=14)
    parser.add_argument("--list", action="store_true", help="with the functions of each")
    options = parser.parse_args()
    made = subprocess.run(["cmake", "--build", options.build, "--target", "launch_files"], capture_output=True, text=True)
    if made.returncode != 0:
        print("launch_files: the target cannot be built:\n" + made.stdout[-2000:] + made.stderr[-2000:], file=sys.stderr)
        return NOT_POSSIBLE_HERE
    with tempfile.TemporaryDirectory(prefix="cupola-launch-files-") as folder:
        files = files_of(*traced_launch(os.path.abspath(options.build), folder))
    for name in sorted(files):
        print(name + (": " + ", ".join(sorted(files[name])) if options.list else ""))
    print(f"{len(files)} files are entered by one preemptible launch; {options.most} are allowed")
    return 1 if len(files) > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
