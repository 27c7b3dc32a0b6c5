"""The files of tests/bench/results are summaries that a person can read in a review: short, in the form that
result_file.py writes, without the samples that they were made of.
usage: results_test.py [FOLDER]    (default: the results of this tree)"""
import json
import os
import sys
import unittest

import result_file

MOST_LINES, MOST_BYTES = 2000, 200_000
MOST_SAMPLES = 100  # of numbers in a row: the kernels of a step of training are 58, repeats are fewer


def longest_row(value):
    """How many numbers the longest list of numbers within a JSON value has."""
    if isinstance(value, dict):
        return max(map(longest_row, value.values()), default=0)
    if not isinstance(value, list):
        return 0
    return max([sum(isinstance(each, (int, float)) for each in value), *map(longest_row, value)])


class Results(unittest.TestCase):
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")

    def files(self):
        return [os.path.join(folder, name) for folder, _, names in os.walk(self.folder) for name in sorted(names)]

    def test_files_are_short(self):
        self.assertTrue(self.files())
        for path in self.files():
            with self.subTest(path), open(path, "rb") as file:
                held = file.read()
                self.assertLessEqual(len(held), MOST_BYTES)
                if not path.endswith(".xz"):
                    self.assertLessEqual(held.count(b"\n"), MOST_LINES)

    def test_files_hold_summaries_in_one_form(self):
        for path in self.files():
            with self.subTest(path):
                if path.endswith(".xz"):
                    continue
                self.assertTrue(path.endswith(".json"), "neither .json nor compressed")
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                held = json.loads(text)
                self.assertLessEqual(longest_row(held), MOST_SAMPLES, "samples, not a summary of them")
                self.assertEqual(text, result_file.text_of(held) + "\n", "not written by result_file.py")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Results.folder = os.path.abspath(sys.argv.pop(1))
    unittest.main()
