"""What real PyTorch programs (real_pytorch_program.py) have of Cupola besides the pairs of real_pytorch.py. Sections, each a
function of (bed, python, seconds_left) that gives (metrics, detail):

overhead   A training with nobody beside it, in turns: plain, under Cupola without an arbiter ("solo"), with an arbiter and
           nobody who may ask ("idle"), and with a server of higher priority that does nothing, graphs in pieces of the
           shipped length ("pieces"), and of at most 500 and 200 us. torch_solo_overhead_pct_{graph,eager},
           graph_idle_overhead_pct, eager_gates_overhead_pct, graph_pieces_overhead_pct and the same with _{500us,200us}: how
           much longer a step takes than the plain one's beside it in the same round, the median of all rounds.
           pieces_host_ms_per_step and the same with _{500us,200us}: processor time that the calls of a step take more, that
           of the thread which puts the pieces in included; pieces_call_ms_per_step...: the time until the calls return.
           piece_build_ms: of one piece of at most 200 us.
           prediction_error_pct_no_ptx: of kernels of 20 us or more of the eager training; stoppable_time_fraction: the
           lowest of these trainings that a server may ask.
footprint  torch_import_overhead_pct: `import torch`, medians; torch_memory_overhead_pct: GPU memory in use on the device.
many       A server with MANY_GRAPHS graphs of its model, which a process of higher priority may ask: many_graphs_build_s, the time
           in which the pieces of all of them are built in the background; many_graphs_memory_mb, what they take on the GPU.
ffs        Two equal trainings by weighted shares, 2:1, with max_overhead = FFS_OVERHEAD. ffs_share_pct: the steps of the heavier of all steps;
           ffs_sum_ratio: both together of one plain training alone.
three      Two servers of different priority and a training. three_{first,second}_{p50,p99}_us, three_alone_p50_us,
           three_train_ratio.
losses     train_steps_identical: of 200 deterministic steps beside a server that asks 60 times a second, those whose loss is
           that of the plain program bit by bit; the fewest of graph and eager."""
import contextlib
import re
import select
import statistics
import time

import corun
import runner
import sampling
from real_pytorch import PROGRAM, RULES, START_SECONDS, hear, rate, rate_of, say

TURN_SECONDS = 1.5
MANY_GRAPHS = 64
FFS_OVERHEAD = 0.03
STEPS = 200  # of the comparison of losses
EAGER_SECONDS = 110  # what the eager half of `overhead` takes, its programs' start included
FED = re.compile(r"launches of graphs deferred, fed in (\d+) us of processor time each")
BUILT = re.compile(r"(\d+) pieces of graphs built in (\d+) us each")
ERROR = re.compile(r"predicted, off by (\d+) per mille")
STOPPABLE = re.compile(r"GPU time (\d+) % could be stopped at blocks, (\d+) % between kernels")


class Programs:
    """Programs by name, started at once and ended together."""

    def __init__(self, bed, python, stack):
        self.bed, self.python, self.stack = bed, python, stack
        self.jobs = {}

    def add(self, name, system, label, *arguments, program=PROGRAM, **environ):
        """`environ`: additions to its environment."""
        job = self.bed.start(system, label, [self.python, program, *arguments], environ=environ)
        self.stack.callback(job.kill)
        self.jobs[name] = job

    def await_all(self):
        for name, job in self.jobs.items():
            hear(job, name, START_SECONDS)

    def work(self, *lines, limit=90):
        """`lines`: (name, line); all are said at once. The answers."""
        for name, line in lines:
            say(self.jobs[name], line)
        return [hear(self.jobs[name], name, limit) for name, _ in lines]

    def end(self):
        """All to their end; what each has said on standard error, by name."""
        for name, job in self.jobs.items():
            job.end_input()
            job.finish(30)
            self.bed.count(job, name)
        return {name: job.err for name, job in self.jobs.items()}


def step_seconds(answer):
    steps, seconds = rate_of(answer)
    return seconds / steps


def percent_over(rounds, way):
    """How much longer than the plain ones of the same rounds, in percent; the median."""
    return round(100 * (statistics.median(each[way] / each["plain"] for each in rounds) - 1), 3)


def in_turns(programs, ways, rounds, seconds_left):
    """Gives (seconds of a step by way, of each round; the answers by way)."""
    found, answers = [], {way: [] for way in ways}
    for way in ways:  # pieces are cut by what trials tell, in the first launches
        programs.work((way, 2 * TURN_SECONDS))
    for number in range(rounds):
        if seconds_left() < 30:
            break
        found.append({})
        for way in ways if number % 2 == 0 else reversed(ways):
            answer, = programs.work((way, TURN_SECONDS))
            found[-1][way] = step_seconds(answer)
            answers[way].append(answer)
    if not found:
        raise corun.Failed("no time for a round")
    return found, answers


def overhead(bed, python, seconds_left, rounds=12):
    metrics, detail, told = {}, {}, []
    for mode in ("graph", "eager"):
        train = ("train", "--model", "gpt", "--mode", mode)
        with contextlib.ExitStack() as stack:
            programs = Programs(bed, python, stack)
            bed.phase = f"overhead {mode}"
            programs.add("plain", "plain", "training", *train)
            programs.add("solo", "cupola", "training", *train)
            if mode == "graph":
                stack.enter_context(bed.arbiter(corun.config("hpf", RULES)))
                programs.add("idle", "cupola", "training", *train)
            stack.enter_context(bed.arbiter(corun.config("hpf", RULES)))
            programs.add("server", "cupola", "server", "infer", "--model", "gpt", "--mode", "graph")
            if mode == "graph":
                programs.add("pieces", "cupola", "training", *train)
            for us in ("500", "200") if mode == "graph" else ("200",):
                programs.add(us + "us", "cupola", "training", *train, CUPOLA_PIECE_US=us)
            programs.await_all()
            ways = [way for way in programs.jobs if way != "server"]
            kept = EAGER_SECONDS if mode == "graph" else 0
            found, answers = in_turns(programs, ways, rounds, lambda: seconds_left() - kept)
            said = programs.end()
        metrics[f"torch_solo_overhead_pct_{mode}"] = percent_over(found, "solo")
        detail[mode] = {"rounds": len(found), "step_ms": {
            way: round(1000 * statistics.median(each[way] for each in found), 3) for way in ways}}
        told += [said[way] for way in ways if way == "pieces" or way.endswith("us")]
        if mode == "eager":
            metrics["eager_gates_overhead_pct"] = percent_over(found, "200us")
            metrics["prediction_error_pct_no_ptx"] = int(ERROR.search(said["200us"])[1]) / 10
            continue
        metrics["graph_idle_overhead_pct"] = percent_over(found, "idle")
        if BUILT.search(said["idle"]):
            raise corun.Failed("pieces were built though nobody may ask")
        def more_ms(what, way):
            ms = {each: statistics.median(answer[f"{what}_ms"] for answer in answers[each]) for each in ("plain", way)}
            return ms[way] - ms["plain"]
        detail[mode]["fed_ms_per_step"] = {}
        for way, suffix in (("pieces", ""), ("500us", "_500us"), ("200us", "_200us")):
            metrics["graph_pieces_overhead_pct" + suffix] = percent_over(found, way)
            fed_ms = int(FED.search(said[way])[1]) / 1000
            detail[mode]["fed_ms_per_step"][way] = fed_ms
            metrics["pieces_host_ms_per_step" + suffix] = round(more_ms("host", way) + fed_ms, 3)
            metrics["pieces_call_ms_per_step" + suffix] = round(more_ms("call", way), 3)
        built = BUILT.search(said["200us"])
        metrics["piece_build_ms"] = int(built[2]) / 1000
        detail[mode]["pieces_built"] = int(built[1])
    metrics["stoppable_time_fraction"] = min(sum(map(int, STOPPABLE.search(each).groups())) for each in told) / 100
    return metrics, detail


def footprint(bed, python, seconds_left, rounds=7):
    took, used = {"plain": [], "cupola": []}, {}
    for number in range(rounds + 1):
        if seconds_left() < 40 and number > 2:
            break
        for system in took:
            begun = time.monotonic()
            code, _ = bed.start(system, "import", [python, "-c", "import torch"]).finish(60)
            if code != 0:
                raise corun.Failed(f"import torch: {runner.describe_code(code)}")
            if number > 0:  # the first reads the files from the disk
                took[system].append(time.monotonic() - begun)
    for system in took:
        with contextlib.ExitStack() as stack:
            programs = Programs(bed, python, stack)
            programs.add("one", system, "training", "train", "--model", "gpt", "--mode", "graph")
            programs.await_all()
            programs.work(("one", 1))
            used[system] = programs.work(("one", "memory"))[0]["used_bytes"]
            programs.end()
    median = {system: statistics.median(values) for system, values in took.items()}
    return ({"torch_import_overhead_pct": round(100 * (median["cupola"] / median["plain"] - 1), 2),
             "torch_memory_overhead_pct": round(100 * (used["cupola"] / used["plain"] - 1), 3)},
            {"import_s": {system: round(value, 3) for system, value in median.items()}, "used_bytes": used,
             "rounds": len(took["plain"])})


def many(bed, python, seconds_left, seconds=8):
    grown, said = {}, {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(bed.arbiter(corun.config("hpf", RULES)))
        bed.phase = "many graphs"
        server = Programs(bed, python, stack)
        server.add("server", "cupola", "server", "infer", "--model", "gpt", "--mode", "graph")
        server.await_all()
        for system in ("plain", "cupola"):
            programs = Programs(bed, python, stack)
            programs.add("many", system, "training", "infer", "--model", "gpt", "--mode", "graph", "--graphs", str(MANY_GRAPHS))
            programs.await_all()
            before = programs.work(("many", "memory"))[0]["used_bytes"]
            programs.work(("many", seconds))
            grown[system] = programs.work(("many", "memory"))[0]["used_bytes"] - before
            said[system] = programs.end()["many"]
        server.end()
    built = BUILT.search(said["cupola"])
    if built is None:
        raise corun.Failed("no pieces were built")
    pieces, us = map(int, built.groups())
    return ({"many_graphs_build_s": round(pieces * us / 1e6, 3),
             "many_graphs_memory_mb": round((grown["cupola"] - grown["plain"]) / (1 << 20), 1)},
            {"graphs": MANY_GRAPHS, "pieces_built": pieces, "us_each": us, "memory_grown_bytes": grown})


def shared(answers, parts=1):
    """Steps a second of each answer of a training, of the time in which all of them worked: a list for each of `parts` equal
    parts of that time."""
    begin = max(answer["done_ns"][0] for answer in answers)
    length = max(min(answer["done_ns"][-1] for answer in answers) - begin, parts) / parts
    ends = [(begin + part * length, begin + (part + 1) * length) for part in range(parts)]
    return [[sum(first <= at < last for at in answer["done_ns"]) / (length / 1e9) for answer in answers] for first, last in ends]


def ffs(bed, python, seconds_left, seconds=20):
    rules = {"heavy": {"weight": 2}, "light": {"weight": 1}}
    train = ("train", "--model", "gpt", "--mode", "graph")
    with contextlib.ExitStack() as stack:
        programs = Programs(bed, python, stack)
        bed.phase = "ffs"
        programs.add("alone", "plain", "alone", *train)
        stack.enter_context(bed.arbiter(corun.config("ffs", rules, max_overhead=FFS_OVERHEAD)))
        for label in rules:
            programs.add(label, "cupola", label, *train)
        programs.await_all()
        # Their pieces are built meanwhile, as each has its turns: a whole graph holds the GPU for 57 ms, turns are shorter.
        programs.work(("heavy", 16), ("light", 16))
        alone = [rate_of(programs.work(("alone", 3))[0])]
        before = bed.ran_seconds()
        answers = programs.work(("heavy", seconds), ("light", seconds))
        ran = {label: round(after - before.get(label, 0), 3) for label, after in bed.ran_seconds().items() if label in rules}
        alone.append(rate_of(programs.work(("alone", 3))[0]))
        programs.end()
    (heavy, light), = shared(answers)
    shares = [round(100 * one / max(one + other, 1e-9), 1) for one, other in shared(answers, 5)]
    return ({"ffs_share_pct": round(100 * heavy / (heavy + light), 2), "ffs_sum_ratio": round((heavy + light) / rate(alone), 4)},
            {"steps_per_s": {"heavy": round(heavy, 3), "light": round(light, 3), "alone": round(rate(alone), 3)},
             "share_pct_of_each_fifth": shares, "charged_s": ran, "max_overhead": FFS_OVERHEAD})


def three(bed, python, seconds_left, rounds=4):
    rules = {"first": {"priority": 10}, "second": {"priority": 5}, "training": {"priority": 0}}
    infer = ("infer", "--model", "gpt", "--mode", "graph")
    latency_us, beside, alone = {"alone": [], "first": [], "second": []}, [], []
    with contextlib.ExitStack() as stack:
        programs = Programs(bed, python, stack)
        bed.phase = "three"
        stack.enter_context(bed.arbiter(corun.config("hpf", rules)))
        for label in rules:
            programs.add(label, "cupola", label, *(infer if label != "training" else ("train", *infer[1:])))
        programs.await_all()
        programs.work(("training", 2), ("first", "2 9"))
        for number in range(rounds):
            latency_us["alone"] += microseconds(programs.work(("first", f"2.5 {number}"))[0])
            alone.append(rate_of(programs.work(("training", 1))[0]))
            trained, first, second = programs.work(("training", 2.5), ("first", f"2.5 {number}"),
                                                   ("second", f"2.5 {number + 100}"))
            latency_us["first"] += microseconds(first)
            latency_us["second"] += microseconds(second)
            beside.append(rate_of(trained))
        programs.end()
    metrics = {"three_train_ratio": round(rate(beside) / rate(alone), 4)}
    for name, sample in latency_us.items():
        for share in (50, 99):
            metrics[f"three_{name}_p{share}_us"] = round(sampling.percentile(sample, share / 100), 1)
    return metrics, {"samples": {name: len(sample) for name, sample in latency_us.items()}}


def microseconds(answer):
    return [ns / 1000 for ns in answer["latency_ns"]]


def losses(bed, python, seconds_left):
    identical, detail = {}, {}
    for mode in ("graph", "eager"):
        train = ("train", "--model", "gpt", "--mode", mode, "--deterministic")
        with contextlib.ExitStack() as stack:
            programs = Programs(bed, python, stack)
            bed.phase = f"losses {mode}"
            programs.add("plain", "plain", "training", *train)
            stack.enter_context(bed.arbiter(corun.config("hpf", RULES)))
            programs.add("server", "cupola", "server", "infer", "--model", "gpt", "--mode", "graph")
            programs.add("stopped", "cupola", "training", *train)
            programs.await_all()
            plain, = programs.work(("plain", f"check {STEPS}"))
            stopped = programs.jobs["stopped"]
            say(stopped, f"check {STEPS}")
            asked, begun = 0, time.monotonic()
            while not select.select([stopped.process.stdout], [], [], 0)[0]:
                asked += len(programs.work(("server", f"1 {asked}"))[0]["latency_ns"])
                if time.monotonic() - begun > 120:
                    raise corun.Failed("losses: no end")
            got = hear(stopped, "stopped", 5)
            programs.end()
        identical[mode] = sum(a == b for a, b in zip(plain["losses"], got["losses"]))
        detail[mode] = {"identical": identical[mode], "requests": asked, "seconds": round(time.monotonic() - begun, 1)}
        if len(set(plain["losses"])) < STEPS // 2:
            raise corun.Failed("losses: the training does not change, so that equal losses say nothing")
    return {"train_steps_identical": min(identical.values())}, detail


SECTIONS = {"overhead": overhead, "footprint": footprint, "many": many, "ffs": ffs, "three": three, "losses": losses}
