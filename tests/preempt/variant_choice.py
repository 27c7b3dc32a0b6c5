#!/usr/bin/env python3
"""A program under `cupola serve` on the simulated device, its kernels in the form that a rule of the
config names: as they are, preemptible, in slices. Its output is that of a plain run.

  variant_choice.py --build DIR      77: something that it needs is not built
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("tests/bench", "tests/apps"):
    sys.path.insert(0, os.path.join(ROOT, folder))
import built_app  # noqa: E402
import corun  # noqa: E402

LIMIT = 60  # seconds of every wait


class VariantChoice(built_app.AppTest):
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


    def start_sliced(self, label, command):
        """Starts sliced_app and gives it its command."""
        job = self.bed.start("cupola", label, [self.folder + "sliced_app"])
        self.addCleanup(job.kill)
        self.assertEqual(job.await_line(LIMIT), "ready")
        job.process.stdin.write(command)
        return job

    def test_slices_where_no_other_form_is_there(self):
        # The program launches another kernel, which has a preemptible form, before that.
        sayings = {None: "1 launches sliced for want of a preemptible variant",
                   "original": "2 launches plain: configured",
                   "preemptible": "1 launches plain: configured"}
        for choice, saying in sayings.items():
            with self.subTest(choice=choice):
                rules = {"high": {"priority": 5}}
                if choice:
                    rules["it"] = {"variant": choice}
                with self.bed.arbiter(corun.config("hpf", rules)):
                    high = self.start_sliced("high", b"")  # that may ask
                    it = self.start_sliced("it", b"sum 0\nend 0\n")
                    code, out = it.finish(LIMIT)
                    self.assertEqual((code, out), (0, "2000 blocks ran once\n"), it.err)
                    self.assertIn(saying, it.err)
                    self.assertEqual(high.finish(LIMIT)[0], 0, high.err)


if __name__ == "__main__":
    sys.exit(built_app.main(VariantChoice, __doc__, "sliced_app"))
