#!/usr/bin/env python3
"""Runs one example on the simulated device, as a user does: it must end well, say in its last line what was seen, and
leave nothing behind. The example itself checks the facts that it names.

  run_example.py NAME --build BUILD --nvcc NVCC       77: the example says that it cannot run here
"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
LIMIT_SECONDS = 100
README_LINES = 12


def run(script, environ):
    """The script's exit code and what it and its programs say. Past the limit all of them are ended."""
    process = subprocess.Popen([script], env=environ, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        said += f"(ended after {LIMIT_SECONDS} s)\n"
    return process.returncode, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--nvcc", required=True)
    options = parser.parse_args()
    folder = ROOT / "examples" / options.name
    lines = (folder / "README.md").read_text().splitlines()
    assert len(lines) <= README_LINES, f"README.md has {len(lines)} lines"
    if not (options.build / "lib/sim/libcuda.so.1").exists():
        print("the simulated device is not built")
        return SKIPPED

    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CUPOLA", "LD_"))}
    with tempfile.TemporaryDirectory(prefix="examples-") as temporary:
        environ.update(CUPOLA=str(options.build.resolve() / "bin/cupola"), NVCC=options.nvcc, DEVICE="sim",
                       TMPDIR=temporary)
        code, said = run(folder / "run.sh", environ)
        left = os.listdir(temporary)
    print(said, end="")
    last = said.splitlines()[-1] if said else ""
    if code == SKIPPED and last.startswith("skipped: "):
        return SKIPPED
    assert code == 0, f"exit code {code}"
    assert last.startswith("seen: "), "the last line does not say what was seen"
    assert not left, f"left behind: {left}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
