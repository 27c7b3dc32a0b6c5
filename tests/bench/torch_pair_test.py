"""Tests how PyTorch's pair is measured, with programs whose answers are made up, since PyTorch itself needs a GPU."""
import io
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../apps"))
import torch_pair  # noqa: E402


class Job:
    """A program's job: an inference takes 100 us alone and 300 beside training; a step of training takes 10 ms."""
    err = ""

    def __init__(self, bed, system, label, role):
        self.bed, self.system, self.label, self.role = bed, system, label, role
        self.process = self
        self.stdin = io.BytesIO()
        self.is_new = True

    def await_line(self, _):
        if self.is_new:
            self.is_new = False
            return "ready"
        line = self.stdin.getvalue().decode().split("\n")[-2]
        self.bed.asked.append((self.system, self.label, self.role, line))
        if line == "kernels":
            return json.dumps([5.0, 7.0])
        if self.role == "infer":
            return json.dumps({"latency_ns": [100_000 if self.label == "alone" else 300_000] * 3})
        return json.dumps({"start_ns": 0, "done_ns": [20_000_000, 40_000_000], "steps": 4})

    def end_input(self):
        pass

    def finish(self, _):
        return (0, "")

    def kill(self):
        self.bed.killed += 1


class Bed:
    def __init__(self):
        self.asked, self.counted, self.killed = [], [], 0

    def start(self, system, label, command):
        return Job(self, system, label, command[-1])

    def count(self, _, label):
        self.counted.append(label)


class Pair(unittest.TestCase):
    def test_alone_is_plain_and_all_is_by_turns(self):
        bed = Bed()
        row = torch_pair.pair(bed, "python", "cupola", 2 * torch_pair.TURN_SECONDS)
        turn = [("plain", "alone", "infer"), ("cupola", "low", "train"), ("cupola", "high", "infer"),
                ("cupola", "low", "train")]
        self.assertEqual([asked[:3] for asked in bed.asked], 2 * turn)
        self.assertEqual(row["infer_alone_us"], 6 * [100])
        self.assertEqual(row["infer_us"], 6 * [300])
        self.assertEqual((row["train_alone"], row["train"]), (100, 100))
        self.assertEqual(row["infer_per_second"], 3 / torch_pair.TURN_SECONDS)
        self.assertNotIn("train_kernels_us", row)
        self.assertEqual((bed.counted, bed.killed), (["alone", "high", "low"], 3))

    def test_kernels_are_asked_of_plain_training(self):
        bed = Bed()
        self.assertEqual(torch_pair.pair(bed, "python", "plain", 1)["train_kernels_us"], [5.0, 7.0])
        self.assertEqual(bed.asked[-1], ("plain", "low", "train", "kernels"))


if __name__ == "__main__":
    unittest.main()
