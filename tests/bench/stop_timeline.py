"""The timeline of one stop inside a graph: what happens between a request's coming and the training's going on, without Cupola
and with it (stop_timeline_program.py), in the time of the GPU's clock.

Metrics: stop_<way>_begin_us, from a request's coming to the beginning of its kernel; stop_<way>_answer_us, to its answer on the
host; stop_<way>_resumed_us, from its kernel's end to the next kernel of the graph; medians over the requests that came inside a
graph. The detail has the request of the median answer, event by event."""
import bisect
import contextlib
import os
import statistics

import corun
import sampling
from real_pytorch import RULES
from real_pytorch_single import Programs

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stop_timeline_program.py")
WAYS = {"plain": "plain", "cupola": "cupola"}


def stops(of_training, of_server, requests):
    """(came, answered, own kernel, [kernels of the training from the one under way on]) of each request that came inside a
    graph: while one of its kernels ran or within 50 us of one, and not at its end."""
    of_training = sorted(of_training)
    begins = [begin for begin, _ in of_training]
    found = []
    for (came, answered), own in zip(requests, of_server):
        first = bisect.bisect_right(begins, came) - 1
        if first < 0 or came > of_training[first][1] + 50_000:
            continue
        after = bisect.bisect_left(begins, own[1])
        if after >= len(of_training) or of_training[after][0] > own[1] + 3_000_000:
            continue
        found.append((came, answered, own, of_training[first:after + 2]))
    return found


def what_came(of_training, of_server, requests):
    """In words, for a failure: what the two programs did, in microseconds from the training's first kernel."""
    of_training = sorted(of_training)
    if not of_training:
        return "the training had no kernels"
    start = of_training[0][0]
    lengths = [(end - begin) / 1000 for begin, end in of_training]
    gaps = [(after[0] - before[1]) / 1000 for before, after in zip(of_training, of_training[1:])]

    def spans(of):
        return [[round((at - start) / 1000) for at in span] for span in of[:5]]
    return (f"kernels {sampling.summary(lengths)}, gaps {sampling.summary(gaps)}, the last until "
            f"{round((of_training[-1][1] - start) / 1000)}, the first {spans(of_training)}; "
            f"requests {spans(requests)} and their kernels {spans(of_server)}")


def events_of(stop):
    """The stop as [microseconds since the request came, what happened], in order of time."""
    came, answered, own, kernels = stop
    events = [(0, "the request comes"), (own[0] - came, "its kernel begins"), (own[1] - came, "its kernel has ended"),
              (answered - came, "the answer is on the host")]
    for number, (begin, end) in enumerate(kernels):
        name = f"kernel {number} of the graph"
        events += [(begin - came, f"{name} begins"), (end - came, f"{name} has ended")]
    return [[round(ns / 1000), what] for ns, what in sorted(events)]


def figures(way, found):
    def median_us(lengths):
        return round(statistics.median(lengths) / 1000, 1)
    by_answer = sorted(found, key=lambda stop: stop[1] - stop[0])
    metrics = {f"stop_{way}_begin_us": median_us([own[0] - came for came, _, own, _ in found]),
               f"stop_{way}_answer_us": median_us([answered - came for came, answered, _, _ in found]),
               f"stop_{way}_resumed_us": median_us([min(begin for begin, _ in kernels if begin >= own[1]) - own[1]
                                                    for _, _, own, kernels in found])}
    return metrics, {"requests": len(found), "events": events_of(by_answer[len(by_answer) // 2])}


def timeline(bed, python, seconds_left, seconds=3):
    metrics, detail = {}, {}
    with contextlib.ExitStack() as stack:
        programs = Programs(bed, python, stack)
        bed.phase = "timeline"
        stack.enter_context(bed.arbiter(corun.config("hpf", RULES)))
        for way, system in WAYS.items():
            programs.add(f"{way} training", system, "training", "train", program=PROGRAM)
            programs.add(f"{way} server", system, "server", "serve", program=PROGRAM)
        programs.await_all()
        programs.work(("cupola training", 3), ("cupola server", 3))  # the pieces are built meanwhile
        for way in WAYS:
            trained, served = programs.work((f"{way} training", seconds + 0.5), (f"{way} server", seconds))
            found = stops(trained["kernels"], served["kernels"], served["requests"])
            if len(found) < 20:
                raise corun.Failed(f"{way}: only {len(found)} of {len(served['requests'])} requests came inside a graph; "
                                   + what_came(trained["kernels"], served["kernels"], served["requests"]))
            figures_of_way, detail[way] = figures(way, found)
            metrics.update(figures_of_way)
        programs.end()
    return metrics, detail
