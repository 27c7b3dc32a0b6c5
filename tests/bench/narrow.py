"""Narrow tasks: how many a second, as tasks of a MasterKernel, on streams, as a graph and fused, and how
long one takes; narrow_bench.cu is what runs. Its launches on streams also as tasks, by `cupola run`. How a
MasterKernel leaves that is idle or asked to, and what others lose to it (narrow_idle.py). Standard library
only."""
import contextlib
import json
import os
import statistics
import sys
import tempfile

import corun
import launch_cost
import machine
import narrow_beside
import narrow_idle
import pagoda_metrics as m
import runner
import sampling

# Iterations of narrow_bench's bodies whose blocks take about so long alone on an H200.
ITERATIONS = {"1us": 30, "13us": 1700, "46us": 6500}
# Launches that gain little or nothing as tasks: {name: (mode, iterations, tasks, blocks, turns)}. In the
# last one the host is busy with launches, which takes more processes to tell.
LONG = {"one_stream_46us": ("streams1", 6500, 4096, 1, 3),
        "one_stream_7_blocks_13us": ("streams1", 1700, 8192, 7, 3),
        "7_blocks_13us": ("streams32", 1700, 32768, 7, 3),
        "7_blocks_100us": ("streams32", 14000, 8192, 7, 7)}
TURNS_IN_PROCESS = ["7_blocks_100us"]
MODES = ["fused", "api", "apix8", "streams32", "streams32x8", "graph"]
# Processes of each sort, by twos: plain launches take up to 1.4 times as long in one as in another, tasks
# up to twice (docs/results/narrow-tasks.md, "Putting tasks in").
TURNS = 3
SECTIONS = {"rates": 20, "single": 5, "unmodified": 70, "long": 90, "beside": 80,
            "idle": 90}  # about the seconds of each
QUICK = ["--repeat", "1", "--tasks", "200", "--threads", "40"]


def ratio_of_fast(plain, tasks):
    """How many times the rate of the fast plain processes the fast processes with tasks have."""
    return sampling.percentile(tasks, 0.75) / sampling.percentile(plain, 0.75)


def note_speedups(metrics):
    """Notes speed-ups, one host thread against one and eight against eight; a graph is launched by one call."""
    for api, mode in (("api", "streams32"), ("api", "graph"), ("apix8", "streams32x8"),
                      ("apix8", "streams32"), ("apix8", "graph")):
        for name in ITERATIONS:
            tasks, other = (metrics.get(f"tasks_per_s_{which}_{name}") for which in (api, mode))
            if tasks and other:
                by = "" if api == "api" else "apix8_"
                metrics[f"{by}speedup_over_{mode}_{name}"] = round(tasks / other, 2)


class Bench:
    def __init__(self, build, device, quick, out, seconds_left, earlier):
        self.build, self.device, self.quick, self.out = build, device, quick, out
        self.seconds_left = seconds_left
        self.metrics, self.detail = earlier.get("metrics", {}), earlier.get("detail", {})
        self.failures = []  # of the section that is being measured
        m.adopt_failures(self.detail)

    def fail(self, what):
        self.failures.append(what)
        print(f"narrow: {what}", file=sys.stderr, flush=True)

    def program(self, name="narrow_bench"):
        form = "static" if self.device == "gpu" else "shared"
        return f"{self.build}/apps/tasks/{name}_{form}"

    def run(self, arguments, seconds, store=None, program="narrow_bench"):
        """Runs a program. Returns its lines; if it fails, says why and returns None. With the variants of a store
        its launches may become tasks."""
        command = [self.program(program), *arguments]
        if not os.path.exists(command[0]):
            self.fail(f"{command[0]} does not exist")
            return None
        if self.device == "sim" or store:
            command = runner.cupola_command(self.build, self.device) + command
        # As many hardware queues as there may be, for the streams.
        environ = {**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "32"}
        environ.update({"CUPOLA_STORE": store} if store else {"CUPOLA_TASKS": "off"})
        result = runner.run(command, environ, min(seconds, self.seconds_left()))
        if result["code"] != 0:
            self.fail(
                f"{program} {' '.join(arguments)}: {runner.describe_code(result['code'])} "
                f"{result['stderr'].decode(errors='replace')[-300:]}")
            return None
        return [json.loads(line) for line in result["stdout"].decode().splitlines()]

    def rates(self):
        for name in ITERATIONS:
            self.rates_of(name)

    def rates_of(self, name):
        """All modes by turns in one process."""
        size = QUICK if self.quick else ["--repeat", "9"]
        iterations = "3" if self.quick else str(ITERATIONS[name])
        lines = self.run([*size, "--iterations", iterations, "--modes", ",".join(MODES)], 90)
        self.detail[name] = lines
        for line in lines or []:
            if line["mode"] in MODES:
                self.metrics[f"tasks_per_s_{line['mode']}_{name}"] = line["tasks_per_s"]

    def lines_of(self, mode, iterations, tasks, blocks, repeat, store, *more):
        """What narrow_bench prints of one mode."""
        size = QUICK if self.quick else ["--tasks", str(tasks), "--repeat", str(repeat)]
        lines = self.run([*size, "--iterations", "3" if self.quick else str(iterations), "--blocks",
                          str(blocks), "--modes", mode, *more], 40, store)
        return [line for line in lines or [] if line["mode"] == mode]

    def unmodified_of(self, section, store, mode, iterations, turns, tasks=32768, blocks=1):
        """Launches a second on streams: ([of each plain process], [of each with variants]), by turns."""
        rates = {None: [], store: []}
        for which in (1 if self.quick else turns) * (None, store, store, None):
            lines = self.lines_of(mode, iterations, tasks, blocks, 5, which)
            self.detail[section].append(
                {"mode": mode, "iterations": iterations, "blocks": blocks, "tasks": which is not None,
                 "lines": lines})
            rates[which] += [line["tasks_per_s"] for line in lines]
        return rates[None], rates[store]

    @contextlib.contextmanager
    def variants(self):
        """A store with the variants of narrow_bench; None where they can't be built."""
        with tempfile.TemporaryDirectory() as store:
            problem = runner.build_variants(self.build, store, self.program())
            if problem:
                self.fail(problem)
            yield None if problem else store

    def unmodified(self):
        """How much faster launches are that become tasks: medians of processes."""
        self.detail["unmodified"] = []
        wanted = {f"unmodified_speedup_{name}": ("streams32", iterations)
                  for name, iterations in ITERATIONS.items()}
        wanted["dependent_stream_speedup"] = ("streams1", 3)
        with self.variants() as store:
            for metric, (mode, iterations) in wanted.items() if store else ():
                self.metrics.pop(metric, None)
                plain, tasks = self.unmodified_of("unmodified", store, mode, iterations, TURNS)
                if plain and tasks:
                    self.metrics[metric] = round(statistics.median(tasks) / statistics.median(plain), 3)

    def long(self):
        """Measures that launches lose nothing by tasks that do not pay. A process is slow or fast in all of its
        rounds, under Cupola or not; at times half of the processes are slow, and then a median falls into the
        gap. So the fast processes of both sorts are compared (upper quartile); and, where the host is what is
        busy, rounds through Cupola and past it within each of some processes."""
        self.detail["long"] = []
        with self.variants() as store:
            for name, (mode, iterations, tasks, blocks, turns) in LONG.items() if store else ():
                rates = self.unmodified_of("long", store, mode, iterations, turns, tasks, blocks)
                self.note_ratio(f"unmodified_ratio_{name}", rates, ratio_of_fast)
            for name in TURNS_IN_PROCESS if store else ():
                self.note_ratio(f"unmodified_turns_ratio_{name}", [self.turns_of(store, *LONG[name])],
                                sampling.median)

    def turns_of(self, store, mode, iterations, tasks, blocks, turns):
        """For each two rounds in turn: how many times as long the one past Cupola took as the one through it."""
        ratios, mode = [], mode.replace("streams", "turns")
        with tempfile.TemporaryDirectory() as folder:
            past = launch_cost.past_cupola(folder, self.build, self.device, os.environ)
            if past is None:
                self.fail("no driver to go past Cupola by")
                return []
            for _ in range(1 if self.quick else turns):
                for line in self.lines_of(mode, iterations, tasks, blocks, 24, store, "--past", past):
                    self.detail["long"].append(line)
                    ratios += [b / a for a, b in zip(line["ms"], line["past_ms"])]
        return ratios

    def note_ratio(self, name, samples, statistic):
        """The metric `name` and its 95 % interval; none where a sample is empty."""
        names = [name, name + "_ci_low", name + "_ci_high"]
        for each in names:
            self.metrics.pop(each, None)
        if all(samples):
            found = statistic(*samples), *sampling.bootstrap_of(samples, statistic)
            self.metrics.update(zip(names, (round(each, 3) for each in found)))

    def single(self):
        lines = self.run(["--modes", "none", "--iterations", "3" if self.quick else "50",
                          "--single", "5" if self.quick else "3000"], 60)
        self.detail["single"] = lines
        for line in lines or []:
            if line["mode"] == "single":
                self.metrics.update({
                    "single_task_us_p50": line["task_us_p50"],
                    "single_task_us_p99": line["task_us_p99"],
                    "launch_and_synchronize_us_p50": line["launch_us_p50"],
                    "launch_and_synchronize_us_p99": line["launch_us_p99"]})
        few = ["--tasks", "100", "--threads", "40", "--repeat", "1"] if self.quick else []
        chain = self.run(["--modes", "chain", "--iterations", "3", *few], 30)
        self.detail["chain"] = chain
        for line in chain or []:
            if line["mode"] == "chain":
                self.metrics["dependent_task_us"] = round(1e6 / line["tasks_per_s"], 3)

    def beside(self):
        self.share_with("beside", narrow_beside.measure)

    def share_with(self, section, measure):
        bed, failures = corun.Bed(self.build, self.device, self.out), []
        try:
            found, self.detail[section] = measure(bed, self.quick, failures)
            self.metrics.update(found)
        except corun.Failed as failure:
            failures.append(f"{section}: {failure}")
        finally:
            bed.close()
        for failure in failures:
            self.fail(failure)

    def leave(self, mode, rounds, us, tasks):
        """Runs task_ends, which measures the time from the call to leave until the MasterKernel is gone."""
        arguments = [mode, *map(str, (3, us, 8) if self.quick else (rounds, us, tasks))]
        return next(iter(self.run(arguments, 30, program="task_ends") or []), None)

    def idle(self):
        leaves = [self.leave("leave", *row) for row in narrow_idle.LEAVES]
        queued = self.leave("queued", *narrow_idle.QUEUED)
        alone = self.run(["--rounds", "4", "--tasks", "8"] if self.quick else ["--rounds", "1000"], 30,
                         program="narrow_idle") or []
        self.detail["leave"] = {"leaves": leaves, "queued": queued, "alone": alone}
        if all(leaves):
            self.metrics.update(narrow_idle.leave_metrics(leaves, queued))
        self.metrics.update(narrow_idle.idle_metrics(alone))
        self.share_with("idle", narrow_idle.beside_batch)


def measure(build, device, quick, out, seconds_left, save, sections, earlier, facts):
    """{"metrics", "detail", "good"}. What fails in a section is named and leaves its metrics out. What
    `earlier` has of other sections stays, failures too; detail["measured"] says of each where it is from."""
    bench, good = Bench(build, device, quick, out, seconds_left, earlier), True
    for section in sections:
        began, bench.failures = seconds_left(), []
        if began < 10:
            bench.fail("no time left")
        else:
            getattr(bench, section)()
            machine.note_measured(bench.detail, section, facts, began - seconds_left())
        m.note_failures(bench.detail, section, bench.failures)
        good &= not bench.failures
        note_speedups(bench.metrics)
        save(bench.metrics, bench.detail)
    return {"metrics": bench.metrics, "detail": bench.detail, "good": good}
