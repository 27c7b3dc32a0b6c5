#!/usr/bin/env python3
"""A program under `cupola serve` on the simulated device, its kernels in the form that a rule of the
config names: as they are, preemptible, in slices. Its output is that of a plain run.

  variant_choice.py --build DIR      77: something that it needs is not built
"""
import argparse
import os
import re
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("tests/bench", "tests/apps"):
    sys.path.insert(0, os.path.join(ROOT, folder))
import corun  # noqa: E402
import runner  # noqa: E402

LIMIT = 60  # seconds of every wait
BUILD = None


class VariantChoice(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cupola-choice-")
        self.addCleanup(folder.cleanup)
        self.bed = corun.Bed(BUILD, "sim", folder.name)
        self.addCleanup(self.bed.close)
        self.bed.environ.update(CUPOLA_PREEMPT="always")
        self.app = BUILD + "/tests/preempt/preempt_app"
        environ = {**os.environ, "CUPOLA_STORE": self.bed.store}
        built = runner.run([BUILD + "/bin/cupola", "build", "--quiet", self.app], environ, 120)
        self.assertEqual(built["code"], 0, built["stderr"])

    def run_it(self, system):
        """(output, {form: launches})"""
        job = self.bed.start(system, "it", [self.app, "order", "non-blocking"])
        self.addCleanup(job.kill)
        code, out = job.finish(LIMIT)
        self.assertEqual(code, 0, job.err)
        return out, {form: int(count) for count, form in
                     re.findall(r"(\d+) launches (preemptible|sliced|plain: configured)", job.err)}

    def test_the_form_that_is_named(self):
        expected, _ = self.run_it("plain")
        for choice, form in (("original", "plain: configured"), ("preemptible", "preemptible"),
                             ("sliced", "sliced")):
            with self.subTest(choice=choice):
                rules = {"it": {"variant": choice}}
                with self.bed.arbiter(corun.config("hpf", rules)):
                    out, launches = self.run_it("cupola")
                self.assertEqual(out, expected)
                self.assertGreater(launches.pop(form, 0), 0, launches)
                self.assertEqual({form: n for form, n in launches.items() if n != 0}, {})


def main():
    global BUILD
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    options, rest = parser.parse_known_args()
    BUILD = os.path.abspath(options.build)
    app = BUILD + "/tests/preempt/preempt_app"
    if not os.path.exists(app) or not os.path.exists(BUILD + "/bin/cupola"):
        print(f"variant_choice: no {app} or cupola: build them first", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
