#!/usr/bin/env python3
"""Sizes the inputs of tests/apps/flep so that each kernel alone takes its time of table 1.

Runs the 24 inputs on the GPU, scales each size by target / measured (then by the secant) until the
time is within --within of its target, and prints times, ratios and sizes: under a minute. `--write`
puts the sizes into tests/apps/flep/inputs.h; `--apply FILE` does so later from the JSON of --out.
Standard library only; exit code 77 without a GPU.
"""
import argparse
import json
import os
import re
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests/apps"), os.path.join(ROOT, "tests/bench")]
import machine  # noqa: E402
import runner  # noqa: E402

PROGRAMS = ["cfd", "nn", "pf", "pl", "md", "spmv", "mm", "va"]
INPUTS = ["large", "small", "trivial"]
REPEATS = {"large": 6, "small": 15, "trivial": 30}
INPUTS_H = os.path.join(ROOT, "tests/apps/flep/inputs.h")


class Failed(Exception):
    """A program did not run; the message says how it ended."""


def measure(build, device, environ, program, which, size=None):
    """One process: {"size", "us" (median of event times), "target_us", ...}."""
    form = "static" if device == "gpu" else "shared"
    command = [f"{build}/apps/{form}/flep_{program}", "--input", which, "--events",
               "--repeat", str(REPEATS[which]), "--warmup", "2"]
    command += ["--size", str(size)] if size else []
    command += ["--scale", "0"] if device == "sim" else []
    result = runner.run(command, environ, 60)
    if result["code"] != 0:
        raise Failed(f"flep_{program} {which}: {runner.describe_code(result['code'])}: "
                     f"{result['stderr'].decode(errors='replace')[-300:]}")
    found = json.loads(result["stdout"])
    return {"size": found["size"], "grid": found["grid"], "target_us": found["target_us"],
            "us": statistics.median(found["event_us"]), "least_us": min(found["event_us"]),
            "most_us": max(found["event_us"]),
            "turnaround_us": statistics.median(found["turnaround_us"])}


def next_size(tried):
    """By proportion after one measurement, by the line through the last two after more."""
    last = tried[-1]
    proportional = last["size"] * last["target_us"] / last["us"]
    if len(tried) > 1 and tried[-1]["size"] != tried[-2]["size"]:
        slope = (last["us"] - tried[-2]["us"]) / (last["size"] - tried[-2]["size"])
        if slope > 0:
            secant = last["size"] + (last["target_us"] - last["us"]) / slope
            if 0.3 * proportional < secant < 3 * proportional:
                return max(1, round(secant))
    return max(1, round(proportional))


def calibrate(options):
    environ = runner.environment(options.build, options.device)
    deadline = time.monotonic() + options.seconds
    rows = {}
    for attempt in range(options.attempts):
        for program in PROGRAMS:
            for which in INPUTS:
                tried = rows.setdefault((program, which), [])
                good = tried and abs(tried[-1]["us"] / tried[-1]["target_us"] - 1) < options.within
                if good or (tried and time.monotonic() > deadline):
                    continue
                size = next_size(tried) if tried else None
                if tried and size == tried[-1]["size"]:
                    continue
                try:
                    tried.append(measure(options.build, options.device, environ, program, which,
                                         size))
                except (Failed, ValueError) as error:
                    print(f"flep_calibrate: {error}", file=sys.stderr, flush=True)
                    if not tried:
                        del rows[(program, which)]
        if options.device == "sim":
            break
    return rows


def best_of(tried):
    return min(tried, key=lambda row: abs(row["us"] / row["target_us"] - 1))


def show(rows):
    print(f"{'input':14} {'target us':>10} {'first us':>10} {'best us':>10} {'ratio':>6} "
          f"{'turnaround':>10} {'size':>12}  grid")
    for (program, which), tried in rows.items():
        best = best_of(tried)
        print(f"{program + ' ' + which:14} {best['target_us']:10.0f} {tried[0]['us']:10.1f} "
              f"{best['us']:10.1f} {best['us'] / best['target_us']:6.3f} "
              f"{best['turnaround_us']:10.1f} {best['size']:12}  {best['grid']}")


def apply(found, gpu):
    """Rewrites the sizes of inputs.h for a GPU of that name from {"program input": {"size": ...}}; an
    H100's where they differ from an H200's."""
    with open(INPUTS_H) as file:
        text = file.read()
    for name, row in found.items():
        program, which = name.split()
        begin = rf'(\{{"{program}", "{which}", [0-9.]+, '
        if "H100" in gpu:
            def own(match, size=str(row["size"])):
                return match[1] + (f", {size}}}" if match[2] != size else "}")
            text, count = re.subn(begin + r"(\d+))(?:, \d+)?\}", own, text)
        else:
            text, count = re.subn(begin + r")\d+", rf'\g<1>{row["size"]}', text)
        if count != 1:
            raise Failed(f"{INPUTS_H} has no row {name}")
    with open(INPUTS_H, "w") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/gpu"))
    parser.add_argument("--device", choices=["gpu", "sim"], default="gpu")
    parser.add_argument("--out", help="write all measurements to this JSON file")
    parser.add_argument("--seconds", type=float, default=55, help="begin nothing after so long")
    parser.add_argument("--attempts", type=int, default=4, help="measurements of an input at most")
    parser.add_argument("--within", type=float, default=0.02, help="of the target: good enough")
    parser.add_argument("--write", action="store_true", help="put the sizes into inputs.h")
    parser.add_argument("--apply", metavar="FILE", help="only put the sizes of FILE into inputs.h")
    options = parser.parse_args()
    if options.apply:
        with open(options.apply) as file:
            earlier = json.load(file)
        apply(earlier["best"], earlier["machine"]["gpu"])
        return 0
    options.build = os.path.abspath(options.build)
    if options.device == "gpu" and not machine.has_gpu():
        print("flep_calibrate: skipped: no NVIDIA driver with a GPU here", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    rows = calibrate(options)
    show(rows)
    best = {" ".join(key): best_of(tried) for key, tried in rows.items()}
    facts = machine.facts(options.build, None)
    if options.out:
        with open(options.out, "w") as file:
            json.dump({"machine": facts, "best": best,
                       "tried": {" ".join(key): tried for key, tried in rows.items()}}, file,
                      indent=1)
    if options.write:
        apply(best, facts["gpu"])
    return 0 if len(rows) == len(PROGRAMS) * len(INPUTS) else 1


if __name__ == "__main__":
    sys.exit(main())
