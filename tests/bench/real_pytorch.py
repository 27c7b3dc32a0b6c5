"""Real PyTorch programs in pairs: an inference server beside a training (real_pytorch_program.py), in each way of
sharing a GPU. Their kernels carry no PTX, and hide in CUDA graphs.

Ways: "alone" (the plain server by itself), "plain", "cupola" (an arbiter, the server of higher priority), "mps", "mps_prio"
(MPS, the training with a lower client priority), "cupola_mps" (an arbiter, and MPS); where asked for also "mps_sms": as
"mps_prio", and the training has SM_PERCENT of the SMs only. All programs of a pair are started before the first turn and
live until the last; the ways take turns of TURN_SECONDS, and in each round the training of the first way also runs alone, so
that what drifts on the machine falls on all. Gives for each pair and way <pair>_<way>_{p50,p90,p99}_us,
_train_ratio (steps a second beside the server, of those of the plain training alone), and of each pair
asker_busy_fraction_<pair> (time of the server's kernels of the time of a turn) and longest_kernel_us_<pair> (of the
training)."""
import contextlib
import json
import os

import corun
import sampling
from real_pytorch_program import RATE

# name -> (model and mode of the server, model and mode of the training)
PAIRS = {"gpt_graph": ("gpt graph", "gpt graph"), "gpt_eager": ("gpt eager", "gpt eager"),
         "gpt_mixed": ("gpt graph", "gpt eager"), "gpt_compile": ("gpt compile", "gpt compile"),
         "resnet_graph": ("resnet graph", "resnet graph"), "resnet_eager": ("resnet eager", "resnet eager"),
         "resnet_compile": ("resnet compile", "resnet compile"),
         "gpt_beside_resnet": ("gpt graph", "resnet graph"), "resnet_beside_gpt": ("resnet graph", "gpt graph")}
WAYS = ("plain", "cupola", "mps", "mps_prio", "cupola_mps")
MORE_WAYS = ("mps_sms",)
SM_PERCENT = 94  # 124 of 132 SMs
RULES = {"server": {"priority": 10}, "training": {"priority": 0}}
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "real_pytorch_program.py")
TURN_SECONDS, ALONE_SECONDS = 2.5, 1.0
START_SECONDS = 240  # of all programs of a pair at once; torch.compile takes most


def say(job, line):
    job.process.stdin.write(f"{line}\n".encode())
    job.process.stdin.flush()


def hear(job, name, limit):
    answer = job.await_line(limit)
    if answer is None:
        job.kill()
        raise corun.Failed(f"{name}: no answer: {job.finish(5)[0]} {job.err[-600:]}")
    return json.loads(answer) if answer != "ready" else answer


class Pair:
    """The programs of one pair, in all ways. `start` within a contextlib.ExitStack, which ends them."""

    def __init__(self, bed, python, name, batch, ways):
        self.bed, self.python, self.name, self.batch, self.ways = bed, python, name, batch, ways
        self.jobs = {}  # (way, role) -> Job
        self.latency_ns = {way: [] for way in ("alone", *ways)}
        self.trained = {way: [] for way in ways}  # (steps, seconds) of each turn beside the server
        self.trained_alone = []  # the same of the first way's training by itself
        self.started = {}

    def begin(self, stack, way, role, system, **environ):
        model, mode = PAIRS[self.name][role == "training"].split()
        word = {"server": "infer", "training": "train"}[role]
        command = [self.python, PROGRAM, word, "--model", model, "--mode", mode, "--batch", str(self.batch)]
        job = self.bed.start(system, role, command, environ=environ)
        self.jobs[way, role] = job
        stack.callback(job.kill)

    def start(self, stack):
        """The daemons, and in each way both programs. Those of one way begin beside those of the others."""
        self.bed.phase = self.name
        if "plain" in self.ways:
            self.both(stack, "plain", "plain")
        if "cupola" in self.ways:
            stack.enter_context(self.bed.arbiter(corun.config("hpf", RULES)))
            self.both(stack, "cupola", "cupola")
        if set(self.ways) & {"mps", "mps_prio", "cupola_mps", *MORE_WAYS}:
            stack.enter_context(self.bed.mps())
            if "mps" in self.ways:
                self.both(stack, "mps", "plain")
            if "mps_prio" in self.ways:
                self.by_priority(stack, "mps_prio", CUDA_MPS_CLIENT_PRIORITY="1")
            if "mps_sms" in self.ways:
                self.by_priority(stack, "mps_sms", CUDA_MPS_CLIENT_PRIORITY="1", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=str(SM_PERCENT))
            if "cupola_mps" in self.ways:
                stack.enter_context(self.bed.arbiter(corun.config("hpf", RULES)))
                self.both(stack, "cupola_mps", "cupola")
        for (way, role), job in self.jobs.items():
            hear(job, f"{self.name} {way} {role}", START_SECONDS)

    def by_priority(self, stack, way, **of_training):
        self.begin(stack, way, "server", "plain")
        self.begin(stack, way, "training", "plain", **of_training)

    def both(self, stack, way, system):
        for role in RULES:
            self.begin(stack, way, role, system)

    def end(self):
        """Each program to its end: only then one under Cupola says what became of its launches."""
        for (way, role), job in self.jobs.items():
            job.end_input()
            job.finish(30)
            self.bed.count(job, f"{way} {role}")

    def turn(self, way, seed):
        server, training = self.jobs[way, "server"], self.jobs[way, "training"]
        say(training, TURN_SECONDS)
        say(server, f"{TURN_SECONDS} {seed}")
        self.latency_ns[way] += hear(server, f"{way} server", 90)["latency_ns"]
        self.trained[way].append(rate_of(hear(training, f"{way} training", 90)))

    def round(self, number):
        first = self.jobs[self.ways[0], "server"]
        say(first, f"{TURN_SECONDS} {number}")
        self.latency_ns["alone"] += hear(first, "server alone", 60)["latency_ns"]
        training = self.jobs[self.ways[0], "training"]
        say(training, ALONE_SECONDS)
        self.trained_alone.append(rate_of(hear(training, "training alone", 60)))
        for way in self.ways if number % 2 == 0 else reversed(self.ways):
            self.turn(way, number)

    def metrics(self):
        found, name = {}, self.name + (f"_b{self.batch}" if self.batch != 1 else "")
        for way, samples in self.latency_ns.items():
            us = [ns / 1000 for ns in samples]
            for share in (50, 90, 99):
                found[f"{name}_{way}_p{share}_us"] = round(sampling.percentile(us, share / 100), 1)
        alone = rate(self.trained_alone)
        for way in self.ways:
            found[f"{name}_{way}_train_ratio"] = round(rate(self.trained[way]) / alone, 4)
        if "plain" in self.ways:
            kernels = {}
            for role in RULES:
                say(self.jobs["plain", role], "kernels")
                kernels[role] = hear(self.jobs["plain", role], f"kernels of the {role}", 90)["kernels_us"]
            found[f"asker_busy_fraction_{name}"] = round(sum(kernels["server"]) / 1e6 * RATE, 5)
            found[f"longest_kernel_us_{name}"] = max(kernels["training"])
            found[f"{name}_train_kernels"] = len(kernels["training"])
            found[f"{name}_server_kernels"] = len(kernels["server"])
        found[f"{name}_train_alone_per_s"] = round(alone, 3)
        return found


def rate_of(answer):
    """(steps, seconds) between the first and the last step that ended in a turn."""
    done = answer["done_ns"]
    return len(done) - 1, (done[-1] - done[0]) / 1e9


def rate(turns):
    return sum(steps for steps, _ in turns) / max(sum(seconds for _, seconds in turns), 1e-9)


def measure(bed, python, name, batch=1, ways=WAYS, rounds=7, seconds_left=lambda: 1e9):
    """Returns (metrics, detail) of one pair."""
    pair = Pair(bed, python, name, batch, ways)
    with contextlib.ExitStack() as stack:
        pair.start(stack)
        done = 0
        for number in range(rounds):
            if seconds_left() < 40:
                break
            pair.round(number)
            done += 1
        if done == 0:
            raise corun.Failed("no time for a round")
        metrics = pair.metrics()
        pair.end()
    detail = {"rounds": done, "samples": {way: len(found) for way, found in pair.latency_ns.items()}}
    return metrics, detail
