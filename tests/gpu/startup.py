#!/usr/bin/env python3
"""What Cupola adds to a program's start: runs programs plain and under `cupola run` in turn.

Programs: one that never touches CUDA, vector_add in both forms, and Python importing PyTorch and
making one tensor on the GPU (where there is PyTorch). Prints medians in milliseconds, of the wall
clock and of processor time, and the median of the differences of neighbouring runs, with its interval
of 95 %. Exit code 1 where a program fails, where that interval lies above --limit, or where the medians of
processor time differ by more than --limit: an import of PyTorch takes seconds, and differs from one to the
next by more than the limit, so its few runs can only show a difference that is larger than that.

With --modes only vector_add is run: plain, without a store, with an empty one, with one of another
program, with one of its own, and the first and the last under an arbiter; each is allowed a tenth of
plain and 40 ms more. The figures startup_plain_ms, startup_added_ms_store and startup_added_ms_arbiter of
--json are medians, of the slowest mode without and with an arbiter.
"""
import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

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
            "difference_interval_ms": [round(value, 2) for value in interval_of_median(differences)],
            "plain_processor_ms": round(statistics.median(processor["plain"]), 2),
            "cupola_processor_ms": round(statistics.median(processor["cupola"]), 2),
            "smallest_plain_ms": round(min(samples["plain"]), 2),
            "smallest_cupola_ms": round(min(samples["cupola"]), 2),
            "differences_ms": [round(value, 2) for value in differences]}


def interval_of_median(values):
    """The interval in which the median lies with 95 %, whatever the distribution: the order statistics of a sign
    test. (lowest, highest) of fewer than six values."""
    ordered, count = sorted(values), len(values)
    rank, below = 0, 0.5 ** count  # the chance that at most `rank` values lie below the median
    while below + math.comb(count, rank + 1) * 0.5 ** count <= 0.025:
        rank += 1
        below += math.comb(count, rank) * 0.5 ** count
    return ordered[rank], ordered[-1 - rank]


def is_too_slow(row, limit):
    return (row["difference_interval_ms"][0] > limit or
            row["cupola_processor_ms"] - row["plain_processor_ms"] > limit)


class Modes:
    """The ways in which Cupola may be there as a program starts."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        form = "static" if options.device == "gpu" else "shared"
        self.command = [f"{options.build}/apps/{form}/vector_add", "1000"]
        self.environ = runner.environment(options.build, options.device)
        self.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
        self.prefix = runner.cupola_command(options.build, options.device)
        for store, app in (("empty", None), ("others", "matmul_tiled"), ("own", "vector_add")):
            os.mkdir(self.path(store), 0o700)
            if app is None:
                continue
            problem = runner.build_variants(options.build, self.path(store), f"{options.build}/apps/{form}/{app}")
            if problem:
                raise RuntimeError(problem)
        self.daemon = subprocess.Popen(
            [f"{options.build}/bin/cupola", "serve", "--socket", self.path("arbiter.sock")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while "listening" not in self.daemon.stdout.readline():
            if self.daemon.poll() is not None:
                raise RuntimeError("the arbiter does not start")

    def path(self, name):
        return os.path.join(self.folder, name)

    def all(self):
        """(name, command, environment)"""
        def beside(store, socket):
            return {**self.environ, "CUPOLA_STORE": self.path(store), "CUPOLA_SOCKET": self.path(socket)}
        plain = [*self.prefix, "env", "-u", "LD_PRELOAD", *self.command]
        yield "plain", plain, beside("none", "nobody.sock")
        for store in ("none", "empty", "others", "own"):
            yield f"store: {store}", [*self.prefix, *self.command], beside(store, "nobody.sock")
        for store in ("none", "own"):
            yield f"arbiter, store: {store}", [*self.prefix, *self.command], beside(store, "arbiter.sock")

    def close(self):
        self.daemon.terminate()
        self.daemon.wait(10)
        self.daemon.stdout.close()


def measure_modes(options):
    """Medians of each mode, with the modes in turn; None where a run fails."""
    with tempfile.TemporaryDirectory(prefix="cupola-startup-") as folder:
        modes = Modes(options, folder)
        try:
            samples = {name: [] for name, _, _ in modes.all()}
            for number in range(-options.warm_ups, options.rounds):
                each = list(modes.all())
                for name, command, environ in each if number % 2 else reversed(each):
                    begin = time.monotonic()
                    result = runner.run(command, environ, options.timeout)
                    milliseconds = (time.monotonic() - begin) * 1000
                    if result["code"] != 0:
                        error = result["stderr"].decode(errors="replace")[-800:]
                        print(f"{name} failed: {result['code']} {error}")
                        return None
                    if number >= 0:
                        samples[name].append(milliseconds)
        finally:
            modes.close()
    return {name: round(statistics.median(values), 1) for name, values in samples.items()}


def compare_modes(options):
    """The exit code: 1 if a start takes longer than it may."""
    medians = measure_modes(options)
    if medians is None:
        return 1
    plain = medians["plain"]
    most = plain * 1.1 + 40
    for name, milliseconds in medians.items():
        print(f"{name:24} {milliseconds:8.1f} ms{'' if milliseconds <= most else '  too long'}")
    added = {kind: round(max(value for name, value in medians.items() if name.startswith(kind)) - plain, 1)
             for kind in ("store", "arbiter")}
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"startup_plain_ms": plain, "startup_added_ms_store": added["store"],
                       "startup_added_ms_arbiter": added["arbiter"], "rounds": options.rounds,
                       "medians_ms": medians}, file, indent=1)
    return 0 if all(value <= most for value in medians.values()) else 1


def write_json(options, rows):
    """Called after each program, so that a run that is cut short leaves what it measured."""
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
    parser.add_argument("--modes", action="store_true", help="a short program in every mode")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    rows = []
    try:
        if options.modes:
            return compare_modes(options)
        print(f"{'program':20} {'plain':>10} {'cupola':>10} {'difference':>10}   ms, medians, and 95 %")
        for name, command, rounds in programs(options):
            row = measure(options, name, command, rounds)
            rows.append(row)
            write_json(options, rows)
            if "failed" in row:
                print(f"{name:20} {row['failed']} run failed: {row['code']} {row['stderr']}")
                continue
            print(f"{name:20} {row['plain_ms']:10.1f} {row['cupola_ms']:10.1f} "
                  f"{row['difference_ms']:10.1f}   {row['difference_interval_ms']}", flush=True)
    except runner.NotPossible as reason:
        print(f"startup: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    return 1 if any("failed" in row or is_too_slow(row, options.limit) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
