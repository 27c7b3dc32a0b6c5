#!/usr/bin/env python3
"""Programs under `cupola serve` on the simulated device: which kernel `cupola ctl show` names, in whatever
form it was launched, and rules that name kernels, for launches that go out as they are.

  kernel_rules.py --build DIR      77: something that it needs is not built
"""
import json
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("tests/bench", "tests/apps"):
    sys.path.insert(0, os.path.join(ROOT, folder))
import built_app  # noqa: E402
import corun  # noqa: E402

LIMIT = 60  # seconds of every wait


class KernelRules(built_app.AppTest):
    environ = {}  # what is short goes out plain

    def start(self, label, blocks="2000", **environ):
        """Starts sliced_app, which has launched `First` and waits for commands when this returns."""
        before = self.bed.environ, self.bed.store
        self.bed.environ = {**self.bed.environ, **environ}
        self.bed.store = environ.get("CUPOLA_STORE", self.store)
        job = self.bed.start("cupola", label, [self.folder + "sliced_app", blocks])
        self.bed.environ, self.bed.store = before
        self.addCleanup(job.kill)
        self.assertEqual(job.await_line(LIMIT), "ready")
        return job

    def tell(self, job, text):
        job.process.stdin.write(text.encode())

    def end(self, job):
        """Lets the program end. Returns what it says of its launches."""
        self.tell(job, "end 0\n")
        code, out = job.finish(LIMIT)
        self.assertEqual(code, 0, out + job.err)
        return job.err

    def row(self, label):
        code, text = self.bed.run_tool(["ctl", "--json", "show"], LIMIT)
        self.assertEqual(code, 0, text)
        (row,) = [client for gpu in json.loads(text)["gpus"] for client in gpu["clients"]
                  if client["label"] == label]
        return row

    def await_row(self, label, **wanted):
        deadline = time.monotonic() + LIMIT
        while (row := {name: self.row(label)[name] for name in wanted}) != wanted:
            self.assertLess(time.monotonic(), deadline, row)

    def test_the_kernel_that_is_shown(self):
        """In each form of its launch."""
        forms = {"1 launches plain: nobody may ask": {},
                 "2 launches plain: no variant": {"CUPOLA_STORE": self.bed.folder},
                 " 2 gates": {"CUPOLA_GATE_EVERY": "1", "CUPOLA_PREEMPT": "never"},
                 "1 launches sliced for want": {"CUPOLA_PREEMPT": "always"},
                 "tasks: 1 launches": {"CUPOLA_TASKS": "always"}}
        for saying, environ in forms.items():
            with self.subTest(saying), \
                    self.bed.arbiter(corun.config("hpf", {"high": {"priority": 5}})):
                # Another client that may ask the program to yield, if the test needs one.
                high = self.start("high") if "CUPOLA_PREEMPT" in environ else None
                it = self.start("it", "8" if "CUPOLA_TASKS" in environ else "2000", **environ)
                self.await_row("it", kernel="First")
                self.tell(it, "sum 0\n")
                self.await_row("it", kernel="Sum")
                self.assertIn(saying, self.end(it))
                if high:
                    self.end(high)

    def test_a_rule_for_a_kernel_that_goes_out_plain(self):
        rules = corun.config("hpf", {"it": {"kernel": "Su?", "priority": 7}})
        with self.bed.mps(), self.bed.arbiter(rules):
            other, it = self.start("other"), self.start("it")
            self.await_row("it", kernel="First", priority=0)
            self.tell(it, "sum 0\n")
            self.await_row("it", kernel="Sum", priority=7)
            self.tell(it, "sum 0\n")  # now the program may ask others, so it launches with the highest priority
            said = self.end_after_two(it)
            self.assertRegex(said, " [12] with priority")
            self.assertRegex(self.end(other), " 0 with priority")

    def end_after_two(self, job):
        """As end(), for a program whose blocks ran twice, which it calls an error."""
        self.tell(job, "end 0\n")
        job.finish(LIMIT)
        return job.err


if __name__ == "__main__":
    sys.exit(built_app.main(KernelRules, __doc__, "sliced_app"))
