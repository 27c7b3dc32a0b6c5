"""Tests files of results that several benches write."""
import json
import lzma
import multiprocessing
import os
import tempfile
import unittest

import result_file

FACTS = {"cpu": "A", "cpus": 2, "kernel": "6", "gpu": None, "libc": "glibc", "date": "d1", "commit": "c1"}


def put(path, number):
    result_file.merge(path, {**FACTS, "commit": f"c{number}"}, {f"metric_{number}": number})


class ResultFileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "day.json")

    def held(self):
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)

    def test_what_others_have_put_stays(self):
        result_file.merge(self.path, FACTS, {"a": 1, "b": 2}, {"a": {"samples": [1]}})
        result_file.merge(self.path, {**FACTS, "commit": "c2", "cpus": 4}, {"b": 3, "c": 4}, {"c": "how"})
        held = self.held()
        self.assertEqual(held["metrics"], {"a": 1, "b": 3, "c": 4})
        self.assertEqual(held["detail"], {"a": {"samples": [1]}, "c": "how"})
        self.assertEqual({key: one["commit"] for key, one in held["measured"].items()},
                         {"a": "c1", "b": "c2", "c": "c2"})
        self.assertEqual((held["measured"]["a"]["cpus"], held["measured"]["c"]["cpus"]), (2, 4))
        self.assertEqual((held["commit"], held["machine"]["libc"], "commit" in held["machine"]),
                         ("c2", "glibc", False))

    def test_a_cell_is_a_line(self):
        numbers = list(range(1000, 1060))
        document = {"date": "d", "metrics": {f"metric_{i}": i for i in range(30)}, "detail": {
            "modes": {mode: {"repeats": 10, "turnaround": [1.5, 2.5]} for mode in ("plain", "cupola", "other")},
            "rows": [{"name": "n" * 60, "what": "w" * 60, "wrong": None, "ms": [1.5] * 9}] * 2, "long": numbers}}
        text = result_file.text_of(document)
        self.assertEqual(json.loads(text), document)
        lines = text.splitlines()
        self.assertEqual(lines[:2], ["{", ' "date": "d",'])
        self.assertIn('  "metric_29": 29', lines)
        self.assertIn('   {"name": "%s", "what": "%s",' % ("n" * 60, "w" * 60), lines)
        self.assertIn('    "wrong": null, "ms": [1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5]},', lines)
        self.assertIn('  "long": [1000, 1001, ', text)
        self.assertLessEqual(max(map(len, lines)), result_file.WIDTH)
        self.assertLess(len(lines), 50)

    def test_a_table_has_a_line_for_each_cell(self):
        modes = {mode: {"repeats": 10, "turnaround": [11111.5, 22222.5], "makespan": 1.25} for mode in "abcd"}
        lines = result_file.text_of(modes).splitlines()
        self.assertEqual(lines[1], ' "a": {"repeats": 10, "turnaround": [11111.5, 22222.5], "makespan": 1.25},')
        self.assertEqual(len(lines), 6)

    def test_who_fails_to_write_leaves_what_was_there(self):
        result_file.write(self.path, {"a": 1})
        self.assertRaises(TypeError, result_file.write, self.path, {"a": object()})
        self.assertEqual(self.held(), {"a": 1})
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["day.json"])

    def test_raw_samples_are_kept_where_asked_for(self):
        result_file.RawSamples().keep("nobody wants", [1])
        folder = os.path.join(os.path.dirname(self.path), "raw")
        for samples in ([1, 2], {"a": [3]}):
            result_file.RawSamples(folder, "bench", FACTS).keep("cell", samples)
        with lzma.open(folder + "/bench.jsonl.xz", "rt") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(lines, [{"of": "cell", "commit": "c1", "date": "d1", "samples": [1, 2]},
                                 {"of": "cell", "commit": "c1", "date": "d1", "samples": {"a": [3]}}])
        self.assertEqual(os.listdir(folder), ["bench.jsonl.xz"])

    def test_several_at_a_time_lose_nothing(self):
        writers = [multiprocessing.Process(target=put, args=(self.path, i)) for i in range(12)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        self.assertEqual(self.held()["metrics"], {f"metric_{i}": i for i in range(12)})
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["day.json"])


if __name__ == "__main__":
    unittest.main()
