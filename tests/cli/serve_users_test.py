"""Tests who may do what with `cupola serve`: other users, users that the configuration admits, what they
bring and how much of it. Run by ctest; arbiter_bed.py says what the tests need.
"""
import json
import os
import resource
import signal
import subprocess
import sys
import time
import unittest

from arbiter_bed import (BOARD_SLOTS, CUPOLA, DAEMON_BIT, NOBODY, NOBODY_PREFIX, TIMEOUT, Member,
                         ServeTest, Wire, as_nobody, forge_board, until)


class Users(ServeTest):
    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_another_user(self):
        os.chmod(os.path.dirname(self.socket), 0o711)
        self.write_config('[[rule]]\npriority = 1\n')
        daemon = self.serve("--config", self.config)
        os.chmod(self.socket, 0o666)  # were it open, credentials would still be checked
        self.assertRegex(Member(self, prefix=NOBODY_PREFIX).joined,
                         "^refused user .* is not admitted")
        for words in (("--json", "show"), ("pause", "1"), ("policy", "ffs"), ("reload",)):
            asked = self.nobody_asks(*words)
            self.assertEqual((asked.returncode, asked.stdout), (1, ""), words)
            self.assertRegex(asked.stderr, "user .* is not admitted", words)
        self.write_config(f'[access]\nusers = ["{NOBODY}"]\n')
        daemon.send_signal(signal.SIGHUP)
        until(lambda: Member(self, prefix=NOBODY_PREFIX).joined == "joined", "admitted")
        own, other = Member(self), Member(self, prefix=NOBODY_PREFIX)
        until(lambda: other.pid in self.clients(), "it is there")
        self.assertEqual(own.slot, 0, "a board of its own for each user")
        own.say("begin 100000 60000")
        until(lambda: self.clients()[own.pid]["granted"], "runs")
        other.say("begin 100 60000")
        until(lambda: own.show()["requests"] == DAEMON_BIT, "the daemon relays between the boards")
        other.say("end")
        until(lambda: own.show()["requests"] == 0, "it goes on")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_who_is_not_admitted_is_let_go_at_once(self):
        os.chmod(os.path.dirname(self.socket), 0o711)
        self.write_config('[access]\nusers = ["somebody-else"]\n')
        self.serve("--config", self.config)

        def connect_many():
            """Opens more connections than the daemon takes, and sends nothing. Returns the daemon's answers."""
            wires = [Wire(self.socket) for _ in range(100)]
            told = [wire.hear() for wire in wires]
            more = [Wire(self.socket) for _ in range(200)]
            told += [wire.hear() for wire in more]
            for wire in wires + more:
                wire.socket.close()
            return told
        for status, reason, is_over in as_nobody(connect_many):
            self.assertEqual(status, 2)
            self.assertRegex(reason, "user .* is not admitted")
            self.assertTrue(is_over)
        for _ in range(20):  # they send at once, when the daemon may have refused them already
            self.assertRegex(self.nobody_asks("show").stderr, "user .* is not admitted")
            self.assertRegex(Member(self, prefix=NOBODY_PREFIX).joined,
                             "^refused user .* is not admitted")
        self.assertEqual(Member(self).joined, "joined")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_a_user_has_so_many_connections(self):
        self.admit_nobody()

        def connect():
            wires = [Wire(self.socket) for _ in range(256)]
            for wire in wires:  # a connection that has sent something stays
                wire.control(command="policy")
            return [*wires, Wire(self.socket)]

        def fill():
            wires = connect()
            told = [wires[-1].hear(), wires[0].control(command="show")["ok"]]
            for wire in wires:
                wire.socket.close()
            return told
        (status, reason, is_over), is_served = as_nobody(fill)
        self.assertEqual((status, is_over, is_served), (6, True, True))
        self.assertRegex(reason, "^user .* has 256 connections open, which is the most")
        self.assertEqual(Member(self, prefix=NOBODY_PREFIX).joined, "joined", "they have ended")
        own = connect()
        self.assertIn("256 connections", own[-1].hear()[1])
        for wire in own:
            wire.socket.close()
        self.assertEqual(Member(self).joined, "joined")

    def test_who_says_nothing_makes_room(self):
        self.serve()
        silent = [Wire(self.socket) for _ in range(256)]
        began = time.monotonic()
        until(lambda: Member(self).joined == "joined", "room for one that speaks")
        self.assertLess(time.monotonic() - began, 1.9, "not only because all are let go after 2 s")
        self.assertEqual(Member(self).joined, "joined")
        with Wire(self.socket) as speaks:
            self.assertTrue(speaks.control(command="show")["ok"])
        for wire in silent:
            wire.socket.close()

    def test_who_says_nothing_is_let_go(self):
        self.serve()
        with Wire(self.socket) as silent, Wire(self.socket) as speaks:
            self.assertTrue(speaks.control(command="show")["ok"])
            began = time.monotonic()
            self.assertEqual(silent.socket.recv(1), b"")
            self.assertLess(time.monotonic() - began, 8, "the time of those who have spoken is 10 s")
            self.assertTrue(speaks.control(command="show")["ok"])

    def nobody_asks(self, *words):
        return subprocess.run([*NOBODY_PREFIX, CUPOLA, "ctl", *words], env=self.env,
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)

    def admit_nobody(self):
        os.chmod(os.path.dirname(self.socket), 0o711)
        self.write_config(f'[access]\nusers = ["{NOBODY}"]\n')
        return self.serve("--config", self.config)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_what_an_admitted_user_may_do(self):
        daemon = self.admit_nobody()
        # On two GPUs: each has processes of one of them alone.
        own, other = Member(self, uuid="GPU-1"), Member(self, uuid="GPU-2", prefix=NOBODY_PREFIX)
        for words in (("set", str(own.pid), "priority=9"), ("set", str(other.pid), "priority=9"),
                      ("pause", str(own.pid)), ("resume", str(own.pid)), ("pause", "1")):
            asked = self.nobody_asks(*words)
            self.assertEqual(asked.returncode, 1, words)
            self.assertIn("may only pause and resume processes of their own", asked.stderr)
        for words in (("policy", "ffs"), ("reload",)):
            asked = self.nobody_asks(*words)
            self.assertEqual(asked.returncode, 1, words)
            self.assertIn("only the daemon's user may do that", asked.stderr)
        shown = self.nobody_asks("--json", "show")
        self.assertEqual({gpu["policy"] for gpu in json.loads(shown.stdout)["gpus"]}, {"hpf"})
        self.assertEqual({c["paused"] for c in self.clients().values()}, {False})
        for word, paused in (("pause", True), ("resume", False)):
            asked = self.nobody_asks(word, str(other.pid))
            self.assertEqual((asked.returncode, asked.stderr), (0, ""), word)
            self.assertEqual(self.clients()[other.pid]["paused"], paused)
        files = f"/proc/{daemon.pid}/fd"  # the boards of all users
        self.assertTrue(os.listdir(files))
        self.assertEqual(as_nobody(lambda: os.access(files, os.R_OK)), False)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_whose_access_is_taken_away(self):
        self.admit_nobody()
        member = Member(self, prefix=NOBODY_PREFIX)
        self.write_config("[access]\nusers = [\"1\"]\n[[rule]]\npriority = 4\n")
        told = self.cupola("ctl", "reload")
        self.assertEqual(told.returncode, 0)
        self.assertRegex(told.stderr,
                         r"user .* may not join any more; what has joined stays until it ends \(1 process\)")
        self.assertEqual(self.clients()[member.pid]["priority"], 4, "rules are for it too")
        self.assertEqual(member.show()["priority"], 4)
        self.assertRegex(Member(self, prefix=NOBODY_PREFIX).joined, "^refused user .* is not admitted")
        self.assertRegex(self.nobody_asks("pause", str(member.pid)).stderr, "user .* is not admitted")
        self.assertNotIn("may not join", self.cupola("ctl", "reload").stderr, "that is no news")
        member.close()
        until(lambda: member.pid not in self.clients(), "its place is free")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_a_forged_board_gives_no_power(self):
        daemon = self.admit_nobody()
        victim = Member(self)

        def attack():
            board = forge_board([os.getpid(), victim.pid])
            with Wire(self.socket) as wire:
                brought = wire.join(board=board, slot=0)
                shown = wire.control(command="show")
                paused = wire.control(command="set", pid=victim.pid, paused=True)
            return {"brought": brought, "paused": paused, "me": os.getpid(),
                    "clients": [[c["pid"], c["user"]] for c in shown["gpus"][0]["clients"]]}
        done = as_nobody(attack)
        self.assertEqual(done["brought"], [0, ""], "its own slot is its own")
        self.assertEqual({pid for pid, _ in done["clients"]}, {victim.pid, done["me"]})
        self.assertEqual(len(done["clients"]), 2, "the victim under another's name")
        self.assertFalse(done["paused"]["ok"])
        self.assertFalse(self.clients()[victim.pid]["paused"])
        threads = len(os.listdir(f"/proc/{daemon.pid}/task"))

        def bring_many():
            answers = []
            for _ in range(40):
                with Wire(self.socket) as wire:
                    answers.append(wire.join(board=forge_board([os.getpid()]), slot=0))
            return answers
        refused = [reason for status, reason in as_nobody(bring_many) if status != 0]
        self.assertIn("boards", refused[-1] if refused else "")
        self.assertLess(len(os.listdir(f"/proc/{daemon.pid}/task")), threads + 10)
        self.assertEqual(Member(self).joined, "joined")
        # A board that was brought stays of use: that of an earlier daemon with two processes of one user.
        both = [Member(self, prefix=NOBODY_PREFIX) for _ in range(2)]
        self.assertEqual({member.joined for member in both}, {"joined"})

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_a_forged_board_has_each_process_once(self):
        daemon = self.admit_nobody()

        def attack():
            with Wire(self.socket) as wire:
                brought = [wire.join(board=forge_board([os.getpid()] * BOARD_SLOTS), slot=5),
                           wire.join(board=forge_board([os.getpid()] * 2), slot=1)]
                shown = wire.control(command="show")
            return {"brought": brought, "me": os.getpid(),
                    "clients": [[c["pid"], c["slot"]] for c in shown["gpus"][0]["clients"]]}
        files = f"/proc/{daemon.pid}/fd"
        before = len(os.listdir(files))
        done = as_nobody(attack)
        self.assertEqual(done["brought"], [[0, ""]] * 2, "a slot of its own, if it is one")
        self.assertEqual(done["clients"], [[done["me"], 1]])
        self.assertLess(len(os.listdir(files)), before + 10)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_a_user_has_so_many_gpus(self):
        self.admit_nobody()

        def name_many():
            answers = []
            for i in range(40):
                with Wire(self.socket) as wire:
                    answers.append(wire.join(uuid=f"GPU-{i}".encode()))
            return answers
        answers = as_nobody(name_many)
        self.assertEqual([status for status, _ in answers], [0] * 16 + [6] * 24)
        self.assertRegex(answers[-1][1], "^user .* has 16 GPUs, which is the most that one may have")
        self.assertEqual(Member(self, uuid="GPU-own").joined, "joined")

        def come_again():
            with Wire(self.socket) as wire:
                return wire.join(uuid=b"GPU-again")[0]
        self.assertEqual(as_nobody(come_again), 0, "those of processes that have ended are gone")

    def test_who_cannot_be_looked_at_lives(self):
        self.write_config('[[rule]]\nlabel = "high"\npriority = 5\n')
        daemon = self.serve("--config", self.config)
        low, high = Member(self), Member(self, env={**self.env, "CUPOLA_LABEL": "high"})
        until(lambda: high.show()["may_take"] != 0, "the standing decision")
        low.say("begin 10000 60000")
        high.say("begin 10000 60000")
        most = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, most[1]))  # it can open nothing
        high.close()
        until(lambda: low.show()["requests"] == 0, "the daemon knows of the end of one")
        self.assertEqual(low.say(f"owner {low.slot}"), f"{low.pid} 1")
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, most)
        self.assertEqual(set(self.clients()), {low.pid})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
