"""A batch process beside one that has bursts of narrow kernels, whose MasterKernel waits on the GPU for a
while behind each burst: both plain; bursts as tasks without an arbiter; both under an arbiter, where the
bursts have priority. With MPS and without. Standard library only."""
import contextlib
import statistics

import corun

SYSTEMS = ("plain", "tasks", "arbiter")
BLOCK_US = 20
PRIORITIES = corun.config("hpf", {"bursts": {"priority": 10}, "batch": {"priority": 0}})


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def rates_of(done, bursts):
    """Kernels and bursts a second between the first burst's begin and the last one's end; both processes have the
    same clock."""
    start, end = bursts["start_ns"], bursts["end_ns"]
    seconds = (end - start) / 1e9
    return sum(start < at <= end for at in done) / seconds, len(bursts["burst_ns"]) / seconds


class Beside:
    def __init__(self, bed, quick, seconds):
        self.bed, self.quick, self.seconds = bed, quick, seconds
        self.metrics, self.detail = {}, []

    def batch(self, system):
        few = ["--blocks", "64", "--rounds", "20"] if self.quick else ["--block-us", str(BLOCK_US)]
        return self.bed.start("cupola" if system == "arbiter" else "plain", "batch",
                              [self.bed.program("preemption_batch"), *few, "--until-input-ends"])

    def bursts(self, system):
        few = ["--launches", "40", "--rounds", "3"] if self.quick else []
        return self.bed.start("plain" if system == "plain" else "cupola", "bursts",
                              [self.bed.program("preemption_bursts"), *few, "--seconds",
                               str(self.seconds)])

    def alone(self, system):
        """Measures the bursts alone."""
        return self.bursts(system).result(60)["burst_ns"]

    def batch_beside(self, system, start_bursts):
        """Kernels of the batch process and bursts a second while bursts come, and the bursts' times."""
        batch = self.batch(system)
        try:
            if batch.await_line(30) is None:
                raise corun.Failed("the batch process did not get ready")
            bursts = start_bursts().result(60)
            batch.end_input()
            done = batch.result(60)["done_ns"]
        finally:
            batch.kill()
        return *rates_of(done, bursts), bursts["burst_ns"]

    def measure(self, sharing, system, rounds):
        """One cell, `rounds` times."""
        arbiter = (self.bed.arbiter(PRIORITIES) if system == "arbiter" else
                   contextlib.nullcontext())
        rates, bursts = [], []
        with arbiter:
            for _ in range(rounds):
                rate, _, found = self.batch_beside(system, lambda: self.bursts(system))
                rates.append(rate)
                bursts += found
            alone = self.alone(system)
        name = f"{system}_{sharing}"
        self.metrics[f"beside_burst_us_p50_{name}"] = round(percentile(bursts, 0.5) / 1000, 1)
        self.metrics[f"beside_burst_us_p99_{name}"] = round(percentile(bursts, 0.99) / 1000, 1)
        self.metrics[f"alone_burst_us_p50_{name}"] = round(percentile(alone, 0.5) / 1000, 1)
        self.metrics[f"beside_batch_per_s_{name}"] = round(statistics.median(rates), 1)
        self.detail.append({"cell": name, "rates": rates, "bursts": len(bursts)})


def measure(bed, quick, failures):
    """(metrics, detail). Cells that fail are named in `failures`."""
    beside = Beside(bed, quick, 0.2 if quick else 1.5)
    bed.build_variants(["preemption_batch", "preemption_bursts"])
    for sharing in ("nomps", "mps"):
        if sharing == "mps" and bed.device == "gpu" and not bed.has_mps():
            continue
        with bed.mps() if sharing == "mps" else contextlib.nullcontext():
            for system in SYSTEMS:
                try:
                    beside.measure(sharing, system, 1 if quick else 2)
                except corun.Failed as failure:
                    failures.append(f"beside {system} {sharing}: {failure}")
    return beside.metrics, beside.detail
