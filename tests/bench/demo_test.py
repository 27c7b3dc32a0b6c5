"""The part of scripts/demo in which two programs share the simulated device, short: what it says and, where there is
matplotlib, what it draws. usage: demo_test.py BUILD      77: something that it needs is not built"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import charts

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SVG = "{http://www.w3.org/2000/svg}"
RUNS = ("without Cupola", "with priorities")
LEAST_FACTOR = 4  # about 20 is seen, also on a busy machine


def rows_of(picture):
    """{name of a row: [width of each piece in it]}: a row is the group of that name, a piece one path of it."""
    root = xml.etree.ElementTree.parse(picture).getroot()
    rows = {}
    for group in root.iter(SVG + "g"):
        if ": " in (group.get("id") or ""):
            paths = [path.get("d") for path in group.iter(SVG + "path")]
            across = [[float(x) for x in re.findall(r"[ML] ([-0-9.]+)", path)] for path in paths]
            rows[group.get("id")] = [max(xs) - min(xs) for xs in across]
    return rows


class Share(unittest.TestCase):
    build = ""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="cupola-demo-")
        cls.addClassCleanup(folder.cleanup)
        cls.picture = folder.name + "/share.svg"
        done = subprocess.run(
            [sys.executable, ROOT + "/scripts/demo-share", "--build", cls.build, "--device", "sim",
             "--quick", "--picture", cls.picture],
            capture_output=True, text=True, timeout=150)
        if done.returncode == 77:
            raise unittest.SkipTest(done.stderr)
        cls.said, cls.code = done.stdout + done.stderr, done.returncode

    def test_results_are_the_same(self):
        self.assertEqual(self.code, 0, self.said)
        self.assertIn("The results of both programs are the same.", self.said)

    def figures(self, run):
        """The table's mean, median, p99 and longest of the short kernel, in us."""
        row = re.search(rf"^{run} +(\d+) +(\d+) +(\d+) +(\d+) ", self.said, re.MULTILINE)
        self.assertTrue(row, self.said)
        return [int(figure) for figure in row.groups()]

    def test_priorities_shorten_the_wait(self):
        factor = re.search(r"is done ([\d.]+) times sooner", self.said)
        self.assertTrue(factor, self.said)
        plain, cupola = (self.figures(run) for run in RUNS)
        means = plain[0] / cupola[0]
        self.assertAlmostEqual(float(factor[1]), means, delta=0.06 + 1e-3 * means)
        # A busy machine may keep one of the few kernels from running at all, which does not change the median.
        self.assertGreater(plain[1] / cupola[1], LEAST_FACTOR, self.said)
        preempted = re.search(r"^batch: .* (\d+) preemptions", self.said, re.MULTILINE)
        self.assertGreater(int(preempted[1]) if preempted else 0, 0, self.said)

    def test_picture(self):
        if not charts.has_matplotlib():
            self.assertIn("picture: not drawn", self.said)
            self.assertFalse(os.path.exists(self.picture))
            return
        rows = rows_of(self.picture)
        self.assertEqual(set(rows), {f"{run}: {what}" for run in RUNS
                                     for what in ("short kernel", "batch")})
        self.assertTrue(all(rows.values()), rows)
        widths = [rows[f"{run}: short kernel"] for run in RUNS]
        self.assertEqual(len(widths[0]), len(widths[1]), rows)
        longest = [self.figures(run)[3] for run in RUNS]
        scale = max(widths[0]) / longest[0]
        least = max(widths[0] + widths[1]) * 0.001  # what is shorter is drawn as long as that, and a little more
        self.assertAlmostEqual(max(widths[1]), max(least, scale * longest[1]), delta=0.6, msg=f"{rows} {longest}")


def main():
    Share.build = os.path.abspath(sys.argv.pop(1))
    done = unittest.main(verbosity=2, exit=False).result
    if not done.wasSuccessful():
        return 1
    return 77 if done.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
