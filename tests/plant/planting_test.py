#!/usr/bin/env python3
"""What planting.py makes of marked code, what it says where it cannot, and that the tree's markers and the lists of
bugs belong together.

usage: planting_test.py ROOT
"""
import importlib.util
import os
import pathlib
import sys
import unittest

import planting
from planting import after, before, change, condition, drop, replace

ROOT = pathlib.Path(sys.argv.pop())
LISTS = ("tests/preempt/plant.py", "tests/unit/runtime/plant.py", "tests/unit/sched/plant.py")
PRODUCT = ("base", "cli", "device", "include", "intercept", "models", "profiles", "sched")

SOURCE = """\
int Sum(const int* values, int count) {
  int sum = 0;  // plant: starts_late
  // plant: forgets_the_last, counts_down
  for (int i = 0; i < count; ++i) {
    Say("a bracket: (");  // and one here: {
    sum += values[i];  // each value  // plant: takes_the_last
  }
  // plant: never_negative_sums
  if (sum < 0 &&
      Fits(count)) return -1;  // plant: never_negative
  // plant: says_nothing
  Say("done");
  Count(1);
  // end plant: says_nothing
  return sum > kMost ? kMost  // plant: no_most
                     : sum;
}
"""


def made(name, action, source=SOURCE):
    return planting.planted(source, name, action, "sum.cpp")


class Actions(unittest.TestCase):
    def expect(self, name, action, old, new):
        self.assertEqual(SOURCE.count(old), 1)
        self.assertEqual(made(name, action), SOURCE.replace(old, new))

    def test_drop_takes_the_line_and_its_marker(self):
        self.expect("takes_the_last", drop(), "    sum += values[i];  // each value  // plant: takes_the_last\n", "")

    def test_drop_takes_a_statement_to_the_bracket_that_closes_it(self):
        loop = SOURCE[SOURCE.index("  for"):SOURCE.index("  // plant: never_negative_sums")]
        self.expect("counts_down", drop(), loop, "")

    def test_drop_takes_a_statement_of_several_lines(self):
        self.expect("no_most", drop(),
                    "  return sum > kMost ? kMost  // plant: no_most\n                     : sum;\n", "")

    def test_drop_takes_what_is_marked_to_its_end(self):
        self.expect("says_nothing", drop(), '  Say("done");\n  Count(1);\n', "")

    def test_replace_keeps_the_indent(self):
        self.expect("takes_the_last", replace("if (i == 0) {\n  sum = values[i];\n}"),
                    "    sum += values[i];  // each value  // plant: takes_the_last\n",
                    "    if (i == 0) {\n      sum = values[i];\n    }\n")

    def test_before_and_after_keep_the_code(self):
        self.expect("starts_late", before("Begin();"), "  int sum = 0;  // plant: starts_late\n",
                    "  Begin();\n  int sum = 0;\n")
        self.expect("starts_late", after("++values;"), "  int sum = 0;  // plant: starts_late\n",
                    "  int sum = 0;\n  ++values;\n")

    def test_condition_takes_the_brackets_place(self):
        self.expect("never_negative_sums", condition("false"),
                    "sum < 0 &&\n      Fits(count)) return -1;  // plant: never_negative", "false) return -1;")

    def test_change_is_within_the_marked_code(self):
        self.expect("forgets_the_last", change("i < count", "i + 1 < count"),
                    "i < count; ++i) {\n    Say(\"a bracket: (\");  // and one here: {\n"
                    "    sum += values[i];  // each value  // plant: takes_the_last\n",
                    "i + 1 < count; ++i) {\n    Say(\"a bracket: (\");  // and one here: {\n"
                    "    sum += values[i];  // each value\n")

    def test_a_marker_of_a_later_line_marks_the_rest(self):
        self.expect("never_negative", change("return -1", "return 0"),
                    "return -1;  // plant: never_negative", "return 0;")

    def test_other_edits_of_the_line_leave_the_bug(self):
        edited = SOURCE.replace("sum += values[i]", "total += values[i] * 1")
        self.assertNotIn("total", made("takes_the_last", drop(), edited))


class Errors(unittest.TestCase):
    def expect(self, message, name, action, source=SOURCE):
        with self.assertRaises(planting.PlantError) as caught:
            made(name, action, source)
        self.assertEqual(str(caught.exception), f"sum.cpp: {message}")

    def test_no_marker(self):
        self.expect("the marker '// plant: starts' occurs 0 times, not once", "starts", drop())

    def test_a_marker_twice(self):
        self.expect("the marker '// plant: x' occurs 2 times, not once", "x", drop(),
                    "A();  // plant: x\n// plant: y, x\nB();\n")

    def test_ends_that_do_not_fit(self):
        message = "'// end plant: x' is to stand once, and behind '// plant: x'"
        self.expect(message, "x", drop(), "// end plant: x\n// plant: x\nA();\n")
        self.expect(message, "x", drop(), "// plant: x\nA();\n// end plant: x\n// end plant: x\n")

    def test_a_statement_without_an_end(self):
        self.expect("the statement at '// plant: x' has no end", "x", drop(), "if (a) {  // plant: x\n  B();\n")
        self.expect("the statement at '// plant: x' has no end", "x", drop(), "A();\n// plant: x\n")

    def test_what_is_not_there(self):
        self.expect("at '// plant: starts_late': 'total' occurs 0 times in the marked code, not once", "starts_late",
                    change("total", "0"))
        self.expect("at '// plant: starts_late': the marked statement has no condition", "starts_late",
                    condition("false"))


class Tree(unittest.TestCase):
    """Each marker is a bug's, and each bug can be planted at its marker."""

    def test_markers_and_lists(self):
        bugs, others = {}, set()
        for path in LISTS:
            spec = importlib.util.spec_from_file_location(path.replace("/", "_"), ROOT / path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            for name, bug in module.BUGS.items():
                self.assertNotIn(name, bugs)
                bugs[name] = bug[-1] if isinstance(bug, tuple) else bug
            others.update(getattr(module, "OTHER_MARKERS", ()))
        found = []
        for path in (path for folder in PRODUCT for path in (ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh", ".def"):
                continue
            text = path.read_text()
            for name in planting.names_of(text):
                found.append(name)
                if name in bugs:
                    self.assertNotEqual(planting.planted(text, name, bugs[name], path), text, name)
        self.assertEqual(sorted(found), sorted(set(bugs) | others))


if __name__ == "__main__":
    unittest.main()
