#!/usr/bin/env python3
"""Faults of programs and of the arbiter while kernels are preempted: the others go on, with right
results, and nobody hangs.

In each case an arbiter of its own, and two programs (faults.cu): the victim, to which something
happens while its kernel runs, is preempted or waits, and the bystander, whose demand preempts it or
which it preempts. Every result is compared. Prints a table; exit code 0 = all went so, 1 = not,
77 = nothing could be run here (said why).

  faults.py --build build/gpu --device gpu --json results.json
  faults.py --build build/gpu --mps
  faults.py --device sim --cases fork,device_reset_legacy
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import sys
import time

from fault_bed import Case, TooLate, Wrong  # first: it makes the folders of what follows known
from fault_cases import all_cases
import corun
import runner

# If a kernel had ended before the fault was made, the case runs again, with kernels so many times longer.
FACTORS = (1, 4, 8, 16, 32)
# Cases in which a guard is never reached, which the strict driver cannot know.
NOT_STRICT = ("sticky_error_", "exit_while_held")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    parser.add_argument("--device", choices=["sim", "gpu"], default="gpu")
    parser.add_argument("--cases", help="names of cases, separated by commas (default: all)")
    parser.add_argument("--strict", metavar="DRIVER",
                        help="a driver over the simulated one that ends programs where a GPU would "
                             "hang (tests/preempt/strict_driver.cpp)")
    parser.add_argument("--mps", action="store_true",
                        help="with an MPS daemon of its own beneath, without the cases in which a "
                             "kernel faults: MPS tells all its clients")
    parser.add_argument("--jobs", type=int, help="cases at a time (default: gpu 1, sim 2)")
    parser.add_argument("--limit", type=float, default=240,
                        help="seconds for everything: what runs then is ended (default 240)")
    parser.add_argument("--out", default=".", help="folder for corun.log (default: this one)")
    parser.add_argument("--json", help="write the results to this file")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.strict = options.strict and os.path.abspath(options.strict)
    if options.strict and options.device == "gpu":
        parser.error("--strict is for the simulated device")
    # Without MPS the cases' programs take turns on a GPU, long kernels among them: five cases at a
    # time took longer than one after the other, and programs did not come to their start in time.
    options.jobs = options.jobs or (1 if options.device == "gpu" else 2)
    wanted = options.cases.split(",") if options.cases else list(all_cases())
    unknown = set(wanted) - set(all_cases())
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; "
                     f"there are {', '.join(all_cases())}")
    options.cases = [name for name in wanted if not (options.mps and name.startswith("sticky_"))]
    options.additions = {}
    return options


def run_case(options, store, end, name):
    row = {"case": name, "problem": "not begun: no time left", "seconds": 0.0, "attempts": 0}
    while row["attempts"] < len(FACTORS) and end - time.monotonic() > 3:
        begun, row["problem"], again = time.monotonic(), "", False
        is_strict = options.strict and not name.startswith(NOT_STRICT)
        case = Case(options, store, end, FACTORS[row["attempts"]], is_strict)
        row["attempts"] += 1
        try:
            all_cases()[name](case)
        except TooLate as late:
            row["problem"], again = str(late), True
        except (Wrong, corun.Failed, OSError) as error:
            row["problem"] = str(error)
        except Exception as error:  # one broken case must not cost the others
            row["problem"] = f"{type(error).__name__}: {error}"
        finally:
            case.close()
        row["seconds"] = round(time.monotonic() - begun, 2)
        row["errors"] = {program.name: program.job.err[-1500:] for program in case.programs}
        if not again:
            break
    return row


def run_cases(options, started):
    common = corun.Bed(options.build, options.device, options.out)
    try:
        common.build_files([common.program("faults"), f"{common.build}/apps/faults.fatbin"])
        rows = []
        with common.mps() if options.mps else contextlib.nullcontext(), \
                concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            options.additions = dict(common.additions)
            for row in pool.map(lambda name: run_case(options, common.store,
                                                      started + options.limit, name),
                                options.cases):
                rows.append(row)
                print(f"{row['case']:28} {row['seconds']:6.1f} s  {row['attempts']}  "
                      f"{row['problem'] or 'good'}", flush=True)
        return rows
    finally:
        common.close()


def main():
    options = parse_arguments()
    started = time.monotonic()
    try:
        bed = corun.Bed(options.build, options.device, options.out)
        bed.close()
        paths = [bed.program("faults"), f"{bed.build}/apps/faults.fatbin", options.strict]
        corun.require(options.device, paths)
        rows = run_cases(options, started)
    except runner.NotPossible as reason:
        print(f"faults: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    except corun.Failed as error:
        print(f"faults: {error}", file=sys.stderr)
        return 1
    good = sum(not row["problem"] for row in rows)
    seconds = time.monotonic() - started
    print(f"{good} of {len(rows)} good; {seconds:.0f} s")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": options.device, "mps": options.mps, "good": good, "cases": rows,
                       "all_seconds": round(seconds, 1)}, file, indent=1)
    return 0 if rows and good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
