"""The scheduling class and the processor time of `cupola serve`. Run by ctest; arbiter_bed.py says what the tests need."""
import json
import os
import subprocess
import sys
import time
import unittest

from arbiter_bed import CUPOLA, Member, ServeTest, until


class Scheduling(ServeTest):
    """The scheduling class of the threads that decide, as the system shows it."""

    # Without the right to a real-time priority or a lower nice value, whoever runs the test.
    NO_RIGHTS = ["prlimit", "--rtprio=0", "--nice=0", "setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"]

    def scheduling(self):
        return json.loads(self.ctl("--json", "show"))["scheduling"]

    def threads(self, daemon):
        """(policy, nice, processor ticks) of each thread of the daemon."""
        found = []
        for thread in os.listdir(f"/proc/{daemon.pid}/task"):
            with open(f"/proc/{daemon.pid}/task/{thread}/stat", "rb") as file:
                stat = file.read().rpartition(b")")[2].split()
            found.append((int(stat[38]), int(stat[16]), int(stat[11]) + int(stat[12])))
        return found

    def needs_real_time(self):
        def take():
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        child = os.fork()
        if child == 0:
            try:
                take()
            except OSError:
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            self.skipTest("no real-time priority is allowed here")

    def test_real_time_where_it_is_allowed_for_the_deciding_thread_alone(self):
        self.needs_real_time()
        daemon = self.serve(env={**self.env, "CUPOLA_LOG": "info"})
        Member(self)
        until(lambda: [policy for policy, _, _ in self.threads(daemon)].count(os.SCHED_FIFO) == 1,
              "one thread at a real-time priority")
        shown = self.scheduling()
        self.assertEqual((shown["wanted"], shown["class"], shown["policy"], shown["priority"], shown["why"]),
                         ("auto", "real-time", "SCHED_FIFO", 1, ""))
        self.assertGreater(len(self.threads(daemon)), 2)  # the others are as they were
        daemon.terminate()
        self.assertIn("decisions are made at a real-time priority (SCHED_FIFO 1)", daemon.stderr.read())

    def test_without_the_right_it_decides_all_the_same_and_says_so(self):
        daemon = subprocess.Popen([*self.NO_RIGHTS, CUPOLA, "serve"], env=self.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        self.addCleanup(daemon.stderr.close)
        self.addCleanup(daemon.stdout.close)
        self.assertEqual(daemon.stdout.readline(), f"listening on {self.socket}\n")
        low, high = Member(self), Member(self)
        low.say("begin 500000000")
        until(lambda: self.clients()[low.pid]["granted"], "it runs")
        high.say("begin 100000000")  # one that outlives its prediction would take turns with the other
        until(lambda: self.clients()[high.pid]["granted"], "the shorter one runs")
        self.assertEqual({policy for policy, _, _ in self.threads(daemon)}, {os.SCHED_OTHER})
        shown = self.scheduling()
        self.assertIn("RLIMIT_RTPRIO", shown["why"])
        self.assertEqual((shown["policy"], shown["priority"]), ("SCHED_OTHER", 0))
        self.assertNotEqual(shown["class"], "real-time")
        daemon.terminate()
        self.assertIn("no real-time priority is allowed (RLIMIT_RTPRIO is 0", daemon.stderr.read())

    def test_what_the_configuration_says_counts_at_once(self):
        self.needs_real_time()
        self.write_config('[server]\nscheduling = "ordinary"\n')
        daemon = self.serve("--config", self.config)
        member = Member(self)
        self.assertEqual(self.scheduling()["class"], "ordinary")
        self.assertEqual({policy for policy, _, _ in self.threads(daemon)}, {os.SCHED_OTHER})
        self.write_config('[server]\nscheduling = "auto"\n')
        self.ctl("reload")
        until(lambda: self.scheduling()["class"] == "real-time", "the thread has changed")
        self.assertIn(os.SCHED_FIFO, [policy for policy, _, _ in self.threads(daemon)])
        self.write_config('[server]\nscheduling = "fast"\n')
        done = self.cupola("ctl", "reload")
        self.assertEqual(done.returncode, 1)
        self.assertIn('expected one of "auto", "nice", "ordinary", not "fast"', done.stderr)
        self.assertEqual(self.scheduling()["wanted"], "auto")
        self.write_config("")
        self.ctl("reload")
        self.assertEqual(self.scheduling()["wanted"], "auto")
        self.write_config('[server]\nscheduling = "nice"\n')
        self.ctl("reload")
        until(lambda: self.scheduling()["nice"] == -10, "the thread has changed")
        self.assertIn((os.SCHED_OTHER, -10), [thread[:2] for thread in self.threads(daemon)])
        member.say("begin 100")
        until(lambda: self.clients()[member.pid]["granted"], "decisions are made")

    def test_a_client_that_rings_without_a_pause_does_not_take_a_processor(self):
        self.needs_real_time()
        daemon = self.serve()
        members = [Member(self) for _ in range(2)]

        def ticks():
            return sum(used for policy, _, used in self.threads(daemon) if policy == os.SCHED_FIFO)
        until(lambda: self.scheduling()["class"] == "real-time", "the thread has its class")
        before, began = ticks(), time.monotonic()
        for member in members:
            member.process.stdin.write("storm 2000\n")
            member.process.stdin.flush()
        for member in members:
            self.assertEqual(member.process.stdout.readline(), "ok\n")
        used = (ticks() - before) / os.sysconf("SC_CLK_TCK")
        self.assertLess(used, 0.6 * (time.monotonic() - began))  # half, and what may be spent in one go
        shown = self.scheduling()
        self.assertGreater(shown["rests"], 0)
        self.assertEqual((shown["class"], shown["stopped_by_guard"]), ("real-time", 0))

    def test_decisions_are_counted_and_most_are_standing_ones(self):
        self.write_config('[[rule]]\nlabel = "high"\npriority = 5\n')
        self.serve("--config", self.config)
        low, high = Member(self), Member(self, env={**self.env, "CUPOLA_LABEL": "high"})
        until(lambda: high.show()["may_take"] == 1 << low.slot, "the standing decision")
        low.say("begin 100000000")
        until(lambda: self.clients()[low.pid]["granted"], "it runs")

        def decisions():
            return json.loads(self.ctl("--json", "show"))["gpus"][0]["decisions"]
        before = decisions()
        for _ in range(20):
            high.say("begin 500")
            until(lambda: self.clients()[high.pid]["granted"], "it runs")
            high.say("end")
            until(lambda: self.clients()[low.pid]["granted"], "the other goes on")
        after = decisions()
        self.assertEqual(after["count"] - before["count"], 20)
        self.assertEqual(after["by_daemon"], before["by_daemon"])  # it asks the other itself
        self.assertGreater(after["p99_us"], 0)
        self.assertGreaterEqual(after["p99_us"], after["p50_us"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
