"""Tests how real_pytorch.py measures, with programs whose answers are made up, since PyTorch itself needs a GPU."""
import contextlib
import io
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../apps"))
import collective  # noqa: E402
import real_pytorch  # noqa: E402
import real_pytorch_single  # noqa: E402
import sampling  # noqa: E402
import stop_timeline  # noqa: E402

ANSWER_US = {"plain": 300, "cupola": 150}  # beside training; alone 100
STEP_MS = {"plain": 12, "cupola": 11}      # beside the server; alone 10


class Job:
    """A program's job. What a server answers depends on whether the training of its way works meanwhile."""
    err = ""

    def __init__(self, bed, system, label, command):
        self.bed, self.system, self.label, self.command = bed, system, label, command
        self.process = self
        self.stdin = io.BytesIO()
        self.is_new = True
        self.answered = 0
        bed.jobs[system, label] = self

    def await_line(self, _):
        if self.is_new:
            self.is_new = False
            return "ready"
        line = self.stdin.getvalue().decode().split("\n")[-2]
        self.bed.heard.append((self.system, self.label, line))
        self.answered += 1
        if line == "kernels":
            return json.dumps({"kernels_us": [5.0, 7.0] if self.label == "server" else [50.0, 90.0, 20.0]})
        if self.label == "server":
            training = self.bed.jobs[self.system, "training"]
            is_beside = len(training.stdin.getvalue().splitlines()) > training.answered
            return json.dumps({"latency_ns": [1000 * (ANSWER_US[self.system] if is_beside else 100)] * 4})
        is_beside = line == str(real_pytorch.TURN_SECONDS)
        step = 1_000_000 * (STEP_MS[self.system] if is_beside else 10)
        return json.dumps({"start_ns": 0, "done_ns": [step * i for i in range(6)], "steps": 6})

    def poll(self):
        return None

    def end_input(self):
        pass

    def finish(self, _):
        return (0, "")

    def kill(self):
        self.bed.killed += 1


class Bed:
    def __init__(self):
        self.heard, self.counted, self.killed, self.additions, self.commands, self.jobs = [], [], 0, {}, [], {}

    def start(self, system, label, command, environ):
        self.commands.append(command[2:])
        return Job(self, system, label, command)

    def count(self, _, label):
        self.counted.append(label)

    @contextlib.contextmanager
    def arbiter(self, config):
        self.config = config
        yield


class Pair(unittest.TestCase):
    def setUp(self):
        self.bed = Bed()
        self.metrics, self.detail = real_pytorch.measure(self.bed, "python", "gpt_mixed", 8, ("plain", "cupola"), rounds=2)

    def test_figures(self):
        figures = self.metrics
        self.assertEqual(figures["gpt_mixed_b8_alone_p50_us"], 100)
        self.assertEqual(figures["gpt_mixed_b8_plain_p99_us"], 300)
        self.assertEqual(figures["gpt_mixed_b8_cupola_p90_us"], 150)
        self.assertEqual(figures["gpt_mixed_b8_plain_train_ratio"], round(10 / 12, 4))
        self.assertEqual(figures["gpt_mixed_b8_cupola_train_ratio"], round(10 / 11, 4))
        self.assertEqual(figures["longest_kernel_us_gpt_mixed_b8"], 90)
        self.assertAlmostEqual(figures["asker_busy_fraction_gpt_mixed_b8"], 12e-6 * real_pytorch.RATE, places=5)
        self.assertEqual(self.detail, {"rounds": 2, "samples": {"alone": 8, "plain": 8, "cupola": 8}})

    def test_programs(self):
        """A server as a graph beside an eager training, in each way; each told to end, counted and killed."""
        words = [" ".join(command) for command in self.bed.commands]
        self.assertEqual(words, 2 * ["infer --model gpt --mode graph --batch 8", "train --model gpt --mode eager --batch 8"])
        self.assertEqual(self.bed.counted, ["plain server", "plain training", "cupola server", "cupola training"])
        self.assertEqual(self.bed.killed, 4)
        self.assertIn("priority = 10", self.bed.config)

    def test_ways_take_turns(self):
        beside = [system for system, label, _ in self.bed.heard if label == "server"]
        self.assertEqual(beside, ["plain", "plain", "cupola", "plain", "cupola", "plain", "plain"])  # the last: kernels

    def test_without_time_there_is_no_figure(self):
        with self.assertRaises(real_pytorch.corun.Failed):
            real_pytorch.measure(Bed(), "python", "gpt_graph", 1, ("plain",), seconds_left=lambda: 5)


class Single(unittest.TestCase):
    def test_shares_are_of_the_time_in_which_all_worked(self):
        fast = {"done_ns": [i * 100_000_000 for i in range(101)]}        # 10 a second, from 0 to 10 s
        slow = {"done_ns": [i * 200_000_000 for i in range(10, 101)]}    # 5 a second, from 2 to 20 s
        self.assertEqual(real_pytorch_single.shared([fast, slow]), [[10, 5]])
        self.assertEqual(real_pytorch_single.shared([fast, slow], 4), [[10, 5]] * 4)
        slower_later = {"done_ns": fast["done_ns"][:51] + [5_000_000_000 + i * 500_000_000 for i in range(1, 11)]}
        halves = real_pytorch_single.shared([fast, slower_later], 2)
        self.assertEqual([half[1] for half in halves], [10, 2])

    def test_overhead_is_the_median_over_rounds_of_their_own_plain_step(self):
        rounds = [{"plain": 1.0, "solo": 1.01}, {"plain": 2.0, "solo": 2.04}, {"plain": 1.0, "solo": 3.0}]
        self.assertEqual(real_pytorch_single.percent_over(rounds, "solo"), 2)

    def test_what_the_library_says_is_found(self):
        said = ("cupola: preemption: 1528 pieces of graphs built in 452 us each\n"
                "cupola: preemption: of 2689 ms of GPU time 42 % could be stopped at blocks, 58 % between kernels, 0 % not at all\n"
                "cupola: preemption: 35 shapes of plain kernels of 20 us or more were predicted, off by 64 per mille on average\n")
        self.assertEqual(real_pytorch_single.BUILT.search(said).groups(), ("1528", "452"))
        self.assertEqual(real_pytorch_single.STOPPABLE.search(said).groups(), ("42", "58"))
        self.assertEqual(real_pytorch_single.ERROR.search(said)[1], "64")


class Timeline(unittest.TestCase):
    KERNELS = [[1000 * begin, 1000 * (begin + 300)] for begin in (0, 310, 620, 1600, 1910)]

    def test_a_stop(self):
        """A request comes 50 us after the second kernel began; its own runs behind the third."""
        (stop,) = stop_timeline.stops(self.KERNELS, [[1_000_000, 1_300_000]], [[360_000, 1_340_000]])
        metrics, detail = stop_timeline.figures("cupola", [stop])
        self.assertEqual(metrics, {"stop_cupola_begin_us": 640, "stop_cupola_answer_us": 980, "stop_cupola_resumed_us": 300})
        self.assertEqual(detail["events"][:4], [[-50, "kernel 0 of the graph begins"], [0, "the request comes"],
                                                [250, "kernel 0 of the graph has ended"], [260, "kernel 1 of the graph begins"]])

    def test_requests_outside_a_graph_do_not_count(self):
        self.assertEqual(stop_timeline.stops(self.KERNELS, [[5_000_000, 5_300_000]], [[4_900_000, 5_400_000]]), [])
        self.assertEqual(stop_timeline.stops(self.KERNELS, [[2_300_000, 2_600_000]], [[2_000_000, 2_700_000]]), [])

    def test_a_failure_says_what_the_programs_did(self):
        said = stop_timeline.what_came(self.KERNELS, [[5_000_000, 5_300_000]], [[4_900_000, 5_400_000]])
        self.assertEqual(said, "kernels {'samples': 5, 'p50': 300.0, 'p99': 300.0, 'least': 300.0, 'most': 300.0}, "
                         "gaps {'samples': 4, 'p50': 10.0, 'p99': 659.9, 'least': 10.0, 'most': 680.0}, the last until 2210, "
                         "the first [[0, 300], [310, 610], [620, 920], [1600, 1900], [1910, 2210]]; "
                         "requests [[4900, 5400]] and their kernels [[5000, 5300]]")
        self.assertEqual(stop_timeline.what_came([], [], []), "the training had no kernels")


class Collective(unittest.TestCase):
    def runs(self, digest="a"):
        runs = collective.Runs()
        runs.latency_us["plain"] = [100, 200, 300]
        for mode in collective.MODES:
            for rank_digest in ("a", digest):
                runs.take_rank("plain", mode, "alone", 300, {"seconds": 3, "longest_ms": 5, "digest": "x"})
                runs.take_rank("plain", mode, "beside", 900, {"seconds": 10, "longest_ms": 7, "digest": rank_digest})
        return runs.metrics()

    def test_metrics(self):
        self.assertEqual(self.runs(), {"collective_plain_p50_us": 200, "collective_plain_p99_us": sampling.percentile([100, 200, 300], 0.99),
                                       "collective_eager_plain_ratio": 0.9, "collective_graph_plain_ratio": 0.9,
                                       "collective_longest_wait_ms": 7, "collective_sums_equal": 1})

    def test_ranks_with_other_sums_are_seen(self):
        self.assertEqual(self.runs("b")["collective_sums_equal"], 0)


if __name__ == "__main__":
    unittest.main()
