"""Narrow tasks: how many a second, as tasks of a MasterKernel, on streams, as a graph and fused, and how
long one takes; narrow_bench.cu is what runs. Its launches on streams also as tasks, by `cupola run`. Standard
library only."""
import json
import os
import statistics
import subprocess
import tempfile

import corun
import machine
import narrow_beside
import runner

# Iterations of narrow_bench's bodies whose blocks take about so long alone on an H200.
ITERATIONS = {"1us": 30, "13us": 1700, "46us": 6500}
# Launches that gain little or nothing as tasks: {name: (mode, iterations, more)}.
LONG = {"one_stream_46us": ("streams1", 6500, ["--tasks", "4096"]),
        "one_stream_7_blocks_13us": ("streams1", 1700, ["--tasks", "8192", "--blocks", "7"]),
        "7_blocks_13us": ("streams32", 1700, ["--blocks", "7"]),
        "7_blocks_100us": ("streams32", 14000, ["--tasks", "8192", "--blocks", "7"])}
MODES = ["fused", "api", "apix8", "streams32", "streams32x8", "graph"]
SECTIONS = {"rates": 45, "single": 5, "unmodified": 60, "beside": 45}  # about the seconds of each


class Bench:
    def __init__(self, build, device, quick, out, seconds_left, earlier):
        self.build, self.device, self.quick, self.out = build, device, quick, out
        self.seconds_left = seconds_left
        self.metrics, self.detail = earlier.get("metrics", {}), earlier.get("detail", {})
        self.detail["failures"] = []

    @property
    def program(self):
        form = "static" if self.device == "gpu" else "shared"
        return f"{self.build}/apps/tasks/narrow_bench_{form}"

    def run(self, arguments, seconds, store=None):
        """The lines that narrow_bench prints; None, with a word of why, where it fails. With the variants
        of a store its launches may become tasks."""
        command = [self.program, *arguments]
        if self.device == "sim" or store:
            command = runner.cupola_command(self.build, self.device) + command
        # As many hardware queues as there may be, for the streams.
        environ = {**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": "32"}
        environ.update({"CUPOLA_STORE": store} if store else {"CUPOLA_TASKS": "off"})
        result = runner.run(command, environ, min(seconds, self.seconds_left()))
        if result["code"] != 0:
            self.detail["failures"].append(
                f"{' '.join(arguments)}: {runner.describe_code(result['code'])} "
                f"{result['stderr'].decode(errors='replace')[-300:]}")
            return None
        return [json.loads(line) for line in result["stdout"].decode().splitlines()]

    def rates(self):
        for name in ITERATIONS:
            self.rates_of(name)

    def rates_of(self, name):
        """All modes by turns in one process."""
        size = ["--tasks", "200", "--threads", "40", "--repeat", "1"] if self.quick else [
            "--repeat", "9"]
        iterations = "3" if self.quick else str(ITERATIONS[name])
        lines = self.run([*size, "--iterations", iterations, "--modes", ",".join(MODES)], 90)
        self.detail[name] = lines
        for line in lines or []:
            if line["mode"] in MODES:
                self.metrics[f"tasks_per_s_{line['mode']}_{name}"] = line["tasks_per_s"]

    def unmodified_of(self, mode, iterations, size, store):
        """How much faster launches on streams are as tasks; both by turns, a process each."""
        rates = {None: [], store: []}
        for which in (None, store, store, None):
            lines = self.run([*size, "--iterations", iterations, "--modes", mode], 40, which)
            self.detail.setdefault("unmodified", []).append(
                {"mode": mode, "iterations": iterations, "tasks": which is not None, "lines": lines})
            rates[which] += [line["tasks_per_s"] for line in lines or [] if line["mode"] == mode]
        if all(rates.values()):
            return round(statistics.median(rates[store]) / statistics.median(rates[None]), 3)
        return None

    def unmodified(self):
        self.detail.pop("unmodified", None)
        with tempfile.TemporaryDirectory() as store:
            built = subprocess.run([f"{self.build}/bin/cupola", "build", "--quiet", "--store", store,
                                    self.program], capture_output=True, text=True, timeout=120)
            if built.returncode != 0:
                self.detail["failures"].append(f"cupola build: {built.stderr[-300:]}")
                return
            few = ["--tasks", "200", "--threads", "40", "--repeat", "1"]
            for name, iterations in ITERATIONS.items():
                found = self.unmodified_of("streams32", "3" if self.quick else str(iterations),
                                           few if self.quick else ["--repeat", "5"], store)
                if found:
                    self.metrics[f"unmodified_speedup_{name}"] = found
            found = self.unmodified_of("streams1", "3", few if self.quick else ["--repeat", "5"],
                                       store)
            if found:
                self.metrics["dependent_stream_speedup"] = found
            for name, (mode, iterations, more) in LONG.items():
                blocks = more[2:]
                size = [*few, *blocks] if self.quick else ["--repeat", "5", *more]
                found = self.unmodified_of(mode, "3" if self.quick else str(iterations), size,
                                           store)
                if found:
                    self.metrics[f"unmodified_ratio_{name}"] = found

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

    def beside(self):
        bed = corun.Bed(self.build, self.device, self.out)
        try:
            found, self.detail["beside"] = narrow_beside.measure(bed, self.quick,
                                                                 self.detail["failures"])
            self.metrics.update(found)
        except corun.Failed as failure:
            self.detail["failures"].append(f"beside: {failure}")
        finally:
            bed.close()


def measure(build, device, quick, out, seconds_left, save, sections, earlier, facts):
    """{"metrics", "detail", "good"}. A section that fails is named and leaves its metrics out. What
    `earlier` has of other sections stays; detail["measured"] says of each where it is from."""
    bench = Bench(build, device, quick, out, seconds_left, earlier)
    for section in sections:
        if seconds_left() < 10:
            bench.detail["failures"].append("no time left")
            break
        began = seconds_left()
        getattr(bench, section)()
        machine.note_measured(bench.detail, section, facts, began - seconds_left())
        save(bench.metrics, bench.detail)
    # By one host thread against one, by eight against eight; a graph is launched by one call.
    for api, mode in (("api", "streams32"), ("api", "graph"), ("apix8", "streams32x8"),
                      ("apix8", "streams32"), ("apix8", "graph")):
        for name in ITERATIONS:
            tasks, other = (bench.metrics.get(f"tasks_per_s_{which}_{name}")
                            for which in (api, mode))
            if tasks and other:
                by = "" if api == "api" else "apix8_"
                bench.metrics[f"{by}speedup_over_{mode}_{name}"] = round(tasks / other, 2)
    return {"metrics": bench.metrics, "detail": bench.detail, "good": not bench.detail["failures"]}
