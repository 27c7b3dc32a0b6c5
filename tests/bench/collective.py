"""A training on two GPUs that sums over both by NCCL (collective_program.py), and a server on each GPU beside it; without MPS
and with it, plain and under Cupola, by turns.

Metrics: collective_<way>_p50_us and _p99_us of both servers' answers; collective_<mode>_<way>_ratio: the training's speed,
of what it has alone in the same way; collective_longest_wait_ms: the longest time for which a step or the few behind it kept
a rank waiting; collective_sums_equal: 1 where both ranks have the same sums in every run of a mode, bit by bit."""
import contextlib
import os
import socket

import corun
import machine
import sampling
from real_pytorch import RULES
from real_pytorch_single import Programs

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collective_program.py")
MODES = ("eager", "graph")
STEPS, ALONE_STEPS, SERVER_SECONDS = 900, 300, 3.5
ROUNDS = 2
SYSTEMS = {"plain": "plain", "cupola": "cupola", "mps": "plain", "cupola_mps": "cupola"}


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Runs:
    """What was measured so far, by way."""

    def __init__(self):
        self.latency_us = {way: [] for way in SYSTEMS}
        self.seconds_of_step = {}  # (way, mode, "alone" or "beside") -> each rank's of each run
        self.digests = {mode: set() for mode in MODES}  # by mode: (steps, digest)
        self.longest_ms = 0

    def take_rank(self, way, mode, when, steps, answer):
        self.seconds_of_step.setdefault((way, mode, when), []).append(answer["seconds"] / steps)
        self.digests[mode].add((steps, answer["digest"]))
        self.longest_ms = max(self.longest_ms, answer["longest_ms"])

    def metrics(self):
        found = {}
        for way, latency_us in self.latency_us.items():
            if not latency_us:
                continue
            for share in (50, 99):
                found[f"collective_{way}_p{share}_us"] = round(sampling.percentile(latency_us, share / 100), 1)
            for mode in MODES:
                alone, beside = (sum(of) / len(of) for of in (self.seconds_of_step[way, mode, when]
                                                              for when in ("alone", "beside")))
                found[f"collective_{mode}_{way}_ratio"] = round(alone / beside, 4)
        found["collective_longest_wait_ms"] = self.longest_ms
        found["collective_sums_equal"] = int(all(len(digests) == len({steps for steps, _ in digests})
                                                 for digests in self.digests.values()))
        return found


def run_turn(programs, runs, way, mode):
    ranks = [f"{way} rank {rank}" for rank in (0, 1)]
    servers = [f"{way} server {gpu}" for gpu in (0, 1)]
    for answer in programs.work(*((name, f"{ALONE_STEPS} {mode}") for name in ranks)):
        runs.take_rank(way, mode, "alone", ALONE_STEPS, answer)
    answers = programs.work(*((name, f"{STEPS} {mode}") for name in ranks), *((name, SERVER_SECONDS) for name in servers))
    for answer in answers[:2]:
        runs.take_rank(way, mode, "beside", STEPS, answer)
    for answer in answers[2:]:
        runs.latency_us[way] += [ns / 1000 for ns in answer["latency_ns"]]


def measure_ways(bed, python, stack, runs, ways, seconds_left):
    programs = Programs(bed, python, stack)
    for way in ways:
        port = str(free_port())
        if SYSTEMS[way] == "cupola":
            stack.enter_context(bed.arbiter(corun.config("hpf", RULES)))
        for number in ("0", "1"):
            programs.add(f"{way} rank {number}", SYSTEMS[way], "training", "rank", number, port, program=PROGRAM)
            programs.add(f"{way} server {number}", SYSTEMS[way], "server", "server", number, program=PROGRAM)
    programs.await_all()
    for number in range(ROUNDS):
        for way in ways if number % 2 == 0 else reversed(ways):
            for mode in MODES:
                if seconds_left() < 20:
                    raise corun.Failed("no time for all rounds")
                run_turn(programs, runs, way, mode)
    programs.end()


def collective(bed, python, seconds_left):
    if machine.gpu_count() < 2:
        raise corun.Failed("needs two GPUs")
    runs = Runs()
    bed.phase = "collective"
    with contextlib.ExitStack() as stack:
        measure_ways(bed, python, stack, runs, ("plain", "cupola"), seconds_left)
    with contextlib.ExitStack() as stack:
        stack.enter_context(bed.mps())
        measure_ways(bed, python, stack, runs, ("mps", "cupola_mps"), seconds_left)
    return runs.metrics(), {"rounds": ROUNDS, "requests": {way: len(us) for way, us in runs.latency_us.items()}}
