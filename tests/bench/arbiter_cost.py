"""What a launch call costs the host where an arbiter runs and nobody contends: plain CUDA and
Cupola in turns, short launches and long ones, over a null driver and on a device.

tests/bench/arbiter_bench.cpp makes and times the launches. Names ending in _ns... are nanoseconds;
docs/results/launch-cost.md says how each is measured. Standard library only."""
import contextlib
import os

import corun
import launch_cost
import runner
import sampling

# short: a kernel with a variant, one block; unknown: one that has none; long: launched as a variant
# with its guard.
KINDS = ("short", "unknown", "long")
# Of a process: windows of 16 launches, blocks of the long kernel, nanoseconds of a block.
LONG = {"null": (2000, 10_560, 0), "gpu": (128, 10_560, 20_000), "sim": (4, 40, 0)}
SHORT_WINDOWS = {"null": 2000, "gpu": 400, "sim": 4}


class Bench:
    def __init__(self, bed, where):
        self.bed, self.where = bed, where
        self.program = bed.build + "/bin/arbiter_bench"
        self.evict_kb = 0
        self.counts = {}

    def build_variants(self):
        """`cupola build` of the modules whose kernels are to have variants."""
        files = []
        for kind in ("short", "long"):
            files.append(f"{self.bed.folder}/{kind}.ptx")
            with open(files[-1], "wb") as file:
                file.write(runner.run([self.program, "ptx", kind], self.bed.environ, 30)["stdout"])
        code, text = self.bed.run_tool(["build", *files], 100)
        if code != 0:
            raise corun.Failed(f"cupola build: {runner.describe_code(code)} {text[-400:]}")

    def arguments(self, kind, seed, share=1):
        windows, blocks, block_ns = LONG[self.where]
        if kind != "long":
            windows = SHORT_WINDOWS[self.where]
        return [kind, "--windows", str(max(2, windows // share)), "--blocks", str(blocks),
                "--block-ns", str(block_ns), "--seed", str(seed), "--evict-kb", str(self.evict_kb),
                "--core", str(min(1, (os.cpu_count() or 1) - 1))]

    def run(self, system, kind, arguments):
        """One process, plain or registered with the arbiter that runs; its figures."""
        environ = {**self.bed.environ, **self.bed.additions}
        under = []
        if system == "plain":
            environ.pop("CUPOLA_SOCKET", None)
        else:
            environ.update({"CUPOLA_STORE": self.bed.store, "CUPOLA_LOG": "info"})
            if self.where == "sim":  # its times mean nothing, so nothing is predicted to be long
                environ["CUPOLA_PREEMPT"] = "always" if kind == "long" else "auto"
            if self.where == "null":
                environ.update({"LD_PRELOAD": self.bed.build + "/lib/libcupola.so",
                                "CUPOLA_DRIVER": self.null_driver() + "/libcuda.so.1"})
                if kind == "long":  # nothing takes any time
                    environ["CUPOLA_PREEMPT"] = "always"
            else:
                under = runner.cupola_command(self.bed.build, self.where)
        job = corun.Job(under + [self.program, *arguments], environ, self.bed.log)
        result = job.result(60)
        if result["blocks_wrong"] != 0 and self.where != "null":
            raise corun.Failed(f"{kind}, {system}: {result['blocks_wrong']} blocks did not run "
                               "exactly once")
        if system == "cupola":
            self.check_form(job, kind, len(result["ns"]))
        return result

    def check_form(self, job, kind, launches):
        """Whether what was measured went out as it was meant to."""
        self.bed.phase = self.where
        self.bed.count(job, kind)
        preemptible = sum(int(line.split("preemption: ", 1)[1].split()[0])
                          for line in job.err.splitlines() if "launches preemptible" in line)
        if kind == "long" and preemptible < launches or kind != "long" and preemptible != 0:
            raise corun.Failed(f"{kind}: {preemptible} launches of {launches} or more were made "
                               f"preemptible: {job.err[-300:]}")

    def null_driver(self):
        """Its folder."""
        found = self.bed.build + "/null_board"
        return found if os.path.isdir(found) else self.bed.build + "/tests/preload/null_board"

    def real_driver(self):
        """Another name for the driver: a way past Cupola."""
        if self.where == "null":
            return self.null_driver() + "/past_cupola.so"
        link = self.bed.folder + "/past_cupola.so"
        if not os.path.islink(link):
            os.symlink(launch_cost.real_driver(self.bed.build, self.where, self.bed.environ), link)
        return link

    def in_process(self, kind, processes, share):
        """Windows through Cupola and past it in turns, in each of some processes."""
        results = []
        for seed in range(1, processes + 1):
            results.append(self.run("cupola", kind, ["ab", self.real_driver(),
                                                     *self.arguments(kind, seed, share)]))
        return summarize(kind, results)

    def in_processes(self, kind, pairs, share):
        """Plain processes and registered ones in turns: a check of the whole."""
        figures = ([], [])
        for turn, first in enumerate(sampling.orders(pairs, 1)):
            for which in (first, 1 - first):
                result = self.run(("plain", "cupola")[which], kind,
                                  ["time", *self.arguments(kind, turn + 1, share)])
                figures[which].append(sampling.median(result["ns"]))
        middle, low, high = sampling.paired_difference(*figures)
        return {f"arbiter_added_processes_ns_{kind}": round(middle, 1),
                f"arbiter_added_processes_ns_{kind}_ci_low": round(low, 1),
                f"arbiter_added_processes_ns_{kind}_ci_high": round(high, 1)}


def windows_of(result, key):
    size = result["window"]
    return [result[key][i:i + size] for i in range(0, len(result[key]), size)]


def summarize(kind, results):
    """Added: the median over windows of the difference between the medians of a window through
    Cupola and of the one past it that it was paired with; p99: the difference of the percentiles.
    """
    plain, added, first = [], [], []
    for result in results:
        for past, through in zip(windows_of(result, "past_ns"), windows_of(result, "ns"),
                                 strict=True):
            plain.append(sampling.median(past))
            added.append(sampling.median(through) - plain[-1])
            first.append(through[0] - past[0])
    low, high = sampling.bootstrap(added, resamples=1000)
    p99 = {key: sampling.percentile([ns for result in results for ns in result[key]], 0.99)
           for key in ("ns", "past_ns")}
    return {f"arbiter_plain_ns_{kind}": round(sampling.median(plain), 1),
            f"arbiter_plain_ns_{kind}_p99": round(p99["past_ns"], 1),
            f"arbiter_added_ns_{kind}": round(sampling.median(added), 1),
            f"arbiter_added_ns_{kind}_ci_low": round(low, 1),
            f"arbiter_added_ns_{kind}_ci_high": round(high, 1),
            f"arbiter_added_ns_{kind}_p99": round(p99["ns"] - p99["past_ns"], 1),
            f"arbiter_added_ns_{kind}_first": round(sampling.median(first), 1)}


def measure(bed, wheres, quick, seconds_left, save):
    """{"metrics", "detail", "good"}. What is measured over the null driver begins with null_."""
    metrics, detail, good = {}, {"failures": []}, True
    for where in wheres:
        bench = Bench(bed, where)
        prefix = "null_" if where == "null" else ""
        processes, share = (1, 20) if quick else (3 if where == "null" else 4, 1)
        with contextlib.ExitStack() as stack:
            try:
                bench.build_variants()
                stack.enter_context(bed.arbiter(corun.config("hpf", {})))
                for kind in KINDS:
                    found = bench.in_process(kind, processes, share)
                    metrics.update({prefix + name: value for name, value in found.items()})
                    save(metrics, detail)
                for kind in KINDS if where != "null" else ():
                    if seconds_left() < 15:
                        detail["failures"].append(f"no time for pairs of processes, {kind}")
                        continue
                    metrics.update(bench.in_processes(kind, 1 if quick else 6, share))
            except (corun.Failed, OSError, ValueError, KeyError) as error:
                detail["failures"].append(f"{where}: {error}")
                good = False
    detail["counts"] = bed.counts
    return {"metrics": metrics, "detail": detail, "good": good}
