#!/usr/bin/env python3
"""Runs the cases of tests/cases on a device, several side by side, and says which are right.

Needs nvcc, since each case builds its program, and a build folder with bin/cupola and lib/. CASE: names or patterns
(default: all). Those whose run.sh says "# Alone" run after the others, one at a time. Cases that cannot be tried on
this machine (exit code 77 of their run.sh) count as skipped. Exit code 0: all chosen ones were reached, none is wrong.

The results are written after each case, whole, so that a run that is killed leaves all that ended. They are kept by
case: what the file had of the same commit and the same model of GPU stays, until that case is run again. To go on
with what a run has not reached, --resume (and --earlier FILE, where its results are in another file than --json's);
to put the files of several runs into one, --merge, which runs nothing.

  tests/gpu/cases.py --build build/gpu --device gpu --json FILE [--jobs N] [--limit SECONDS] [--within SECONDS]
                     [--resume] [--earlier FILE] [CASE...]
  tests/gpu/cases.py --merge FILE... --json tests/bench/results/h100-80gb-hbm3/cases.json
"""
import argparse
import concurrent.futures
import datetime
import glob
import os
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, folder) for folder in ("tests/apps", "tests/bench", "tests/gpu")]
import case_cells  # noqa: E402
import machine  # noqa: E402
import result_file  # noqa: E402
import runner  # noqa: E402

CASES = os.path.join(ROOT, "tests/cases")
GUARD = os.path.join(ROOT, "tests/gpu/case_guard.py")
SKIPPED = 77
LIMIT = 280  # seconds of one case
CLEANUP_SECONDS = 3


def session_members(session):
    """The processes of a session; a process group is not enough, since timeout(1) makes one of its own."""
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            with open(folder + "/stat", "rb") as file:  # a process's name may be any bytes
                fields = file.read().rsplit(b")", 1)[1].decode().split()
        except (OSError, IndexError):
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            yield int(folder.rsplit("/", 1)[1])


def end(process):
    """Ends a case: its script cleans up, then whatever else is left of it is killed. Returns what it has said."""
    process.terminate()
    try:
        process.wait(CLEANUP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    for pid in session_members(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return process.communicate()[0]


def run_case(script, environ, limit):
    """One case's verdict: right, wrong, skipped or late; with the lines that say what is wrong, and its time."""
    started = time.monotonic()
    process = subprocess.Popen([sys.executable, GUARD, str(os.getpid()), script], env=environ,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
        verdict = {0: "right", SKIPPED: "skipped"}.get(process.returncode, "wrong")
    except subprocess.TimeoutExpired:
        output, verdict = end(process), "late"
    lines = output.decode(errors="replace").splitlines()
    wrong = [line for line in lines if line.startswith("WRONG:")]
    row = {"case": os.path.basename(os.path.dirname(script)), "verdict": verdict, "wrong": wrong,
           "checks": len(wrong) + sum(line.startswith("right:") for line in lines),
           "said": lines[-40:], "seconds": round(time.monotonic() - started, 1)}
    said = "; ".join([verdict, *wrong])[:400]
    return {**row, "problem": "" if verdict in ("right", "skipped") else said}


class Runs:
    """Runs cases of a folder, and keeps the document at options.json up to date. `on_cell`, where there is one,
    is called with each cell once it is in the document, never by two threads at once."""

    def __init__(self, options, facts, on_cell=None):
        self.options, self.facts, self.on_cell = options, facts, on_cell
        self.ends = time.monotonic() + options.within if options.within else float("inf")
        self.lock = threading.Lock()
        scripts = sorted(glob.glob(os.path.join(options.folder, "*/run.sh")))
        self.scripts = {os.path.basename(os.path.dirname(script)): script for script in scripts}
        self.chosen = case_cells.chosen(list(self.scripts), options.cases)
        self.before = case_cells.read(options.json) if options.json else {}
        documents = [self.before] + [case_cells.read(path) for path in options.earlier]
        cells = [cell for document in documents for cell in case_cells.cells_of(document)]
        self.found = case_cells.merged(cells, facts["commit"], case_cells.model_of(facts))
        self.reached = {name for name in self.chosen if options.resume and name in self.found}
        self.left = case_cells.in_order(set(self.chosen) - self.reached, usual_seconds(cells))
        self.environ = {**os.environ, "CUPOLA": os.path.abspath(os.path.join(options.build, "bin/cupola")),
                        "DEVICE": options.device}

    def document(self):
        return case_cells.document_of(self.found, self.scripts, self.facts, self.before)

    def not_reached(self):
        return [name for name in self.chosen if name not in self.reached]

    def cells(self):
        """The cells of the chosen cases that were reached, in this run or in an earlier one with which it goes on."""
        return [self.found[name] for name in self.chosen if name in self.reached]

    def run(self):
        alone = [name for name in self.left if case_cells.is_alone(self.scripts[name])]
        for jobs, names in ((self.options.jobs, [name for name in self.left if name not in alone]), (1, alone)):
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                list(pool.map(self.run_one, names))

    def run_one(self, name):
        left = self.ends - time.monotonic()
        if left <= CLEANUP_SECONDS:
            return
        limit = min(self.options.limit, left - CLEANUP_SECONDS)
        row = run_case(self.scripts[name], self.environ, limit)
        if row["verdict"] == "late" and limit < self.options.limit:
            return  # it had less than its time: nobody knows
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        cell = {**row, "gpu": case_cells.model_of(self.facts), "commit": self.facts["commit"], "date": now}
        with self.lock:
            self.found[name] = cell
            self.reached.add(name)
            if self.options.json:
                result_file.write(self.options.json, self.document())
            if self.on_cell:
                self.on_cell(cell)


def usual_seconds(cells):
    """How long each case has taken at most, by what is kept of GPUs and by `cells`."""
    paths = glob.glob(os.path.join(ROOT, "tests/bench/results/*/cases.json"))
    seconds = {}
    for cell in [each for path in paths for each in case_cells.cells_of(case_cells.read(path))] + cells:
        seconds[cell["case"]] = max(cell["seconds"], seconds.get(cell["case"], 0))
    return seconds


def merge(options):
    """Puts the cells of several files into options.json: those of the commit and the GPU of the last cell."""
    documents = [case_cells.read(path) for path in options.merge]
    cells = [cell for document in documents for cell in case_cells.cells_of(document)]
    if not cells:
        print("cases: there is no case in these files", file=sys.stderr)
        return 1
    last = max(cells, key=lambda cell: cell.get("date") or "")
    facts = next(document["machine"] for document in reversed(documents) if last in case_cells.cells_of(document))
    before = case_cells.read(options.json)
    found = case_cells.merged(case_cells.cells_of(before) + cells, last["commit"], last["gpu"])
    for cell in cells:
        if (cell["commit"], cell["gpu"]) != (last["commit"], last["gpu"]):
            print(f"cases: left out: {cell['case']} of {cell['commit']} on {cell['gpu']}", file=sys.stderr)
    names = [os.path.basename(os.path.dirname(script)) for script in glob.glob(options.folder + "/*/run.sh")]
    document = case_cells.document_of(found, names, facts, before)
    result_file.write(options.json, document)
    print(f"{document['cases_right']} of {document['cases_total']} cases right; "
          f"not reached: {', '.join(document['cases_not_reached']) or 'none'}")
    return 0


def default_jobs():
    return max(1, min(8, (os.cpu_count() or 2) // 2))


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/gpu"))
    parser.add_argument("--device", choices=["gpu", "sim"], default="gpu")
    parser.add_argument("--json", help="the file for the results")
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="so many cases side by side")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of one case")
    parser.add_argument("--within", type=float, help="seconds of all: what is not reached by then is left out")
    parser.add_argument("--resume", action="store_true",
                        help="run only what there are no results of yet, of this commit and this model of GPU")
    parser.add_argument("--earlier", action="append", default=[], metavar="FILE",
                        help="results of an earlier run, taken over where they are of this commit and GPU")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="run nothing: put these files into that of --json")
    parser.add_argument("--folder", default=CASES, help="where the cases are (default: tests/cases)")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args(arguments)
    if options.merge and not options.json:
        parser.error("--merge needs --json")
    return options


def main():
    options = parse_arguments()
    if options.merge:
        return merge(options)

    def say(cell):
        print(f"{cell['case']:40} {cell['verdict']:8} {cell['seconds']:6} s  "
              f"{cell['wrong'][0] if cell['wrong'] else ''}", flush=True)

    try:
        runs = Runs(options, machine.facts(os.path.abspath(options.build), None), say)
    except ValueError as error:
        print(f"cases: {error}", file=sys.stderr)
        return 2
    runs.run()
    cells = runs.cells()
    tried, good = case_cells.counted(cells)
    print(f"{good} of {tried} cases right, {len(cells) - tried} skipped; "
          f"not reached: {', '.join(runs.not_reached()) or 'none'}")
    return 0 if good == tried and not runs.not_reached() else 1


if __name__ == "__main__":
    sys.exit(main())
