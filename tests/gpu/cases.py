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
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda script: run_case(script, environ, options.limit), scripts))
    for row in rows:
        print(f"{row['case']:40} {row['verdict']:8} {row['seconds']:6} s  {row['wrong'][0] if row['wrong'] else ''}")
    tried = [row for row in rows if row["verdict"] != "skipped"]
    good = sum(row["verdict"] == "right" for row in tried)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"cases_total": len(tried), "cases_right": good, "good": good,
                       "cases": [{**row, "problem": "" if row["verdict"] in ("right", "skipped") else
                                  "; ".join([row["verdict"], *row["wrong"]])[:400]} for row in rows]}, file, indent=1)
    print(f"{good} of {len(tried)} cases right, {len(rows) - len(tried)} skipped")
    return 0 if good == len(tried) else 1


if __name__ == "__main__":
    sys.exit(main())
