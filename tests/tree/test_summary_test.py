#!/usr/bin/env python3
"""Tests scripts/test-summary: what it runs again, what it counts, and what it says last."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FAILED = '<testcase name="{}" status="fail"><failure/><system-out>first\nlast of {}</system-out></testcase>'
PASSED = '<testcase name="{}" status="run"/>'


class TestSummary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def results(self, name, failed=(), passed=()):
        path = os.path.join(self.folder, name)
        cases = [FAILED.format(test, test) for test in failed] + [PASSED.format(test) for test in passed]
        with open(path, "w") as file:
            file.write(f"<testsuite>{''.join(cases)}</testsuite>")
        return path

    def summary(self, *arguments):
        ended = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "test-summary"), *arguments],
                               capture_output=True, text=True)
        self.assertEqual(ended.stderr, "")
        return ended.returncode, ended.stdout.splitlines()

    def test_only_tests_of_programs_run_again(self):
        path = self.results("a.xml", failed=["apps.one", "Unit.Test", "cases.two"])
        self.assertEqual(self.summary("--to-repeat", path)[1], [r"^apps\.one$|^cases\.two$"])

    def test_where_many_failed_none_runs_again(self):
        path = self.results("a.xml", failed=["apps.one", "apps.two", "apps.three", "apps.four"])
        self.assertEqual(self.summary("--to-repeat", path)[1], [""])

    def test_what_passes_alone_is_named_and_counts(self):
        first = self.results("a.xml", failed=["apps.one"], passed=["Unit.Test"])
        code, lines = self.summary(first, self.results("b.xml", passed=["apps.one"]))
        self.assertEqual(code, 0)
        self.assertIn("passed when it ran alone, failed beside others: apps.one", lines)
        self.assertTrue(lines[-1].startswith("2 passed, 0 failed"))

    def test_what_fails_again_has_failed(self):
        first = self.results("a.xml", failed=["apps.one"], passed=["Unit.Test"])
        code, lines = self.summary(first, self.results("b.xml", failed=["apps.one"]))
        self.assertEqual(code, 1)
        self.assertIn("  last of apps.one", lines)
        self.assertTrue(lines[-1].startswith("1 passed, 1 failed"))

    def test_without_results_it_fails(self):
        code, lines = self.summary(os.path.join(self.folder, "none.xml"))
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
