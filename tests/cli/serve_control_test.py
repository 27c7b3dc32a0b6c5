"""`cupola ctl` with real processes: what it shows, sets and refuses. Run by ctest; arbiter_bed.py says what the tests
need.
"""
import json
import os
import re
import signal
import sys
import unittest

from arbiter_bed import DAEMON_BIT, TIMEOUT, Member, ServeTest, Wire, until


class Control(ServeTest):
    def test_show_and_set(self):
        self.serve()
        self.assertIn("no process has joined", self.ctl("show"))
        member = Member(self)
        done = self.cupola("ctl", "set", str(member.pid), "priority=3", "weight=4", "latency_bound_us=700")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "", "cupola: weight counts under ffs; the policy is hpf\n"))
        row = self.clients()[member.pid]
        self.assertEqual((row["priority"], row["weight"], row["latency_bound_us"]), (3, 4, 700))
        self.assertEqual(member.show()["priority"], 3)
        self.assertRegex(self.ctl("show"), rf"{member.pid} +board_member +3 +4 .* idle")

    def test_what_is_set_holds_until_the_process_ends(self):
        self.write_config("[[rule]]\npriority = 1\n")
        self.serve("--config", self.config)
        member = Member(self, env={**self.env, "CUPOLA_LABEL": "one"})
        pid = str(member.pid)
        self.ctl("set", pid, "priority=3")
        self.ctl("pause", pid)
        self.ctl("reload")
        self.assertEqual(member.show()["priority"], 3)
        member.say("leave")
        until(lambda: member.pid not in self.clients(), "it has left")
        self.ctl("policy", "ffs")
        self.ctl("set", pid, "weight=5")
        self.assertEqual(member.say("join GPU-2"), "joined")
        row = self.clients()[member.pid]
        self.assertEqual((row["priority"], row["weight"], row["paused"]), (3, 5, True))
        self.ctl("resume", pid)
        self.assertFalse(self.clients()[member.pid]["paused"])
        member.say("leave")
        until(lambda: member.pid not in self.clients(), "it has left")
        member.close()
        refused = self.cupola("ctl", "pause", pid)
        self.assertEqual((refused.returncode, refused.stderr), (1, f"cupola: process {pid} is not known here\n"))

    def test_pause_and_resume(self):
        self.serve()
        member = Member(self)
        member.say("begin 1000 60000")
        self.ctl("pause", str(member.pid))
        until(lambda: member.show()["requests"] == DAEMON_BIT, "held")
        self.assertIn("paused", self.ctl("show"))
        self.ctl("resume", str(member.pid))
        until(lambda: member.show()["requests"] == 0, "let go")

    def test_who_cannot_be_stopped_is_not_held(self):
        self.write_config('[[rule]]\nexecutable = "*"\nlabel = "high"\npriority = 5\n')
        self.serve("--config", self.config)
        high = Member(self, env={**self.env, "CUPOLA_LABEL": "high"})
        for abilities, state in ((0, "runs (cannot be stopped)"), (2, "waits")):
            low = Member(self, capabilities=abilities)
            low.say("begin 10000 60000")
            high.say("begin 500 60000")
            until(lambda: self.clients()[high.pid]["granted"], "the high one runs")
            self.assertRegex(self.ctl("show"), rf"{low.pid} .*{re.escape(state)}")
            self.assertEqual(low.show()["requests"] != 0, abilities != 0)
            high.say("end")

    def test_policy(self):
        self.serve()
        Member(self)
        self.ctl("policy", "ffs")
        self.assertIn("policy=ffs", self.ctl("show", "--state"))
        refused = self.cupola("ctl", "policy", "best")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("there are hpf, ffs, fifo, reorder, corun", refused.stderr)

    def test_what_cannot_be(self):
        absent = self.cupola("ctl", "show")
        self.assertEqual(absent.returncode, 1)
        self.assertIn("no arbiter is running here", absent.stderr)
        self.serve()
        for words, code, text in ((("set", "1", "priority=high"), 2, "expected priority=N"),
                                  (("set", "1", "colour=3"), 2, "expected priority=N"),
                                  (("set", "1", "weight=0"), 1, "weight must be a whole number"),
                                  (("set", "1", "weight=2"), 1, "process 1 is not known here"),
                                  (("reload",), 1, "without --config"),
                                  (("fly",), 2, "")):
            done = self.cupola("ctl", *words)
            self.assertEqual(done.returncode, code, words)
            self.assertIn(text, done.stderr)

    def test_reload(self):
        self.write_config("[[rule]]\npriority = 2\n")
        daemon = self.serve("--config", self.config)
        member = Member(self)
        self.assertEqual(member.show()["priority"], 2)
        self.write_config("[[rule]]\npriority = \"much\"\n")
        refused = self.cupola("ctl", "reload")
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"{self.config}:2:12: expected a whole number", refused.stderr)
        self.assertIn("the configuration stays as it was", refused.stderr)
        self.assertEqual(self.clients()[member.pid]["priority"], 2)
        self.write_config("[[rule]]\npriority = 6\n")
        daemon.send_signal(signal.SIGHUP)
        until(lambda: member.show()["priority"] == 6, "the new rules")

    def reload(self):
        done = self.cupola("ctl", "reload")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_a_reload_without_rules_is_told(self):
        self.write_config("[[rule]]\npriority = 2\n[[rule]]\nweight = 2\n")
        daemon = self.serve("--config", self.config)
        self.assertEqual(self.reload(), "")
        for text in ("", "# nothing\n", "[policy]\nquantum_us = 300\n"):
            self.write_config(text)
            self.assertEqual(self.reload(),
                             f"cupola: {self.config} has no rules now; 2 that were in force are gone\n")
            self.assertEqual(self.reload(), "", "that is no news")
            self.write_config("[[rule]]\npriority = 2\n[[rule]]\nweight = 2\n")
            self.assertEqual(self.reload(), "")
        self.write_config("[server]\nsocket = \"/x/y.sock\"\n[[rule]]\npriority = 1\n")
        self.assertIn("server.socket counts when a daemon starts", self.reload())
        self.write_config("")
        daemon.send_signal(signal.SIGHUP)
        until(lambda: "has no rules now" in daemon.stderr.readline(), "the log has it too")

    def test_the_later_word_about_the_policy_counts(self):
        self.write_config('[policy]\nname = "hpf"\n')
        self.serve("--config", self.config)

        def policy():
            return json.loads(self.ctl("--json", "show"))["policy"]
        self.ctl("policy", "ffs")
        self.assertIn("the policy stays ffs, as cupola ctl policy said; ", self.reload())
        self.assertEqual(policy(), "ffs")
        self.write_config('[policy]\nname = "fifo"\n')
        self.assertIn("the policy is fifo, as ", self.reload())
        self.assertEqual((policy(), self.reload()), ("fifo", ""))
        self.ctl("policy", "ffs")
        self.write_config('[policy]\nname = "ffs"\n')
        self.assertEqual((self.reload(), policy()), ("", "ffs"))
        self.write_config("")
        self.assertEqual((self.reload(), policy()), ("", "hpf"))

    def test_numbers_beyond_those_there_are(self):
        self.serve()
        member = Member(self)
        with Wire(self.socket) as wire:
            for value in (2 ** 64 - 1, 2 ** 63, 2 ** 64 - 1000001, -2 ** 63, 2 ** 70, 1e3, "1", True, None):
                for name in ("priority", "weight", "latency_bound_us"):
                    answer = wire.control(command="set", pid=member.pid, **{name: value})
                    self.assertRegex(answer.get("error", "accepted"), f"{name} must be a whole number")
            self.assertIn("pid must be", wire.control(command="set", pid=2 ** 64 + member.pid - 1, weight=1)["error"])
            self.assertIn("pid must be", wire.control(command="rules", pid=2 ** 64 - 1)["error"])
        row = self.clients()[member.pid]
        self.assertEqual((row["priority"], row["weight"], row["latency_bound_us"]), (0, 1, 0))

    def test_a_wrong_configuration_at_the_start(self):
        self.write_config("[policy]\nname = \"best\"\n")
        refused = self.cupola("serve", "--config", self.config)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"{self.config}:2:8: expected one of", refused.stderr)

    def test_mps_is_started_and_stopped(self):
        tools = os.path.join(self.folder, "bin")
        os.mkdir(tools)
        log = os.path.join(self.folder, "mps.log")
        fake = os.path.join(tools, "nvidia-cuda-mps-control")
        with open(fake, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nif [ "$1" = -d ]; then echo start >> {log}\n'
                       f'else read word; echo "$word" >> {log}; fi\n')
        os.chmod(fake, 0o755)
        env = {**self.env, "PATH": tools + ":" + self.env["PATH"]}
        daemon = self.serve("--mps", env=env)
        self.assertTrue(json.loads(self.ctl("--json", "show"))["mps"])
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(TIMEOUT), 0)
        with open(log, encoding="utf-8") as file:
            self.assertEqual(file.read(), "start\nquit\n")

    def test_without_mps_it_goes_on(self):
        env = {**self.env, "PATH": self.folder}
        daemon = self.serve("--mps", env=env)
        self.assertEqual(Member(self).joined, "joined")
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(TIMEOUT)
        self.assertIn("going on without MPS", daemon.stderr.read())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
