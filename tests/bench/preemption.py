"""A short kernel of high priority beside a batch process, plain and under Cupola in turns.

The matrix {plain, cupola} x {nomps, mps} x {20us, 200us blocks}, in short rounds of fresh processes
(the batch's kernel as `cupola tune` finds it to stop soonest within a bound, with blocks of that
length) so that drift of the machine falls on both; and each program alone, the short one under MPS
too (hp_{p50,p99}_us_alone_mps: no launch beside another process is sooner). Gives the metrics
hp_p50_us_*, hp_p99_us_*, batch_rate_ratio_*; the detail has a summary of each cell's samples. Without MPS also
hp_{p50,p99}_us_switch_nomps: both programs plain, beside a kernel of one thread that leaves at once when a
word in memory asks it to, which is the least that a change of context takes. Standard library only."""
import contextlib
import json
import sys
import tempfile

import corun
import result_file
import sampling

PRIORITIES = {"high": {"priority": 10}, "batch": {"priority": 0}}
BLOCK_US = (20, 200)
SYSTEMS = ("plain", "cupola")
# By the blocks' length in us and the way of sharing: how much of the batch's rate a sooner stop may
# cost, which is what 2 % leave beside a stop every 4 ms (under MPS SMs lie idle until the short kernel's
# launch comes; longer blocks leave SMs idle longer as they end); L and workers to try.
TUNING = {20: {"nomps": ("1.25", ["1", "2"], ["5"]), "mps": ("1.05", ["1", "2", "3"], ["5"])},
          200: {sharing: ("0.82", ["1"], ["5", "6", "7"]) for sharing in ("nomps", "mps")}}
SIM_BATCH = ["--blocks", "40", "--rounds", "100"]  # some ms on the simulated device
SIM_HIGH = ["--blocks", "2", "--rounds", "50", "--least-us", "20000", "--most-us", "30000"]


class Matrix:
    def __init__(self, bed, samples, rounds, seconds_left, block_us, raw):
        self.blocks = {f"{us}us": us for us in block_us}
        self.bed, self.rounds, self.seconds_left, self.raw = bed, rounds, seconds_left, raw
        self.samples = max(1, samples // rounds)  # of one round
        self.sim = bed.device == "sim"
        self.cells = {}  # (system, sharing, block) -> {"us": [...], "kernels": n, "seconds": s}
        self.failures = []
        self.systems = SYSTEMS
        self.plans = {}  # of the batch program, by sharing and block
        self.sums = {}  # checksums by program: all must be equal

    def fail(self, what, error):
        self.failures.append(f"{what}: {error}")
        print(f"preemption: {self.failures[-1]}", file=sys.stderr, flush=True)

    def tune(self):
        """Tunes for each length of block and way of sharing, once for equal settings. Returns what was found."""
        found = {}
        for block, us in self.blocks.items():
            tuning = TUNING[min(TUNING, key=lambda each: abs(each - us))]
            for sharing, settings in tuning.items():
                same = next((each for each in tuning if tuning[each] == settings), sharing)
                if same == sharing:
                    found[f"{sharing}_{block}"] = self.tune_for(sharing, block, *settings)
                self.plans[sharing, block] = self.plans[same, block]
        return found

    def tune_for(self, sharing, block, bound, batches, workers):
        """Finds which L and how many workers stop the batch's kernel soonest within the bound. Returns what was
        tried. The kernels of both programs have the same name, so only the batch program gets the plan."""
        us = self.blocks[block]
        batch = [self.bed.program("preemption_batch"), "--block-us", str(us), "--no-times",
                 "--kernels", "6" if self.sim else "120", *(SIM_BATCH if self.sim else [])]
        profile, plan = (f"{self.bed.folder}/batch_{sharing}_{block}.{kind}" for kind in ("json", "plan"))
        for arguments in (
                ["tune", "--device", self.bed.device, "--out", profile, "--bound", bound, "--batches",
                 *batches, "--workers", *workers, "--rounds", "1" if self.sim else "10",
                 "--preemptions", "0", "--", *batch],
                ["train", profile, "--out", plan]):
            code, text = self.bed.run_tool(arguments, 60)
            if code != 0:
                raise corun.Failed(f"cupola {arguments[0]}: exit {code} {text[-400:]}")
        self.plans[sharing, block] = plan
        with open(profile) as file:
            kernels = json.load(file)["kernels"]
        return next(kernel["tuned"] for kernel in kernels if "tuned" in kernel)

    def high(self, system, count, seed, *more):
        self.bed.plan = None
        return self.bed.start(system, "high", [
            self.bed.program("preemption_priority"), "--samples", str(count), "--seed", str(seed),
            "--seconds", "40", *more, *(SIM_HIGH if self.sim else [])])

    def batch(self, system, sharing, block, *how_long):
        self.bed.plan = self.plans.get((sharing, block))
        return self.bed.start(system, "batch", [
            self.bed.program("preemption_batch"), "--block-us", str(self.blocks[block]), *how_long,
            *(SIM_BATCH if self.sim else [])])

    def check(self, name, result):
        if self.sums.setdefault(name, result["checksum"]) != result["checksum"]:
            self.failures.append(f"{name}: checksum {result['checksum']}, not {self.sums[name]}")

    def pair(self, system, sharing, block, seed):
        """One round of a cell: the batch runs, the samples are taken, the batch is ended."""
        batch = self.batch(system, sharing, block, "--seconds", "60", "--until-input-ends")
        try:
            if batch.await_line(30) != "ready":
                raise corun.Failed(f"the batch did not begin: {batch.finish(1)} {batch.err[-300:]}")
            high = self.high(system, self.samples, seed)
            found = high.result(60)
            batch.end_input()
            beside = batch.result(30)
        finally:
            batch.kill()
        self.bed.phase = f"{sharing} {block}"
        self.bed.count(high, "high")
        self.bed.count(batch, "batch")
        self.check("high", found)
        self.check("batch_" + block, beside)
        start = found["start_ns"][0]
        stop = found["start_ns"][-1] + found["turnaround_ns"][-1]
        kernels, seconds = sampling.whole_periods(beside["done_ns"], start, stop)
        cell = self.cells.setdefault((system, sharing, block),
                                     {"us": [], "kernels": 0, "seconds": 0.0, "rates": []})
        us = [ns / 1000 for ns in found["turnaround_ns"]]
        self.raw.keep(f"{system} {sharing} {block}", us)
        cell["us"] += us
        cell["kernels"] += kernels
        cell["seconds"] += seconds
        cell["rates"].append(round(kernels / seconds, 2) if seconds else 0)

    def beside_arbiter(self, rules, work):
        """Calls `work` while an arbiter runs. If none can run, `work` measures plain programs only."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self.bed.arbiter(rules))
                self.systems = SYSTEMS
            except (corun.Failed, OSError) as error:
                self.fail("no arbiter, so plain only", error)
                self.systems = SYSTEMS[:1]
            return work()

    def sharing(self, sharing):
        for turn in range(self.rounds):
            for block in self.blocks:
                for system in self.systems if turn % 2 == 0 else reversed(self.systems):
                    if self.seconds_left() < 15:
                        self.fail(f"{sharing} {block}", f"no time for round {turn}")
                        continue
                    try:
                        self.pair(system, sharing, block, seed=turn + 1)
                    except (corun.Failed, OSError, ValueError) as error:
                        self.fail(f"{system} {sharing} {block}", error)

    def switch(self):
        """The short kernel beside one that holds the GPU until a word in memory asks it to leave, both plain."""
        with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="cupola-switch-") as word:
            holder = self.bed.start("plain", "holder", [
                self.bed.program("preemption_holder"), "--word", word.name, "--until-input-ends"])
            try:
                if holder.await_line(30) != "ready":
                    raise corun.Failed(f"the holder: {holder.finish(1)} {holder.err[-300:]}")
                found = self.high("plain", self.samples, 98, "--word", word.name).result(60)
                holder.end_input()
                held = holder.result(30)
            finally:
                holder.kill()
        asked = held["kernels"] - held["given_up"]
        if asked < (1 if self.sim else self.samples):
            raise corun.Failed(f"only {asked} of {held['kernels']} kernels were asked to leave")
        return [round(ns / 1000, 1) for ns in found["turnaround_ns"]]

    def high_alone(self, sharing):
        """The short kernel by itself, plain: microseconds."""
        found = self.high("plain", self.samples * self.rounds if not self.sim else 2, 99)
        us = [round(ns / 1000, 1) for ns in found.result(90)["turnaround_ns"]]
        self.raw.keep(f"alone {sharing}", us)
        return us

    def alone(self):
        """The short kernel by itself; the batch too, to see what preemptibility costs."""
        alone = {}
        try:
            alone["high_us"] = self.high_alone("nomps")
            for system in self.systems:
                for block in self.blocks:
                    result = self.batch(system, "nomps", block, "--seconds", "1").result(60)
                    self.check("batch_" + block, result)
                    seconds = (result["done_ns"][-1] - result["start_ns"]) / 1e9
                    alone[f"batch_{system}_{block}"] = round(len(result["done_ns"]) / seconds, 2)
            alone["switch_us"] = self.switch()
            self.raw.keep("switch", alone["switch_us"])
        except (corun.Failed, OSError, ValueError) as error:
            self.fail("alone", error)
        return alone

    def metrics(self, alone):
        metrics = {}
        for (system, sharing, block), cell in self.cells.items():
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                metrics[f"hp_{name}_us_{system}_{sharing}_{block}"] = round(
                    sampling.percentile(cell["us"], share), 1)
        for sharing in ("nomps", "mps"):
            for block in self.blocks:
                both = [self.cells.get((system, sharing, block)) for system in SYSTEMS]
                if all(cell and cell["kernels"] for cell in both):
                    plain, cupola = (cell["kernels"] / cell["seconds"] for cell in both)
                    metrics[f"batch_rate_ratio_{sharing}_{block}"] = round(cupola / plain, 4)
        for what, name in (("high_us", "alone"), ("high_us_mps", "alone_mps"),
                           ("switch_us", "switch_nomps")):
            if alone.get(what):
                metrics[f"hp_p50_us_{name}"] = round(sampling.percentile(alone[what], 0.5), 1)
                metrics[f"hp_p99_us_{name}"] = round(sampling.percentile(alone[what], 0.99), 1)
        return metrics


def measure(bed, samples=2000, rounds=4, seconds_left=lambda: 300.0, save=None, block_us=BLOCK_US,
            look_after_ns=None, raw=None):
    """{"metrics", "detail", "good"}; what fails is in detail["failures"], its metric left out.
    `save` gets the result so far after each way of sharing. `look_after_ns`: how long ranges of blocks
    are at least, between two looks for a stop (docs/preemption.md). `raw`: keeps all samples, result_file.py."""
    if look_after_ns is not None:
        bed.environ["CUPOLA_LOOK_AFTER_NS"] = str(look_after_ns)
    matrix = Matrix(bed, samples, rounds, seconds_left, block_us, raw or result_file.RawSamples())
    detail = {}
    try:
        detail = {"build": bed.build_variants(["preemption_batch", "preemption_priority"])}
        detail["tuned"] = matrix.tune()
    except (corun.Failed, OSError, ValueError, StopIteration) as error:
        matrix.fail("build", error)
    rules = corun.config("hpf", PRIORITIES)
    alone = {}
    for sharing in ("nomps", "mps"):
        try:
            with bed.mps() if sharing == "mps" else contextlib.nullcontext():
                if not alone:
                    alone = matrix.beside_arbiter(rules, matrix.alone)
                if sharing == "mps":
                    alone["high_us_mps"] = matrix.high_alone("mps")
                matrix.beside_arbiter(rules, lambda way=sharing: matrix.sharing(way))
        except (corun.Failed, OSError, ValueError) as error:
            matrix.fail(sharing, error)
        if save:
            save(*results(matrix, detail, alone, samples))
    metrics, detail = results(matrix, detail, alone, samples)
    return {"metrics": metrics, "detail": detail, "good": not matrix.failures}


def results(matrix, detail, alone, samples):
    """(metrics, detail) of what has been measured so far; of samples a summary."""
    cells = {"_".join(key): {**cell, "us": sampling.summary(cell["us"])} for key, cell in matrix.cells.items()}
    bed = matrix.bed
    return matrix.metrics(alone), {
        **detail, "cells": cells, "alone": summary_of_alone(alone), "failures": matrix.failures,
        "counts": bed.counts, "mps": bed.has_mps(), "samples_a_cell": samples,
        "rounds": matrix.rounds}


def summary_of_alone(alone):
    """Rates as they are; of samples a summary."""
    return {name: sampling.summary(value) if isinstance(value, list) else value for name, value in alone.items()}
