"""A file of results that several benches write."""
import json
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
