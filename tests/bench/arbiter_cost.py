"""What a launch call costs the host where an arbiter runs and nobody contends: plain CUDA and
Cupola in turns, short launches and long ones, over a null driver and on a device.

tests/bench/arbiter_bench.cpp makes and times the launches. Figures are nanoseconds;
docs/results/launch-cost.md says how each is measured. Standard library only."""
import contextlib
import os
import sys
import time

import corun
import launch_cost
import runner
import sampling

# short: a kernel with a variant, one block; unknown: one that has none; long: launched as a variant
# with its guard.
KINDS = ("short", "unknown", "long")
# Of a process: windows of 16 launches, blocks of the long kernel, nanoseconds of a block.
LONG = {"null": (2000, 10_560, 0), "gpu": (128, 10_560, 20_000), "sim": (4, 40, 0)}
SHORT_WINDOWS = {"null": 2000, "gpu": 1000, "sim": 4}
PAUSE_US = 200  # after which demand has ended
PROCESSES, PROCESSES_BESIDE = 9, 5  # an odd number of each, so that the median is one of them
SECONDS = 130
RULES = {"idle": {"priority": 10}}


class Bench:
    def __init__(self, bed, where):
        self.bed, self.where = bed, where
        self.program = bed.build + "/bin/arbiter_bench"
        self.more = []  # options of arbiter_bench
        self.beside_idle = False

    def build_variants(self):
        """`cupola build` of the modules whose kernels are to have variants."""
        files = []
        for kind in ("short", "long"):
            files.append(f"{self.bed.folder}/{kind}.ptx")
            with open(files[-1], "wb") as file:
                file.write(runner.run([self.program, "ptx", kind], self.bed.environ, 30)["stdout"])
        self.bed.build_files(files)

    def arguments(self, kind, seed, share):
        """The arguments of arbiter_bench. `share`: one in so many of the windows is measured."""
        windows, blocks, block_ns = LONG[self.where]
        if kind != "long":
            windows = SHORT_WINDOWS[self.where]
        return [kind, "--windows", str(max(2, windows // share)), "--blocks", str(blocks),
                "--block-ns", str(block_ns), "--seed", str(seed),
                "--core", str(min(1, (os.cpu_count() or 1) - 1)), *self.more]

    def start(self, system, kind, arguments, label="bench"):
        """Starts one process, plain or registered with the arbiter that runs."""
        environ = {**self.bed.environ, **self.bed.additions}
        under = []
        if system == "plain":
            environ.pop("CUPOLA_SOCKET", None)
        else:
            # Short launches in a row would become tasks, but launches are to be measured.
            environ.update({"CUPOLA_STORE": self.bed.store, "CUPOLA_LOG": "info",
                            "CUPOLA_LABEL": label, "CUPOLA_TASKS": "off"})
            # By itself the kernel would be launched plain: nobody may ask the process to yield, and where kernels
            # take no time none is predicted to be long.
            if kind == "long" and not (self.where == "gpu" and self.beside_idle):
                environ["CUPOLA_PREEMPT"] = "always"
            if self.where == "null":
                environ.update({"LD_PRELOAD": self.bed.build + "/lib/libcupola.so",
                                "CUPOLA_DRIVER": self.null_driver() + "/libcuda.so.1"})
            else:
                under = runner.cupola_command(self.bed.build, self.where)
        return corun.Job(under + [self.program, *arguments], environ, self.bed.log)

    def run(self, system, kind, arguments):
        """Runs a process to its end. Returns its figures."""
        job = self.start(system, kind, arguments)
        result = job.result(60)
        if result["blocks_wrong"] != 0 and self.where != "null":
            raise corun.Failed(f"{kind}, {system}: {result['blocks_wrong']} blocks did not run "
                               "exactly once")
        if system == "cupola":
            self.check_form(job, kind, len(result["ns"]))
        return result

    def check_form(self, job, kind, launches):
        """Checks that what was measured went out in the form that was meant."""
        self.bed.phase = self.where
        self.bed.count(job, kind)
        preemptible = sum(int(line.split("preemption: ", 1)[1].split()[0])
                          for line in job.err.splitlines() if "launches preemptible" in line)
        if (kind == "long" and preemptible < launches) or (kind != "long" and preemptible != 0):
            raise corun.Failed(f"{kind}: {preemptible} launches of {launches} or more were made "
                               f"preemptible: {job.err[-300:]}")

    def null_driver(self):
        """The folder of the null driver."""
        found = self.bed.build + "/null_board"
        return found if os.path.isdir(found) else self.bed.build + "/tests/preload/null_board"

    def past_cupola(self):
        if self.where == "null":
            return self.null_driver() + "/past_cupola.so"
        return launch_cost.past_cupola(self.bed.folder, self.bed.build, self.where, self.bed.environ)

    def in_process(self, kind, processes, share):
        """Measures windows through Cupola and past it in turn, in each of some processes."""
        return [self.run("cupola", kind, ["ab", self.past_cupola(),
                                          *self.arguments(kind, seed, share)])
                for seed in range(1, processes + 1)]

    def in_processes(self, kind, pairs, share):
        """Measures plain processes and registered ones in turn, as a check of the whole."""
        figures = ([], [])
        for turn, first in enumerate(sampling.orders(pairs, 1)):
            for which in (first, 1 - first):
                result = self.run(("plain", "cupola")[which], kind,
                                  ["time", *self.arguments(kind, turn + 1, share)])
                figures[which].append(sampling.median(result["ns"]))
        middle, low, high = sampling.paired_difference(*figures)
        return {f"arbiter_added_ns_{kind}_processes": round(middle, 1),
                f"arbiter_added_ns_{kind}_processes_ci_low": round(low, 1),
                f"arbiter_added_ns_{kind}_processes_ci_high": round(high, 1)}

    @contextlib.contextmanager
    def idle_process(self):
        """Another program that is registered, may stop the others, and wants nothing."""
        job = self.start("cupola", "short", ["idle", "short"], "idle")
        try:
            if job.await_line(30) != "ready":
                raise corun.Failed(f"the idle process did not begin: {job.finish(1)}")
            self.beside_idle = True
            yield
            job.end_input()
            job.finish(20)
        finally:
            self.beside_idle = False
            job.kill()


def windows_of(result, key):
    size = result["window"]
    return [result[key][i:i + size] for i in range(0, len(result[key]), size)]


def mean(values):
    return sum(values) / len(values)


def added_by(results, statistic):
    """For each pair of windows: the figure of the one through Cupola less that of the one past it."""
    return [statistic(through) - statistic(past) for result in results
            for past, through in zip(windows_of(result, "past_ns"), windows_of(result, "ns"),
                                     strict=True)]


def added_of_processes(results, statistic):
    """Of each process the median over its pairs of windows: one process is slower than the next by some
    100 ns, from its first window to its last. Of one process: of each pair."""
    if len(results) == 1:
        return added_by(results, statistic)
    return [sampling.median(added_by([result], statistic)) for result in results]


def summarize(name, results):
    """Added: the median over processes of that over pairs of windows of the difference between their
    medians, and of that between their means; p99: the difference of the percentiles of single launches."""
    past = [ns for result in results for ns in result["past_ns"]]
    through = [ns for result in results for ns in result["ns"]]
    p99 = sampling.percentile(past, 0.99)
    added = added_of_processes(results, sampling.median)
    low, high = sampling.bootstrap(added, resamples=1000)
    return {f"arbiter_plain_ns_{name}": round(sampling.median(past), 1),
            f"arbiter_plain_ns_{name}_p99": round(p99, 1),
            f"arbiter_added_ns_{name}": round(sampling.median(added), 1),
            f"arbiter_added_ns_{name}_ci_low": round(low, 1),
            f"arbiter_added_ns_{name}_ci_high": round(high, 1),
            f"arbiter_added_ns_{name}_mean": round(
                sampling.median(added_of_processes(results, mean)), 1),
            f"arbiter_added_ns_{name}_p99": round(sampling.percentile(through, 0.99) - p99, 1)}


def first_of_bursts(kind, results):
    first = added_by(results, lambda window: window[0])
    low, high = sampling.bootstrap(first, resamples=1000)
    return {f"arbiter_added_ns_{kind}_first": round(sampling.median(first), 1),
            f"arbiter_added_ns_{kind}_first_ci_low": round(low, 1),
            f"arbiter_added_ns_{kind}_first_ci_high": round(high, 1)}


def steps_of(bench, quick):
    """The steps, the most wanted first: calls that return metrics."""
    processes, share = (1, 20) if quick else (PROCESSES, 2)
    for kind in KINDS:
        yield lambda kind=kind: summarize(kind, bench.in_process(kind, processes, share))

    beside = 1 if quick else PROCESSES_BESIDE

    def beside_idle(kind):
        with bench.idle_process():
            return summarize(f"{kind}_beside_idle", bench.in_process(kind, beside, share))

    def with_options(options, summary):
        bench.more = options
        try:
            return summary(bench.in_process("short", 1, share))
        finally:
            bench.more = []

    yield lambda: with_options(["--legacy", "1"],
                               lambda found: summarize("short_default_stream", found))
    yield lambda: with_options(["--pause-us", str(PAUSE_US)],
                               lambda found: first_of_bursts("short", found))
    for kind in ("short", "long"):
        yield lambda kind=kind: beside_idle(kind)
    for kind in ("short", "long") if bench.where != "null" else ():
        yield lambda kind=kind: bench.in_processes(kind, 1 if quick else 4, share)


FAILURES = (corun.Failed, OSError, ValueError, KeyError)


def measure(bed, wheres, quick, seconds_left, save):
    """{"metrics", "detail", "good"}. What is measured over the null driver begins with null_. A step
    that fails is named and leaves its metrics out."""
    metrics, detail = {}, {"failures": []}
    started = time.monotonic()

    def measure_in(bench, prefix):
        for step in steps_of(bench, quick):
            if min(seconds_left(), SECONDS - (time.monotonic() - started)) < 8:
                detail["failures"].append(f"{bench.where}: no time left")
                return
            try:
                metrics.update({prefix + name: value for name, value in step().items()})
            except FAILURES as error:
                detail["failures"].append(f"{bench.where}: {error}")
            save(metrics, detail)

    for where in wheres:
        bench = Bench(bed, where)
        try:
            bench.build_variants()
            with bed.arbiter(corun.config("hpf", RULES)):
                measure_in(bench, "null_" if where == "null" else "")
        except FAILURES as error:
            detail["failures"].append(f"{where}: {error}")
    detail["counts"] = bed.counts
    detail["seconds"] = round(time.monotonic() - started, 1)
    for failure in detail["failures"]:
        print(f"arbiter_cost: {failure}", file=sys.stderr)
    return {"metrics": metrics, "detail": detail, "good": not detail["failures"]}
