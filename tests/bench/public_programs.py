#!/usr/bin/env python3
"""Public CUDA programs that know nothing of Cupola: what those with short launches gain by default, by tasks and by
batches, and whether others print what they print without Cupola while they are stopped all the time, with every launch
that can be one a task, and with every launch that can be held back in a batch.

  public_programs.py --programs DIR --cupola FILE --out FILE [--rounds N] [--seconds N] [--merge CASES]
     --programs: a folder with the programs of public_programs.json, each named as there. They are not part of Cupola:
         each is built by its own Makefile, with ARCH=sm_90, the static runtime, and at the link loop_timer.o
         and -Xlinker --wrap=NAME for each NAME that loop_timer.c wraps
     --merge: writes the results' numbers into this JSON object too, each under its own key

Times are those of a program's loop, from its first launch to the return of its last wait, medians of rounds by turns:
plain, by default, and once with CUPOLA_BATCHES=off. Narrow is a program whose loop has a launch every 14 us or more
often and is 20 ms long at least; why launches stay plain is what CUPOLA_LOG=info says. Identical: each line of the
output that four plain runs have in common and that names no time, and the exit code. Standard library only.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "preempt"))
import machine  # noqa: E402
import pestered_board  # noqa: E402
import result_file  # noqa: E402

ASKED_EVERY_S = 0.0005
PLAIN_RUNS = 4  # of two, one program in 54 printed the same by chance
MOST_US, LEAST_NS = 14, 20e6
AT_A_TIME = 12  # programs at a time, of those whose output is compared; programs that are timed run alone
TIMES = re.compile(r"(?i)time|second|/s\b|\b[mu]s\b")
BOARDS = "/dev/shm" if os.path.isdir("/dev/shm") else None  # the driver maps it
COUNT = re.compile(r"tasks: (\d+) launches plain: (.*)")
MADE = re.compile(r"tasks: (\d+) launches, (\d+) copies, (\d+) starts")
BATCHED = re.compile(r"batches: (\d+) launches in (\d+) graphs")


class Bed:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.store = os.path.join(folder, "store")

    def build(self, program):
        command = [self.options.cupola, "build", "--quiet", "--store", self.store, "--jobs", "2", self.path(program)]
        try:
            return subprocess.run(command, capture_output=True, timeout=120).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def path(self, program):
        return os.path.join(os.path.abspath(self.options.programs), program)

    def run(self, program, arguments, limit, under=None, folder=None):
        """Makes one run; `under`: additions to the environment under Cupola, or none for a plain run."""
        timer = tempfile.mktemp(dir=self.folder)
        environ = {**os.environ, "LOOP_TIMER": timer}
        command = [self.path(program), *arguments.split()]
        if under is not None:
            command = [self.options.cupola, "run", "--device", "gpu", "--", *command]
            environ.update(CUPOLA_STORE=self.store, CUPOLA_LOG="info", **under)
        row = {"code": "timeout", "stdout": b"", "stderr": ""}
        try:
            done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit,
                                  cwd=folder or self.folder)
            row = {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr.decode(errors="replace")}
        except subprocess.TimeoutExpired:
            pass
        if os.path.exists(timer):
            with open(timer) as file:
                row.update(json.loads(file.readline()))
        return row


def lines_of(row):
    return row["stdout"].decode(errors="replace").splitlines()


def compare(bed, program, arguments):
    """Compares what a program prints: plain, with tasks, and asked to yield all the time."""
    folder, boards = tempfile.mkdtemp(dir=bed.folder), tempfile.mkdtemp(dir=BOARDS)
    row = {"program": program, "arguments": arguments}
    try:
        first, *others = (bed.run(program, arguments, 10, folder=folder) for _ in range(PLAIN_RUNS))
        wanted = lines_of(first)
        if first["code"] == "timeout" or any(first["code"] != other["code"] or len(wanted) != len(lines_of(other))
                                             for other in others):
            return {**row, "left_out": "plain " + ", ".join(str(each["code"]) for each in (first, *others))}
        kept = [i for i, line in enumerate(wanted)
                if not TIMES.search(line) and all(line == lines_of(other)[i] for other in others)]

        def is_same(other):
            lines = lines_of(other)
            return (other["code"] == first["code"] and len(lines) == len(wanted) and
                    all(lines[i] == wanted[i] for i in kept))

        tasks = bed.run(program, arguments, 60, {"CUPOLA_TASKS": "always", "CUPOLA_BATCHES": "off"}, folder)
        batched = bed.run(program, arguments, 60,
                          {"CUPOLA_TASKS_AFTER": "1000000000", "CUPOLA_BATCHES": "always"}, folder)
        board = pestered_board.Board(boards)
        with pestered_board.pestering(board, ASKED_EVERY_S / 2):
            stopped = bed.run(program, arguments, 60, {
                "CUPOLA_TASKS": "off", "CUPOLA_PREEMPT": "always", "CUPOLA_BOARD": board.path,
                "CUPOLA_BOARD_SLOT": "0"}, folder)
        return {**row, "lines": len(kept), "tasks_same": is_same(tasks), "stopped_same": is_same(stopped),
                "batched_same": is_same(batched), "tasks": made_of(tasks)["tasks"],
                "batched": made_of(batched)["batched"], "preemptions": board.preemptions()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(boards, ignore_errors=True)


def made_of(row):
    made, batched = MADE.search(row["stderr"]), BATCHED.search(row["stderr"])
    return {"batched": int(batched[1]) if batched else 0, "graphs": int(batched[2]) if batched else 0,
            "tasks": int(made[1]) if made else 0, "copies": int(made[2]) if made else 0,
            "plain": {why: int(count) for count, why in COUNT.findall(row["stderr"])}}


def time_narrow(bed, listed, rounds, until):
    """Rows of those that are narrow; each round goes through all of them."""
    ways = {"plain": None, "auto": {}, "unbatched": {"CUPOLA_BATCHES": "off"}}
    rows = []
    for program, arguments in listed:
        if time.monotonic() > until:
            break
        first = bed.run(program, arguments, 5)
        if first["code"] != 0 or first.get("ns", 0) < LEAST_NS or first["ns"] > MOST_US * 1e3 * first["launches"]:
            continue
        rows.append({"program": program, "arguments": arguments, "launches": first["launches"],
                     "warps": first["warps"], "ms": {way: [] for way in ways}})
    for turn in range(rounds):
        for row in rows:
            for way, under in ways.items():
                if turn > 0 and (way == "unbatched" or time.monotonic() > until):
                    continue
                done = bed.run(row["program"], row["arguments"], 20, under)
                row["ms"][way].append(done.get("ns", 0) / 1e6)
                if way == "auto":
                    row.update(made_of(done))
    for row in rows:
        medians = {way: statistics.median(times) for way, times in row["ms"].items() if times}
        row.update(rounds=len(row["ms"]["plain"]), ms={way: round(value, 2) for way, value in medians.items()},
                   auto_ratio=round(medians["plain"] / medians["auto"], 3) if medians.get("auto") else 0,
                   unbatched_ratio=round(medians["plain"] / medians["unbatched"], 3) if medians.get("unbatched") else 0)
    return rows


def numbers_of(narrow, compared):
    ran = [row for row in compared if "left_out" not in row]
    ratios = [row["auto_ratio"] for row in narrow]
    return {"public_programs_total": len(ran),
            "public_programs_identical": sum(row["tasks_same"] and row["stopped_same"] and row["batched_same"]
                                             for row in ran),
            "public_programs_identical_batched": sum(row["batched_same"] for row in ran),
            "public_programs_identical_as_tasks": sum(row["tasks_same"] for row in ran),
            "public_programs_identical_stopped": sum(row["stopped_same"] for row in ran),
            "narrow_programs_total": len(narrow),
            "narrow_programs_faster_1_3x": sum(ratio >= 1.3 for ratio in ratios),
            "narrow_programs_faster_2x": sum(ratio >= 2 for ratio in ratios),
            "narrow_programs_worst_ratio": min(ratios, default=0)}


def merge(path, numbers):
    known = {}
    if os.path.exists(path):
        with open(path) as file:
            known = json.load(file)
    known.update(numbers)
    result_file.write(path, known)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--cupola", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=600, help="of timing, at most; the first round is made anyhow")
    parser.add_argument("--merge")
    options = parser.parse_args()
    options.cupola = os.path.abspath(options.cupola)
    with open(os.path.join(HERE, "public_programs.json")) as file:
        listed = json.load(file)
    folder = tempfile.mkdtemp()
    try:
        bed = Bed(options, folder)
        programs = {program for kind in ("narrow", "identical") for program, _ in listed[kind]}
        there = {program for program in programs if os.path.exists(bed.path(program))}
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            there = {program for program, built in zip(sorted(there), pool.map(bed.build, sorted(there))) if built}
            compared = list(pool.map(lambda one: compare(bed, *one),
                                     [one for one in listed["identical"] if one[0] in there]))
        narrow = time_narrow(bed, [one for one in listed["narrow"] if one[0] in there], options.rounds,
                             time.monotonic() + options.seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    numbers = numbers_of(narrow, compared)
    build = os.path.dirname(os.path.dirname(options.cupola))
    result_file.write(options.out, {
        **numbers, "repository": listed["repository"], "repository_commit": listed["commit"], "narrow": narrow,
        "compared": compared, "machine": machine.facts(build, None)})
    if options.merge:
        merge(options.merge, numbers)
    print(json.dumps(numbers, indent=1))
    return 0 if numbers["public_programs_identical"] == numbers["public_programs_total"] else 1


if __name__ == "__main__":
    sys.exit(main())
