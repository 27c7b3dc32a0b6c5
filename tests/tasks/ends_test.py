#!/usr/bin/env python3
"""How programs with tasks in flight end (task_ends.cu): killed, forked, by exit(), and with a
MasterKernel that is asked to leave; and that a program behind a killed one finds all well.

  ends_test.py --build DIR [--device gpu] [--json FILE]     77: something that it needs is not built

Prints a line for each run; exit code 1 where one was not as it must be: on a GPU also where a
MasterKernel whose tasks have all begun takes longer to go than LEAVE_US more than they take.
"""
import json
import os
import signal
import subprocess
import sys
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/apps"))
import runner  # noqa: E402
from unmodified_bed import strict, under_cupola  # noqa: E402

# The program is killed when it has printed so many lines: soon after its MasterKernel's launch, and when
# its table has long been full.
KILLED_BEHIND = {"sim": (1, 3), "gpu": (1, 100, 3000)}
SOAK = {"sim": "500", "gpu": "1000000"}
# Rounds, microseconds a task, tasks.
LEAVES = {"sim": (("5", "100", "8"),),
          "gpu": (("1000", "1", "264"), ("1000", "100", "264"), ("300", "1000", "264"))}
# The tasks that are in the table are run first, so for these rounds there is no limit.
QUEUED = {"sim": ("3", "100", "40"), "gpu": ("300", "100", "1056")}
# A MasterKernel that leaves in a hurry leaves these tasks: more than the host puts in while they run.
HURRIES = {"sim": (("3", "100", "100"),), "gpu": (("100", "1000", "8448"), ("50", "2000", "16896"))}
# How much longer than its longest body a MasterKernel that is asked to leave may take, in half of the rounds.
LEAVE_US = 50


class Bed:
    def __init__(self, build, device):
        self.build, self.environ = build, runner.environment(build, device)
        self.folder = os.path.join(build, "apps/tasks")
        self.form = "static" if device == "gpu" else "shared"

    def command(self, name, *arguments):
        program = f"{self.folder}/{name}_{self.form}"
        if not os.path.exists(program):
            raise runner.NotPossible(f"no {program}: build it first")
        return [program, *arguments]

    def run_strictly(self, limit, name, *arguments):
        """The same over a driver that ends programs where a GPU's does (tests/preempt/strict_driver.cpp)."""
        more = strict(self.build, "sim", CUPOLA_TASKS="off")
        result = runner.run([*under_cupola(self.build, "sim", more), *self.command(name, *arguments)],
                            {**self.environ, **more}, limit)
        return self.judge(result)

    def run(self, limit, name, *arguments):
        """Runs a program. Returns what is wrong, or "", and what was printed."""
        return self.judge(runner.run(self.command(name, *arguments), self.environ, limit))

    @staticmethod
    def judge(result):
        text = result["stdout"].decode(errors="replace").strip()
        if result["code"] == 0:
            return "", text
        errors = result["stderr"].decode(errors="replace").strip()[-300:]
        return f"{runner.describe_code(result['code'])} {errors}".strip(), text[-600:]


def kill(bed, lines, limit):
    """Kills a program that puts tasks in, when it has printed `lines` lines."""
    process = subprocess.Popen(bed.command("task_ends", "kill"), env=bed.environ,
                               stdout=subprocess.PIPE, start_new_session=True,
                               preexec_fn=runner.prepare_child)
    too_long = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
    too_long.start()
    try:
        seen = 0
        while seen < lines and process.stdout.readline():
            seen += 1
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return f"alive {limit} s behind SIGKILL", ""
    finally:
        too_long.cancel()
    text = f"killed behind {seen} thousand"
    return ("" if seen == lines and process.returncode == -signal.SIGKILL else
            f"ended too soon: {runner.describe_code(process.returncode)}"), text


def leave(bed, device, arguments):
    """Runs task_ends leave. Times are checked only on a GPU, since those of the simulated device mean nothing."""
    problem, text = bed.run(60, "task_ends", "leave", *arguments)
    return problem or (too_late(text) if device == "gpu" else ""), text


def too_late(text):
    """What is wrong with the last line that task_ends leave has printed, or ""."""
    found = json.loads(text.splitlines()[-1])
    limit = LEAVE_US + found["task_us"]
    if found["p50_us"] <= limit:
        return ""
    return f"gone after {found['p50_us']} us p50, the limit is {limit}"


def in_a_hurry(bed, device, arguments):
    """A MasterKernel that leaves tasks to the next launch."""
    problem, text = bed.run(60, "task_ends", "now", *arguments)
    if problem:
        return problem, text
    if json.loads(text.splitlines()[-1])["left"] == 0:
        return "no task was left to the next launch", text
    return too_late(text) if device == "gpu" else "", text


def runs(bed, device):
    for lines in KILLED_BEHIND[device]:
        yield f"kill {lines}", kill(bed, lines, 60)
        yield f"behind kill {lines}", bed.run(60, "task_soak", SOAK[device])
    for mode in ("fork", "exit"):
        yield mode, bed.run(60, "task_ends", mode)
    yield "behind exit", bed.run(60, "task_soak", SOAK[device])
    for what in ("memory", "capture", "reset"):
        yield f"calls {what}", bed.run(60, "task_calls", what)
    for what in ("after", "polled", "end"):
        yield f"leaving {what}", bed.run(60, "task_leaving", what)
    if device == "sim":
        yield "calls reset, strict", bed.run_strictly(60, "task_calls", "reset")
    for arguments in LEAVES[device]:
        yield " ".join(("leave", *arguments)), leave(bed, device, arguments)
    queued = QUEUED[device]
    yield " ".join(("queued", *queued)), bed.run(60, "task_ends", "queued", *queued)
    for arguments in HURRIES[device]:
        yield " ".join(("now", *arguments)), in_a_hurry(bed, device, arguments)


def main():
    options = runner.parser(__doc__).parse_args()
    found = []
    try:
        bed = Bed(os.path.abspath(options.build), options.device)
        for name, (problem, text) in runs(bed, options.device):
            last = text.splitlines()[-1] if text else ""
            print(f"{name}: {problem or last}", flush=True)
            if problem and text:
                print(text, flush=True)
            found.append({"run": name, "problem": problem, "output": last})
    except runner.NotPossible as reason:
        print(f"ends_test: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    return runner.conclude(found, options.json)


if __name__ == "__main__":
    sys.exit(main())
