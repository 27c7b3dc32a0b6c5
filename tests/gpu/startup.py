#!/usr/bin/env python3
"""What Cupola adds to a program's start: runs programs plain and under `cupola run` in turn.

Programs: one that never touches CUDA, vector_add in both forms, and Python importing PyTorch and
making one tensor on the GPU (where there is PyTorch). Prints medians in milliseconds, of the wall
clock and of processor time, and the median of the differences of neighbouring runs. Exit code 1
where a program fails or a difference exceeds --limit.
"""
import argparse
import json
import os
import resource
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../apps"))
import runner  # noqa: E402

IMPORT_TORCH = "import torch"
TORCH = "import torch; torch.zeros(1).cuda()"


def processor_seconds():
    """What all children that ended used so far, user and system."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def programs(options):
    """(name, command, rounds)"""
    apps = options.build + "/apps"
    yield "true", ["/bin/true"], options.rounds
    yield "vector_add shared", [apps + "/shared/vector_add", "1000"], options.rounds
    if options.device == "gpu":
        yield "vector_add static", [apps + "/static/vector_add", "1000"], options.rounds
        found = runner.run([options.python, "-c", TORCH], os.environ, 120)
        if found["code"] == 0:
            yield ("python import torch", [options.python, "-c", IMPORT_TORCH],
                   options.torch_rounds)
            yield "python torch", [options.python, "-c", TORCH], options.torch_rounds
        else:
            print("startup: no working PyTorch, left out", file=sys.stderr)


def measure(options, name, command, rounds):
    environ = runner.environment(options.build, options.device)
    prefix = runner.cupola_command(options.build, options.device)
    samples = {"plain": [], "cupola": []}
    processor = {"plain": [], "cupola": []}
    for number in range(-options.warm_ups, rounds):  # the first rounds only warm caches
        order = [("plain", []), ("cupola", prefix)]
        for key, before in order if number % 2 else reversed(order):
            processor_before = processor_seconds()
            result = runner.run(before + command, environ, options.timeout)
            if result["code"] != 0:
                error = result["stderr"].decode(errors="replace")[-800:]
                return {"name": name, "failed": key, "code": result["code"], "stderr": error}
            if number >= 0:
                samples[key].append(result["seconds"] * 1000)
                processor[key].append((processor_seconds() - processor_before) * 1000)
    differences = [cupola - plain for plain, cupola in zip(samples["plain"], samples["cupola"])]
    return {"name": name, "rounds": rounds,
            "plain_ms": round(statistics.median(samples["plain"]), 2),
            "cupola_ms": round(statistics.median(samples["cupola"]), 2),
            "difference_ms": round(statistics.median(differences), 2),
            "plain_processor_ms": round(statistics.median(processor["plain"]), 2),
            "cupola_processor_ms": round(statistics.median(processor["cupola"]), 2),
            "smallest_plain_ms": round(min(samples["plain"]), 2),
            "smallest_cupola_ms": round(min(samples["cupola"]), 2),
            "differences_ms": [round(value, 2) for value in differences]}


def write_json(options, rows):
    """After each program, so that a run cut short leaves what it measured."""
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"limit_ms": options.limit, "programs": rows}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    parser.add_argument("--device", choices=["sim", "gpu"], default="gpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--torch-rounds", type=int, default=15)
    parser.add_argument("--warm-ups", type=int, default=3)
    parser.add_argument("--python", default="python3", help="the Python that has PyTorch")
    parser.add_argument("--limit", type=float, default=50, help="milliseconds (default 50)")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--json")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    rows = []
    try:
        print(f"{'program':20} {'plain':>10} {'cupola':>10} {'difference':>10}   ms, medians")
        for name, command, rounds in programs(options):
            row = measure(options, name, command, rounds)
            rows.append(row)
            write_json(options, rows)
            if "failed" in row:
                print(f"{name:20} {row['failed']} run failed: {row['code']} {row['stderr']}")
                continue
            print(f"{name:20} {row['plain_ms']:10.1f} {row['cupola_ms']:10.1f} "
                  f"{row['difference_ms']:10.1f}", flush=True)
    except runner.NotPossible as reason:
        print(f"startup: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    return 0 if all(row.get("difference_ms", 1e9) <= options.limit for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
