#!/usr/bin/env python3
"""A program on two GPUs, of which another program wants one: a board for each GPU, by its UUID.

The low-priority program launches on both; the high-priority one sees the second GPU alone
(CUDA_VISIBLE_DEVICES), where it is device 0. Asked of the arbiter while both run: on the GPU that both use
the low one is stopped, on the other one it goes on. Then the same with the priorities the other way
round. Every block has run once. Exit code 77 where there are not two GPUs.

  two_gpus.py --device gpu --json FILE
"""
import json
import os
import subprocess
import sys
import time

from fault_bed import HIGH, LOW, Case, Program, TooLate, Wrong
from guarded_calls import ask
import corun
import runner

LIMIT_SECONDS = 60
FACTORS = (1, 4, 16)  # if a kernel had ended before it was looked at, the next one is so many times longer


def gpu_count():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


def states(case, program):
    """What the arbiter shows of a program, for each GPU on which it knows it: {uuid: client}."""
    return {gpu["uuid"]: client for gpu in ask(case.bed, command="show")["gpus"]
            for client in gpu["clients"] if client["pid"] == program.pid}


def stopped(client):
    return client["held"] and client["stopped"]


def at_work(client):
    return client["active"] and client["granted"]


def one_of_two(case, both_label):
    """`both_label`: the priority of the program that uses both GPUs."""
    case.serve()
    both = Program(case, "program on both", both_label, "--devices", "2", "runtime").until_ready()
    case.bed.environ["CUDA_VISIBLE_DEVICES"] = "1"
    one = Program(case, "program on one", HIGH if both_label == LOW else LOW,
                  "runtime").until_ready()
    del case.bed.environ["CUDA_VISIBLE_DEVICES"]
    shared, = states(case, one)
    found = states(case, both)
    if len(found) != 2 or shared not in found:
        raise Wrong(f"the program on both is known on {sorted(found)}, the other on {shared}")
    other, = set(found) - {shared}
    both.launch("long")
    one.launch("long")
    high, low = (one, both) if both_label == LOW else (both, one)

    def as_wanted():
        low_found, high_found = states(case, low), states(case, high)
        return (stopped(low_found[shared]) and at_work(high_found[shared]) and
                at_work(states(case, both)[other]))
    case.until(as_wanted, "one stopped on the shared GPU, the other GPU at work", TooLate)
    high.wait()
    low.wait()
    for program in (both, one):
        case.go_on(program)
    case.end_programs(both, one)


def run(options, common, label):
    row = {"case": f"the {label} one on two GPUs", "problem": "", "attempts": 0}
    for factor in FACTORS:
        row["attempts"] += 1
        case = Case(options, common.store, time.monotonic() + LIMIT_SECONDS, factor, False)
        try:
            one_of_two(case, label)
            row["problem"] = ""
            break
        except TooLate as late:
            row["problem"] = str(late)
        except (Wrong, corun.Failed, OSError) as error:
            row["problem"] = str(error)
            break
        finally:
            case.close()
    print(f"{row['case']:28} {row['problem'] or 'good'}", flush=True)
    return row


def main():
    parser = runner.parser(__doc__)
    parser.add_argument("--out", default=".", help="folder for corun.log (default: this one)")
    options = parser.parse_args()
    options.build, options.additions, options.strict = os.path.abspath(options.build), {}, None
    if options.device != "gpu" or gpu_count() < 2:
        print("two_gpus: not two GPUs here", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    common = corun.Bed(options.build, options.device, options.out)
    try:
        corun.require(options.device, [common.program("faults")])
        common.build_variants(["faults"])
        rows = [run(options, common, label) for label in (LOW, HIGH)]
    except runner.NotPossible as reason:
        print(f"two_gpus: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    except corun.Failed as error:
        print(f"two_gpus: {error}", file=sys.stderr)
        return 1
    finally:
        common.close()
    good = sum(not row["problem"] for row in rows)
    print(f"{good} of {len(rows)} good")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": options.device, "good": good, "cases": rows}, file, indent=1)
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
