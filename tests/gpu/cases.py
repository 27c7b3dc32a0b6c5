#!/usr/bin/env python3
"""Runs every case of tests/cases on a device, several at a time, and says which are right.

Needs nvcc, since each case builds its program, and a build folder with bin/cupola and lib/. Exit code 0: none
is wrong. Cases that cannot be tried on this machine (exit code 77 of their run.sh) count as skipped.

  tests/gpu/cases.py --build build/gpu --device gpu [--json FILE] [--jobs N] [--limit SECONDS] [CASE...]
"""
import argparse
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77


def run_case(script, environ, limit):
    """One case's verdict: right, wrong, skipped or late; with the lines that say what is wrong, and its time."""
    started = time.monotonic()
    process = subprocess.Popen([script], env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
        verdict = {0: "right", SKIPPED: "skipped"}.get(process.returncode, "wrong")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, _ = process.communicate()
        verdict = "late"
    lines = output.decode(errors="replace").splitlines()
    wrong = [line for line in lines if line.startswith("WRONG:")]
    return {"case": os.path.basename(os.path.dirname(script)), "verdict": verdict, "wrong": wrong,
            "checks": len(wrong) + sum(line.startswith("right:") for line in lines),
            "said": lines[-40:], "seconds": round(time.monotonic() - started, 1)}


def counted(rows):
    """Cases that could be tried, and how many of them are right."""
    tried = [row for row in rows if row["verdict"] != "skipped"]
    return len(tried), sum(row["verdict"] == "right" for row in tried)


def problem_of(row):
    return "" if row["verdict"] in ("right", "skipped") else "; ".join([row["verdict"], *row["wrong"]])[:400]


def write_results(path, rows):
    """Writes what is known so far, so that a run that is cut off has not been for nothing."""
    if path is None:
        return
    tried, good = counted(rows)
    with open(path, "w") as file:
        json.dump({"cases_total": tried, "cases_right": good, "good": good,
                   "cases": [{**row, "problem": problem_of(row)} for row in rows]}, file, indent=1)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/gpu"))
    parser.add_argument("--device", choices=["gpu", "sim"], default="gpu")
    parser.add_argument("--json")
    parser.add_argument("--out", help="ignored; for the suite")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=280)
    parser.add_argument("cases", nargs="*")
    return parser.parse_args()


def main():
    options = parse_arguments()
    scripts = sorted(glob.glob(os.path.join(ROOT, "tests/cases/*/run.sh")))
    if options.cases:
        scripts = [script for script in scripts if os.path.basename(os.path.dirname(script)) in options.cases]
    environ = {**os.environ, "CUPOLA": os.path.abspath(os.path.join(options.build, "bin/cupola")),
               "DEVICE": options.device}
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(run_case, script, environ, options.limit) for script in scripts]
        for job in concurrent.futures.as_completed(jobs):
            row = job.result()
            rows.append(row)
            print(f"{row['case']:40} {row['verdict']:8} {row['seconds']:6} s  {row['wrong'][0] if row['wrong'] else ''}",
                  flush=True)
            write_results(options.json, rows)
    tried, good = counted(rows)
    print(f"{good} of {tried} cases right, {len(rows) - tried} skipped")
    return 0 if good == tried else 1


if __name__ == "__main__":
    sys.exit(main())
