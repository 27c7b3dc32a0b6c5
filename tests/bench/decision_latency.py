#!/usr/bin/env python3
"""How long a client waits for the decision of `cupola serve`, with 1, 10 and 60 clients that want the GPU all the
time and spin while they wait, on a machine whose processors are busy besides.

  tests/bench/decision_latency.py BUILD [--samples N] [--rounds N] [--busy 1,10,60] [--out FOLDER]

BUILD has bin/cupola and bin/decision_bench. No GPU is needed: the clients use the board as Cupola's library does
(decision_bench.cpp). Where they run on a virtual machine, its host may keep a processor from it for milliseconds;
detail.decision_latency has that time as stolen_percent. Each round measures each number of clients with the daemon as
it is shipped and with server.scheduling = "ordinary" (and "nice"), a daemon of its own for each, in an order that is turned from round to
round. The figures go into arbiter_day.json, which other benches share (result_file.py):

  decision_us_p50_N_busy, decision_us_p99_N_busy    from "I have work" to the daemon's decision, as shipped
  decision_us_p50_N_busy_ordinary, ..._nice         the same with the other scheduling
  asked_us_p50_N_busy, asked_us_p99_N_busy          until all others were asked to yield, as shipped: by the client in
                                                    its launch, where the daemon's standing decisions sufficed
                                                    (asked_itself says how often), else by the daemon
  decision_samples_N_busy                           how many launches that is of, for each
  wake_us_p50_N_busy, wake_us_p99_N_busy            of the same rounds: to wake a process at a real-time priority that
                                                    does nothing but look at the clock (decision_bench wake). This is
                                                    the part of a decision that the machine takes; absent where no
                                                    real-time priority is allowed

detail.decision_latency has, for each, also what the client itself saw, how many launches found the standing decisions
enough, the reviews and the processor time of the daemon, and what class it had.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests/bench")]
import machine  # noqa: E402
import result_file  # noqa: E402
import sampling  # noqa: E402

SHIPPED = "shipped"
CHOICES = (SHIPPED, "ordinary", "nice")
TIMEOUT_S = 600
SKIPPED = 77


class Failed(Exception):
    pass


class Bed:
    """One daemon on a socket of its own, and what is started beside it."""

    def __init__(self, build, choice):
        self.bin = os.path.join(build, "bin")
        self.choice = choice
        self.jobs = []
        self.folder = None
        self.daemon = None

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="cupola-decisions-"))
        socket = os.path.join(self.folder, "a.sock")
        self.env = {**{k: v for k, v in os.environ.items() if not k.startswith("CUPOLA")}, "CUPOLA_SOCKET": socket}
        options = []
        if self.choice != SHIPPED:
            options = ["--config", os.path.join(self.folder, "c.toml")]
            with open(options[1], "w", encoding="utf-8") as file:
                file.write(f'[server]\nscheduling = "{self.choice}"\n')
        self.daemon = self.start([os.path.join(self.bin, "cupola"), "serve", *options], "listening on")
        return self

    def __exit__(self, *_):
        for job in reversed(self.jobs):
            job.kill()
        for job in self.jobs:
            job.wait()
            job.stdin.close()
            job.stdout.close()
        self.stack.close()

    def start(self, command, word):
        job = subprocess.Popen(command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
        self.jobs.append(job)
        if not job.stdout.readline().startswith(word):
            raise Failed(f"{' '.join(command)} does not begin")
        return job

    def bench(self, role):
        return self.start([os.path.join(self.bin, "decision_bench"), role], "ready")

    def sample(self, role, samples):
        """What decision_bench measures in that role, or None where the machine does not allow it."""
        done = subprocess.run([os.path.join(self.bin, "decision_bench"), role, str(samples)], env=self.env,
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode == SKIPPED:
            return None
        if done.returncode != 0:
            raise Failed(f"{role}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def show(self):
        done = subprocess.run([os.path.join(self.bin, "cupola"), "ctl", "--json", "show"], env=self.env,
                              capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)

    def processor_s(self):
        with open(f"/proc/{self.daemon.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stolen_s():
    """Seconds in which the machine below this one kept its processors from it, since the start (proc(5), steal)."""
    with open("/proc/stat", encoding="utf-8") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def measure(build, choice, busy, samples, load):
    """One cell of one round."""
    with Bed(build, choice) as bed:
        for _ in range(load):
            bed.bench("load")
        for _ in range(busy):
            bed.bench("busy")
        before = bed.show()
        began, processor_s, stolen = time.monotonic(), bed.processor_s(), stolen_s()
        found = bed.sample("probe", samples)
        seconds, processor_s = time.monotonic() - began, bed.processor_s() - processor_s
        stolen = stolen_s() - stolen
        after = bed.show()
        wake = bed.sample("wake", samples)
    found["woken"] = wake["woken"] if wake else []
    gpu, earlier = after["gpus"][0], before["gpus"][0]
    found.update(seconds=seconds, stolen_s=stolen, daemon_processor_s=processor_s, scheduling=after["scheduling"],
                 reviews=gpu["reviews"] - earlier["reviews"],
                 demands=gpu["decisions"]["count"] - earlier["decisions"]["count"],
                 by_daemon=gpu["decisions"]["by_daemon"] - earlier["decisions"]["by_daemon"])
    return found


def summarize(runs):
    """The metrics of all rounds of one cell."""
    decided = [ns / 1000 for run in runs for ns in run["decided"]]
    seen = [ns / 1000 for run in runs for ns in run["seen"]]
    asked = [ns / 1000 for run in runs for ns in run["in_effect"]]
    woken = [ns / 1000 for run in runs for ns in run["woken"]]
    seconds = sum(run["seconds"] for run in runs)
    return {"samples": len(decided), "late": sum(run["late"] for run in runs),
            **{f"{name}_us_{label}": round(sampling.percentile(values, part), 1)
               for name, values in (("decided", decided), ("seen", seen), ("asked", asked), ("wake", woken)) if values
               for label, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1))},
            "wake_p99_us_of_rounds": [round(sampling.percentile(run["woken"], 0.99) / 1000, 1)
                                      for run in runs if run["woken"]],
            "p99_us_of_rounds": [round(sampling.percentile(run["decided"], 0.99) / 1000, 1) for run in runs],
            "asked_itself": sum(run["asked_itself"] for run in runs),
            "demands": sum(run["demands"] for run in runs), "demands_by_daemon": sum(run["by_daemon"] for run in runs),
            "reviews_per_s": round(sum(run["reviews"] for run in runs) / seconds),
            "daemon_processor_percent": round(100 * sum(run["daemon_processor_s"] for run in runs) / seconds, 1),
            "stolen_percent": round(100 * sum(run["stolen_s"] for run in runs) / seconds / os.cpu_count(), 2),
            "seconds": round(seconds, 1), "scheduling": runs[-1]["scheduling"]}


def metrics_of(cells):
    metrics = {}
    for (busy, choice), cell in cells.items():
        tail = "" if choice == SHIPPED else "_" + choice
        for label in ("p50", "p99"):
            metrics[f"decision_us_{label}_{busy}_busy{tail}"] = cell[f"decided_us_{label}"]
            for name in ("asked", "wake"):
                if not tail and f"{name}_us_{label}" in cell:
                    metrics[f"{name}_us_{label}_{busy}_busy"] = cell[f"{name}_us_{label}"]
        metrics[f"decision_samples_{busy}_busy{tail}"] = cell["samples"]
    return metrics


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--samples", type=int, default=2400, help="of each cell, over all rounds")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--busy", default="1,10,60")
    parser.add_argument("--choices", default=",".join(CHOICES))
    parser.add_argument("--load", type=int, default=os.cpu_count(), help="processes that take a processor each")
    parser.add_argument("--out", help="a folder; default: tests/bench/results/ and this machine's name")
    options = parser.parse_args()
    facts = machine.facts(options.build, None)
    out = options.out or os.path.join(ROOT, "tests/bench/results", machine.gpu_folder(facts))
    os.makedirs(out, exist_ok=True)
    runs = {(int(busy), choice): [] for busy in options.busy.split(",") for choice in options.choices.split(",")}
    for index in range(options.rounds):
        order = list(runs)
        order = order[index % len(order):] + order[:index % len(order)]
        for busy, choice in order:
            run = measure(options.build, choice, busy, -(-options.samples // options.rounds), options.load)
            runs[busy, choice].append(run)
            print(f"round {index + 1}: {busy} busy, {choice}: "
                  f"p50 {sampling.percentile(run['decided'], 0.5) / 1000:.1f} us, "
                  f"p99 {sampling.percentile(run['decided'], 0.99) / 1000:.1f} us, {run['seconds']:.0f} s"
                  + (f"; a wake: p50 {sampling.percentile(run['woken'], 0.5) / 1000:.1f} us, "
                     f"p99 {sampling.percentile(run['woken'], 0.99) / 1000:.1f} us" if run["woken"] else ""),
                  file=sys.stderr, flush=True)
    cells = {cell: summarize(found) for cell, found in runs.items()}
    metrics = metrics_of(cells)
    detail = {f"{busy}_busy_{choice}": cell for (busy, choice), cell in cells.items()}
    detail["load"] = {"processes": options.load, "loadavg": os.getloadavg()}
    result_file.merge(os.path.join(out, "arbiter_day.json"), facts, metrics, {"decision_latency": detail})
    print(json.dumps(metrics, indent=1))
    if any(cell["late"] for cell in cells.values()):
        sys.exit("decision_latency: launches were not decided on in 5 s")


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"decision_latency: {error}")
