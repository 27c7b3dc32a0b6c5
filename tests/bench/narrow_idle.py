"""A MasterKernel that has nothing to do, or is asked to leave: how soon it is gone, what the first task
behind it takes, and what a batch process loses to one. Standard library only."""
import contextlib
import statistics

import corun
import narrow_beside

# Rounds, microseconds a task, tasks: all of them run when the MasterKernel is asked to leave.
LEAVES = ((300, 1, 264), (300, 100, 264), (200, 1000, 264))
# The same, asked right behind the calls that put the tasks in: most have not begun, and are run first.
QUEUED = (200, 100, 1056)
# Of the narrow process: in a row enough that a MasterKernel comes, which then has nothing to do for most of
# the time that it stays; apart far enough that the batch process has most of the time.
LAUNCHES, PERIOD_US = 64, 2000


def leave_metrics(lines, queued):
    """How much longer than its body the worst of `lines` takes, and how long those take that have not begun."""
    found = {f"leave_us_{p}": round(max(line[f"{p}_us"] - line["task_us"] for line in lines), 1)
             for p in ("p50", "p99")} if lines else {}
    if queued:
        found["leave_queued_us_p50"] = round(queued["p50_us"] - queued["task_us"], 1)
    return found


def idle_metrics(lines):
    """The metrics of the lines that narrow_idle prints."""
    names = {"leaves": {"us_p50": "idle_leave_us_p50", "us_max": "idle_leave_us_max"},
             "after": {"task_us_p50": "after_idle_task_us_p50", "launch_us_p50": "launch_us_p50",
                       "task_us_p99": "after_idle_task_us_p99", "launch_us_p99": "launch_us_p99"}}
    return {name: line[key] for line in lines for key, name in names[line["mode"]].items()}


def loss_pct(rates, base):
    """By how many percent the median of `rates` is below that of `base`; None if there was nothing to lose."""
    before = statistics.median(base)
    return round(100 * (1 - statistics.median(rates) / before), 2) if before else None


class Cells:
    """A batch process beside a narrow one that launches LAUNCHES small kernels into a stream and waits for
    them, every PERIOD_US; by turns. `rates` a second: {(process, system): [rate]}."""

    def __init__(self, bed, quick):
        self.bed, self.quick, self.rates = bed, quick, {}
        self.beside = narrow_beside.Beside(bed, quick, 0.3 if quick else 1.2)

    def narrow(self, system):
        few = ["--rounds", "3", "--behind", "2"] if self.quick else []
        launches, period = (1, 20_000) if self.quick else (LAUNCHES, PERIOD_US)
        command = [self.bed.program("preemption_bursts"), *few, "--launches", str(launches), "--streams", "1",
                   "--period-us", str(period), "--seconds", str(self.beside.seconds)]
        if system == "plain":
            return self.bed.start("plain", "bursts", command)
        self.bed.additions["CUPOLA_TASKS"] = "auto" if system == "tasks" else "off"
        try:
            return self.bed.start("cupola", "bursts", command)
        finally:
            del self.bed.additions["CUPOLA_TASKS"]

    def measure(self, base, has_arbiter):
        """Measures the cells beside "tasks" and beside `base` in turn."""
        arbiter = (self.bed.arbiter(narrow_beside.PRIORITIES) if has_arbiter else
                   contextlib.nullcontext())
        with arbiter:
            for system in (base, "tasks") if self.quick else 2 * (base, "tasks", "tasks", base):
                *rates, _ = self.beside.batch_beside("arbiter" if has_arbiter else "plain",
                                                     lambda which=system: self.narrow(which))
                for process, rate in zip(("batch", "narrow"), rates):
                    self.rates.setdefault((process, system), []).append(rate)

    def metrics(self, base, name):
        found = {f"idle_{process}_per_s_{system}_{name}": round(statistics.median(rates), 1)
                 for (process, system), rates in self.rates.items()}
        for process in ("batch", "narrow"):
            loss = loss_pct(self.rates[process, "tasks"], self.rates[process, base])
            if loss is not None:
                found[f"idle_{process}_loss_pct_{name}"] = loss
        return found


def beside_batch(bed, quick, failures):
    """(metrics, detail). Under an arbiter both processes take part, and the narrow one's launches may be
    tasks, as Cupola finds right, or not; without one, and without MPS (where no launch becomes a task then),
    the narrow one is under Cupola or not. Cells that fail are named in `failures`."""
    bed.build_variants(["preemption_batch", "preemption_bursts"])
    metrics, detail = {}, {}
    for name, base, has_arbiter in (("nomps", "launches", True), ("mps", "launches", True),
                                    ("noarbiter_nomps", "plain", False)):
        if name == "mps" and bed.device == "gpu" and not bed.has_mps():
            continue
        cells = Cells(bed, quick)
        try:
            with bed.mps() if name == "mps" else contextlib.nullcontext():
                cells.measure(base, has_arbiter)
        except corun.Failed as failure:
            failures.append(f"idle {name}: {failure}")
            continue
        metrics.update(cells.metrics(base, name))
        detail[name] = {" ".join(which): rates for which, rates in cells.rates.items()}
    return metrics, detail
