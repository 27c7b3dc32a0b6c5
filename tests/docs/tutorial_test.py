#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md on the simulated device, in an empty folder, and compares what they print
with the page.

  tutorial_test.py --build BUILD --nvcc NVCC [--page FILE]        77: the simulated device is not built

A fenced block counts that has one of these markers in the line before it:
  <!-- tutorial: file NAME -->   the block becomes this file
  <!-- tutorial: run -->         a line "$ COMMAND" is given to one shell; the lines up to the next one must be its
                                 output
In an output each PLACEHOLDER stands for what varies, and any room between words is as good as another.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
LIMIT_SECONDS = 100
BLOCK = re.compile(r"^<!-- tutorial: (\w+) ?(\S*) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"^<!-- tutorial", re.MULTILINE)
PLACEHOLDER = {"<N>": r"\d+", "<COUNT>": r"[1-9]\d*", "<TIME>": r"\d+\.\d+(?: ?(?:ns|us|ms|s))?",
               "<PATH>": r"\S+", "<WORD>": r"\S+", "<ANY>": r".*"}
END = "--- end of command"


def pattern(line):
    """A regular expression of a line of the page."""
    parts = re.split("(" + "|".join(PLACEHOLDER) + r"|\s+)", line.strip())
    return "".join(PLACEHOLDER.get(part, r"\s+" if part.isspace() else re.escape(part)) for part in parts)


def differences(command, expected, printed):
    """What is wrong with the output of a command, as text; "" if nothing is."""
    if len(expected) == len(printed) and all(
            re.fullmatch(pattern(wanted), got.strip()) for wanted, got in zip(expected, printed)):
        return ""
    return "\n".join([f"$ {command}", *(f"  page:    {line}" for line in expected),
                      *(f"  printed: {line}" for line in printed)])


def steps(body):
    """The (command, lines of output) of a block."""
    found = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def read(page, folder):
    """Writes the page's files; its commands."""
    blocks = BLOCK.findall(page)
    assert len(blocks) == len(MARKER.findall(page)), "a marker without a fenced block behind it"
    commands = []
    for kind, name, body in blocks:
        assert kind in ("file", "run"), kind
        if kind == "file":
            (folder / name).write_text(body)
        else:
            commands += steps(body)
    return commands


def run(commands, folder, environ):
    """What one shell prints for each command, as lists of lines; fewer where it ended before, or took too long."""
    script = "exec 2>&1 </dev/null\n" + "".join(f"{command}\necho '{END}'\n" for command, _ in commands)
    (folder / ".script").write_text(script)
    process = subprocess.Popen(["bash", ".script"], cwd=folder, env=environ, stdout=subprocess.PIPE, text=True,
                               start_new_session=True)
    timed_out = False
    try:
        printed, _ = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        timed_out = True
    try:
        os.killpg(process.pid, signal.SIGKILL)  # what a command left behind in the background
    except ProcessLookupError:
        pass
    if timed_out:
        printed, _ = process.communicate()
    return [part.strip("\n").splitlines() for part in printed.split(END + "\n")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--nvcc", type=pathlib.Path, required=True)
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/tutorial.md")
    options = parser.parse_args()
    build = options.build.resolve()
    if not (build / "lib/sim/libcuda.so.1").exists():
        print("the simulated device is not built")
        return SKIPPED
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CUPOLA", "LD_"))}
    environ["PATH"] = f"{build}/bin:{options.nvcc.parent}:{environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="tutorial-") as temporary:
        folder = pathlib.Path(temporary)
        environ["CUPOLA_SIM_TOKEN"] = f"{folder}/.device"  # shared with no other test
        commands = read(options.page.read_text(), folder)
        printed = run(commands, folder, environ)
    wrong = [text for (command, expected), lines in zip(commands, printed)
             if (text := differences(command, expected, lines))]
    if len(printed) <= len(commands):
        wrong.append(f"no end of: $ {commands[len(printed) - 1][0]}")
    print("\n".join(wrong) or f"{len(commands)} commands print what the page says")
    return 1 if wrong or len(commands) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
