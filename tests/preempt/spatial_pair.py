#!/usr/bin/env python3
"""Two programs under `cupola serve` on the simulated device: a kernel of high priority that needs one
of four SMs runs until it is told to end, beside large ones, whose results are those of a plain run.

One kernel's blocks note where they ran; its variant is written by hand, since the passes refuse what
reads %smid. The variants of the other program are made by `cupola build`.

  spatial_pair.py --build DIR      77: something that it needs is not built
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("tests/gpu", "tests/bench", "tests/apps"):
    sys.path.insert(0, os.path.join(ROOT, folder))
from guarded_calls import ask  # noqa: E402
import built_app  # noqa: E402
import corun  # noqa: E402

BLOCKS = 6000  # of the large kernel: preempt_app.cu, kBlocks
WORKERS = 32  # that the simulated device has room for
PREEMPTED = "[1-9][0-9]* preemptions"
HELD_BACK = PREEMPTED + "|[1-9][0-9]* gates"  # launched while it was held it waits at a gate
TRIES = 10
LIMIT = 60  # seconds of every wait
RULES = {"low": {"priority": 0}, "high": {"priority": 5}}


class SpatialPair(built_app.AppTest):
    environ = {"CUPOLA_PREEMPT": "always", "CUPOLA_POLL_NS": "0"}

    def start(self, system, label, scenario, by_hand=True):
        self.bed.environ.pop("CUPOLA_BUNDLE", None)
        if by_hand:
            self.bed.environ["CUPOLA_BUNDLE"] = self.build + "/tests/preempt/variants.bundle"
        job = self.bed.start(system, label, [self.app, scenario, "non-blocking"])
        self.addCleanup(job.finish, 1)
        self.addCleanup(job.kill)  # does nothing where it has ended
        return job

    def start_ready(self, system, label, scenario):
        job = self.start(system, label, scenario)
        self.expect(job, "ready")
        return job

    def expect(self, job, line):
        self.assertEqual(job.await_line(LIMIT), line)

    def go_on(self, job):
        job.process.stdin.write(b"\n")

    def launch(self, job):
        self.go_on(job)
        self.expect(job, "kernel launched")

    def sms(self, job):
        """Blocks on each SM; the next line is the checksum."""
        line = job.await_line(LIMIT)
        self.assertRegex(line or "", "^SMs: ")
        counts = [int(word) for word in line.split()[1:]]
        self.assertEqual(sum(counts), BLOCKS)
        return counts

    def end(self, job):
        """Lets the program end, which it must do well. Returns its output from here on."""
        code, out = job.finish(LIMIT)
        self.assertEqual(code, 0, job.err)
        return out

    def command(self, job, text):
        """Gives preempt_app a command of its scenario "paced" and returns the answer."""
        job.process.stdin.write(text.encode() + b"\n")

    def launch_paced(self, job, mask):
        """Launches the paced kernel, whose blocks hold the SMs that are not in the mask."""
        self.command(job, f"open {mask}")
        self.expect(job, "kernel launched")

    def plain_result(self):
        job = self.start_ready("plain", "", "paced")
        self.launch_paced(job, 0b1111)
        self.command(job, "end 0")
        self.sms(job)
        return self.end(job)

    def client(self, job):
        """What the arbiter shows of the program."""
        clients = [c for gpu in ask(self.bed, command="show")["gpus"] for c in gpu["clients"]]
        return next(c for c in clients if c["pid"] == job.process.pid)

    def becomes(self, job, condition, seconds=LIMIT):
        """Waits until what the arbiter shows of the program satisfies the condition. False: it does not in time."""
        deadline = corun.time.monotonic() + seconds
        while not condition(self.client(job)):
            if corun.time.monotonic() > deadline:
                return False
            corun.time.sleep(0.002)  # between two looks
        return True

    def start_high(self):
        return self.start_ready("cupola", "high", "hold")

    def hold(self, high):
        """Starts the program's kernel, which runs when this returns."""
        self.launch(high)
        self.assertTrue(self.becomes(high, lambda client: client["active"]), self.client(high))

    def until_kept(self, run):
        """Runs until nothing is wrong: again where a lease was not renewed in time, for all SMs are
        given back for a moment then."""
        for _ in range(TRIES):
            wrong = run()
            if wrong is None:
                return
            print(f"again: {wrong}", file=sys.stderr)
        self.fail(wrong)

    def beside(self, sms_left, **policy):
        """With a context that both share: the large kernel ends while the small one runs."""
        self.bed.environ["CUPOLA_SIM_MPS"] = "1"
        expected = self.plain_result()

        def run():
            with self.bed.arbiter(corun.config("hpf", RULES, spatial=True, **policy)):
                high = self.start_high()
                low = self.start_ready("cupola", "low", "paced")
                self.hold(high)
                self.launch_paced(low, (1 << sms_left) - 1)
                self.command(low, "held 1")  # on an SM that is not needed
                self.expect(low, "reached 1")
                left = self.becomes(low, lambda c: c["stopped"] and c["preemptions"] > 0, 5)
                said = None if left else self.client(low), self.client(high)
                self.command(low, "end 0")
                counts = self.sms(low)
                self.assertEqual(self.end(low), expected)
                self.go_on(high)
                self.assertEqual(self.end(high), "done\n")
            if not left:
                return f"it did not leave: {said} {high.err}"
            return None if sum(counts[:sms_left]) <= BLOCKS // 8 else counts

        self.until_kept(run)

    def instead(self, **policy):
        """The large kernel waits until the small one has ended, and then has all SMs."""
        expected = self.plain_result()

        def run():
            with self.bed.arbiter(corun.config("hpf", RULES, **policy)):
                high = self.start_high()
                low = self.start_ready("cupola", "low", "paced")
                self.hold(high)
                self.launch_paced(low, 0b1111)
                corun.time.sleep(0.3)  # for it to end in, were it not stopped
                self.command(low, "open 0")
                self.go_on(high)
                self.assertEqual(self.end(high), "done\n")
                self.command(low, f"held {WORKERS}")
                said = low.await_line(LIMIT / 12)
                if said != "reached 1":
                    low.kill()
                    return f"the large kernel beside the small one: {said}"
                self.command(low, "end 0")
                self.sms(low)
                self.assertEqual(self.end(low), expected)
                self.assertRegex(low.err, HELD_BACK)
            return None

        self.until_kept(run)

    def test_the_large_kernel_leaves_the_sm_that_is_needed(self):
        self.beside(1)

    def test_and_as_many_more_as_are_configured(self):
        self.beside(2, spatial_extra_sms=1)

    def test_programs_as_they_are_built(self):
        self.bed.environ["CUPOLA_SIM_MPS"] = "1"
        expected = self.end(self.start("plain", "", "order"))

        def run():
            with self.bed.arbiter(corun.config("hpf", RULES, spatial=True)):
                high = self.start_high()
                self.hold(high)
                low = self.start("cupola", "low", "order", by_hand=False)
                self.expect(low, "kernel launched")
                self.assertEqual("kernel launched\n" + self.end(low), expected)
                self.go_on(high)
                self.assertEqual(self.end(high), "done\n")
            return None if re.search(PREEMPTED, low.err) else low.err

        self.until_kept(run)

    def test_without_spatial_preemption_it_leaves_all(self):
        self.bed.environ["CUPOLA_SIM_MPS"] = "1"
        self.instead(spatial=False)

    def test_without_a_shared_context_it_leaves_all(self):
        self.instead()


if __name__ == "__main__":
    sys.exit(built_app.main(SpatialPair, __doc__))
