#!/usr/bin/env python3
"""Profilers and checkers at work: Cupola stands aside, says so, and nothing else changes.

An arbiter runs, and a program with variants under `cupola run`: alone, where its kernels are preemptible, then
with compute-sanitizer around Cupola and within it, with Nsight Compute, and a PyTorch program that uses
torch.profiler (CUPTI). With each of the tools no kernel may go out as a variant, Cupola must have said
why, and the program's exit code and standard output must be those of the same run without Cupola. Tools
that are not here are left out and named. Exit code 77 where there is none.

  tools.py --device gpu --json FILE
"""
import contextlib
import glob
import json
import os
import re
import shutil
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("tests/apps", "tests/bench"):
    sys.path.insert(0, os.path.join(ROOT, folder))
import corun  # noqa: E402
import machine  # noqa: E402
import runner  # noqa: E402

NOTICE = "kernels are not preempted"
SECONDS = 120  # of one program with one tool


def toolkit_program(name):
    places = sorted(glob.glob(f"/usr/local/cuda*/bin/{name}"), reverse=True)
    return shutil.which(name) or next(iter(places), None)


def cases(folder, program, cupola, python):
    """(name, command without Cupola, command with it, whether a tool is at work); None for a command
    whose tool is not here."""
    yield "no tool", [program], [*cupola, program], False
    log = ["--log-file", f"{folder}/tool.log"]
    sanitizer = machine.compute_sanitizer()
    check = [sanitizer, "--tool", "memcheck", "--target-processes", "all", *log]
    for name, under in (("compute-sanitizer cupola run", [*check, *cupola, program]),
                        ("cupola run compute-sanitizer", [*cupola, *check, program])):
        yield name, sanitizer and [*check, program], under, True
    ncu = toolkit_program("ncu")
    count = [ncu, "--target-processes", "all", "--metrics", "gpu__time_duration.sum", *log]
    for name, under in (("ncu cupola run", [*count, *cupola, program]),
                        ("cupola run ncu", [*cupola, *count, program])):
        yield name, ncu and [*count, program], under, True
    profile = [python, f"{ROOT}/tests/gpu/torch_workloads.py", "--only", "eager", "--profile",
               f"{folder}/counts.json"]
    yield "torch.profiler", python and profile, [*cupola, *profile], True


def problem_of(plain, under, has_tool):
    said = under["stderr"].decode(errors="replace")
    variants = sum(map(int, re.findall(r"(\d+) launches preemptible", said)))
    if (plain["code"], plain["stdout"]) != (under["code"], under["stdout"]):
        codes = [runner.describe_code(run["code"]) for run in (plain, under)]
        return f"without Cupola {codes[0]}, with it {codes[1]}, or another output: {said[-300:]}"
    if not has_tool:
        return "" if variants and NOTICE not in said else f"not preemptible: {said[-300:]}"
    if NOTICE not in said:
        return f"Cupola does not say that a tool is at work: {said[-300:]}"
    return f"{variants} launches went out as variants" if variants else ""


def run_cases(options, bed):
    program = bed.program("vector_add")
    bed.build_variants(["vector_add"])
    python = machine.torch_python() if options.device == "gpu" else None
    cupola = runner.cupola_command(options.build, options.device)
    rows = []
    with tempfile.TemporaryDirectory() as folder, bed.arbiter(corun.config("hpf", {})):
        plain_environ = {**bed.environ, **bed.additions}
        environ = {**plain_environ, "CUPOLA_STORE": bed.store, "CUPOLA_PREEMPT": "always",
                   "CUPOLA_LOG": "info"}
        for name, command, under, has_tool in cases(folder, program, cupola, python):
            if not command:
                print(f"{name:30} left out: it is not here", flush=True)
                continue
            found = [runner.run(each, vars_, SECONDS)
                     for each, vars_ in ((command, plain_environ), (under, environ))]
            rows.append({"case": name, "problem": problem_of(*found, has_tool),
                         "seconds": round(sum(run["seconds"] for run in found), 1)})
            print(f"{name:30} {rows[-1]['seconds']:6.1f} s  {rows[-1]['problem'] or 'good'}",
                  flush=True)
    return rows


def main():
    parser = runner.parser(__doc__)
    parser.add_argument("--out", default=".", help="folder for corun.log (default: this one)")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    try:
        bed = corun.Bed(options.build, options.device, options.out)
        with contextlib.closing(bed):
            corun.require(options.device, [bed.program("vector_add")])
            rows = run_cases(options, bed)
    except runner.NotPossible as reason:
        print(f"tools: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    except corun.Failed as error:
        print(f"tools: {error}", file=sys.stderr)
        return 1
    good = sum(not row["problem"] for row in rows)
    print(f"{good} of {len(rows)} good")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": options.device, "good": good, "cases": rows}, file, indent=1)
    if good < len(rows):
        return 1
    return 0 if len(rows) > 1 else runner.NOT_POSSIBLE_HERE


if __name__ == "__main__":
    sys.exit(main())
