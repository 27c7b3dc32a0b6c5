"""`cupola serve` with real processes: joining, leaving, dying, stopping, its socket. Run by
ctest, a class at a time; arbiter_bed.py says what the tests need.
"""
import json
import os
import random
import signal
import socket
import struct
import sys
import unittest

from arbiter_bed import BOARD_SLOTS, DAEMON_BIT, MORE_REQUESTS, TIMEOUT, Member, ServeTest, Wire, state_of, until


class Boards(ServeTest):
    def test_priority_asks_without_the_daemon_and_the_end_takes_it_back(self):
        self.write_config('[[rule]]\nexecutable = "*"\nlabel = "high"\npriority = 5\n')
        self.serve("--config", self.config)
        low = Member(self)
        high = Member(self, env={**self.env, "CUPOLA_LABEL": "high"})
        until(lambda: high.show()["may_take"] == 1 << low.slot, "the standing decision")
        self.assertEqual(high.show()["priority"], 5)
        low.say("begin 10000")
        self.assertEqual(low.show()["gate"], 1)
        high.say("begin 500")
        seen = low.show()
        self.assertTrue(seen["requests"] & (1 << high.slot), "at once, by the client itself")
        self.assertEqual((seen["gate"], seen["bound"]), (0, 0xFFFF))
        high.say("end")
        until(lambda: low.show()["requests"] == 0, "the low one goes on")
        self.assertEqual(low.show()["gate"], 1)

    def test_only_the_sms_that_are_needed_where_contexts_are_shared(self):
        rule = '[[rule]]\nexecutable = "*"\nlabel = "high"\npriority = 5\n'
        high_env = {**self.env, "CUPOLA_LABEL": "high"}
        on = "spatial = true\n"
        for settings, capabilities, bound in ((on, 5, 8), (on + "spatial_extra_sms = 4\n", 5, 12),
                                              (on + "spatial_extra_sms = 124\n", 5, 0xFFFF),
                                              ("", 5, 0xFFFF), (on, 1, 0xFFFF)):
            with self.subTest(settings=settings, capabilities=capabilities):
                self.write_config('[policy]\nname = "hpf"\n' + settings + rule)
                daemon = self.serve("--config", self.config)
                low = Member(self, capabilities=capabilities)
                high = Member(self, env=high_env, capabilities=capabilities)
                until(lambda: high.show()["may_take"] == 1 << low.slot, "the standing decision")
                low.say("begin 10000")
                high.say("begin 500 10000 8")
                self.assertEqual(low.show()["bound"], bound)  # at once, by the client itself
                # The daemon's review leaves it at that.
                self.assertTrue(self.clients()[high.pid]["granted"])
                self.assertEqual(low.show()["bound"], bound)
                high.say("end")
                until(lambda: low.show()["requests"] == 0, "the low one goes on")
                for process in (low, high):
                    process.close()
                daemon.kill()
                daemon.wait()

    def test_same_priority_the_daemon_lets_the_shortest_run(self):
        self.serve()
        long, short = Member(self), Member(self)
        # Seconds apart: a kernel that outlives its prediction is expected to need as long again.
        long.say("begin 500000000")
        until(lambda: self.clients()[long.pid]["granted"], "the long one runs")
        short.say("begin 300")
        until(lambda: long.show()["requests"] != 0, "the long one is asked to yield")
        self.assertTrue(self.clients()[short.pid]["granted"])
        short.say("end")
        until(lambda: long.show()["requests"] == 0, "the long one goes on")

    def test_a_least_share_beside_a_higher_priority(self):
        self.write_config('[[rule]]\nlabel = "high"\npriority = 5\n')
        self.serve("--config", self.config)
        low, high = Member(self), Member(self, env={**self.env, "CUPOLA_LABEL": "high"})
        for member in (high, low):
            member.say("begin 100000000 600000")
        until(lambda: self.clients()[high.pid]["granted"], "the high one runs")
        for _ in range(20):
            row = self.clients()[low.pid]
            self.assertEqual((row["granted"], row["wait_bound_us"]), (False, None), "nothing ends its wait")
        self.ctl("set", str(low.pid), "least_share_percent=50")
        for member in (low, high, low):
            until(lambda m=member: self.clients()[m.pid]["granted"], "turns")
        row = self.clients()[low.pid]
        self.assertEqual(row["least_share_percent"], 50)
        self.assertLess(row["wait_bound_us"], 10000)

    def test_ffs_gives_turns(self):
        self.write_config('[policy]\nname = "ffs"\nquantum_us = 2000\n')
        self.serve("--config", self.config)
        members = [Member(self), Member(self)]
        for member in members:
            member.say("begin 1000000 60000")
        for _ in range(3):
            for member in members:
                until(lambda m=member: m.show()["requests"] == 0, "its turn")
                until(lambda m=member: m.show()["requests"] == DAEMON_BIT, "the end of its turn")

    def test_two_gpus_have_two_boards(self):
        self.serve()
        one, other = Member(self, uuid="GPU-1"), Member(self, uuid="GPU-2")
        self.assertEqual((one.slot, other.slot), (0, 0))
        self.assertEqual(len(json.loads(self.ctl("--json", "show"))["gpus"]), 2)

    def test_what_happens_on_one_gpu_is_nothing_to_the_other(self):
        self.write_config('[[rule]]\nlabel = "high"\npriority = 5\n')
        self.serve("--config", self.config)
        low, peer = Member(self, uuid="GPU-1"), Member(self, uuid="GPU-1")
        high = Member(self, uuid="GPU-2", env={**self.env, "CUPOLA_LABEL": "high"})
        low.say("begin 1000000 60000")
        high.say("begin 1000000 60000")
        both = until(lambda: (c := self.clients())[low.pid]["granted"] and
                     c[high.pid]["granted"] and c, "each runs on its GPU")
        self.assertEqual(both[high.pid]["priority"], 5)
        self.assertEqual((low.show()["requests"], high.show()["may_take"]), (0, 0))
        with Wire(self.socket) as wire:  # a process with both GPUs: what is set holds for both
            for uuid in (b"GPU-1", b"GPU-2"):
                self.assertEqual(wire.join(uuid), (0, ""))
        self.ctl("set", str(os.getpid()), "priority=9")
        self.ctl("policy", "fifo")
        gpus = {gpu["uuid"]: gpu for gpu in json.loads(self.ctl("--json", "show"))["gpus"]}
        self.assertEqual(set(gpus), {"GPU-1", "GPU-2"})
        for gpu in gpus.values():
            self.assertEqual(gpu["policy"], "fifo")
            (row,) = [c for c in gpu["clients"] if c["pid"] == os.getpid()]
            self.assertEqual(row["priority"], 9)
        self.ctl("pause", str(low.pid))
        until(lambda: low.show()["requests"] == DAEMON_BIT, "held")
        self.assertEqual(high.show()["requests"], 0)
        low.close()
        until(lambda: low.pid not in self.clients(), "the dead one's slot is free")
        self.assertTrue({peer.pid, high.pid} <= set(self.clients()))

    def test_full_board(self):
        self.serve()
        label = {**self.env, "CUPOLA_LABEL": "l" * 1000}  # the answer about all of them is more than a socket holds
        members = [Member(self, env=label) for _ in range(BOARD_SLOTS)]
        self.assertEqual({m.joined for m in members}, {"joined"})
        self.assertEqual({row["label"] for row in self.clients().values()}, {"l" * 1000})
        refused = Member(self)
        self.assertEqual(refused.joined, "refused all 256 places on the board are taken")
        members[5].close()
        until(lambda: len(self.clients()) == BOARD_SLOTS - 1, "the dead one's slot is free")
        self.assertEqual(Member(self).joined, "joined")

    def test_the_last_of_many_asks_and_is_asked(self):
        """Slots behind those that have a bit of their own in the word that the GPU reads."""
        self.write_config('[[rule]]\nexecutable = "*"\nlabel = "high"\npriority = 5\n')
        self.serve("--config", self.config)
        idle = [Member(self) for _ in range(70)]
        low, high = Member(self), Member(self, env={**self.env, "CUPOLA_LABEL": "high"})
        self.assertEqual((low.joined, high.joined, high.slot), ("joined", "joined", 71))
        low.say("begin 1000000")
        until(lambda: self.clients()[low.pid]["granted"], "the low one runs")
        high.say("begin 1000000")
        until(lambda: low.show()["requests"] == MORE_REQUESTS, "the high one asks by itself")
        high.say("end")
        until(lambda: low.show()["requests"] == 0, "it takes that back")
        self.ctl("pause", str(high.pid))
        until(lambda: high.show()["requests"] == DAEMON_BIT, "held by the daemon")
        self.ctl("resume", str(high.pid))
        high.say("begin 1000000")
        until(lambda: low.show()["requests"] & MORE_REQUESTS, "it asks again")
        high.close()  # after it was killed nobody asks in its name
        until(lambda: low.show()["requests"] == 0, "the dead one asks nobody")
        self.assertEqual({member.show()["requests"] for member in idle}, {0})

    def test_variants_by_kernel(self):
        self.write_config('[[rule]]\nvariant = "sliced"\n[[rule]]\nkernel = "*gemm*"\n'
                          'variant = "original"\npriority = 7\n')
        self.serve("--config", self.config)
        member = Member(self)
        self.assertEqual(member.say("variant my_gemm_f32"), "original")
        self.assertEqual(member.say("variant other"), "sliced")
        self.assertEqual(member.show()["priority"], 0)
        member.say("kernel sgemm")
        until(lambda: member.show()["priority"] == 7, "the kernel's priority")

    def test_who_is_told_that_rules_name_kernels(self):
        rule = '[[rule]]\nlabel = "high"\nkernel = "*gemm*"\n'
        self.write_config(rule + "weight = 3\n")
        self.serve("--config", self.config)
        other, high = Member(self), Member(self, env={**self.env, "CUPOLA_LABEL": "high"})
        self.assertEqual((other.show()["by_kernel"], high.show()["by_kernel"]), (0, 1))
        for setting, told in (('variant = "sliced"', 0), ("latency_bound_us = 5", 1)):
            self.write_config(rule + setting + "\n")
            self.ctl("reload")
            self.assertEqual((other.show()["by_kernel"], high.show()["by_kernel"]), (0, told))


class Faults(ServeTest):
    def prepare(self, *options):
        self.write_config('[[rule]]\nlabel = "high"\npriority = 5\n')
        daemon = self.serve("--config", self.config, *options)
        low = Member(self)
        high = Member(self, env={**self.env, "CUPOLA_LABEL": "high"})
        until(lambda: high.show()["may_take"] != 0, "the standing decision")
        return daemon, low, high

    def test_a_killed_client_frees_its_slot_and_those_it_asked(self):
        _, low, high = self.prepare()
        low.say("begin 10000")
        high.say("begin 10000")
        self.assertNotEqual(low.show()["requests"], 0)
        high.process.send_signal(signal.SIGKILL)
        high.process.wait()
        until(lambda: low.show()["requests"] == 0, "nobody asks any more")
        self.assertEqual(set(self.clients()), {low.pid})

    def test_a_client_whose_main_thread_has_ended_keeps_its_slot(self):
        _, low, high = self.prepare()
        low.say("begin 10000 60000")
        slot = high.slot
        high.say("end-main")
        until(lambda: state_of(high.pid) == "Z", "its main thread has ended")
        late = Member(self)  # whoever comes: the daemon looks who has ended
        self.assertEqual(set(self.clients()), {low.pid, high.pid, late.pid})
        self.assertEqual((high.slot, high.say("poll")), (slot, "present"))
        high.say("begin 10000 60000")
        self.assertNotEqual(low.show()["requests"], 0)
        high.close()
        until(lambda: low.show()["requests"] == 0, "nobody asks any more")

    def test_who_has_lost_its_slot_leaves_it_alone(self):
        _, low, high = self.prepare()
        low.say(f"lose {high.pid}")  # as if it had been given to that one
        self.assertEqual(low.say("poll"), "none")
        slot = low.slot
        low.say("leave")
        self.assertEqual(high.say(f"owner {slot}"), f"{high.pid} 1")

    def test_a_client_that_leaves(self):
        _, low, high = self.prepare()
        low.say("begin 10000")
        high.say("begin 10000")
        high.say("leave")
        until(lambda: low.show()["requests"] == 0, "nobody asks any more")
        until(lambda: set(self.clients()) == {low.pid}, "its slot is free")

    def test_the_lease_of_a_stopped_client_ends_its_demand(self):
        _, low, high = self.prepare()
        low.say("begin 10000")
        high.say("begin 10000 3000")
        self.assertNotEqual(low.show()["requests"], 0)
        high.process.send_signal(signal.SIGSTOP)
        until(lambda: low.show()["requests"] == 0, "the lease has ended")
        high.process.send_signal(signal.SIGCONT)
        high.say("begin 10000 5000")
        until(lambda: low.show()["requests"] != 0, "it asks again")

    def test_without_the_daemon_clients_go_on_and_rejoin_the_next(self):
        daemon, low, high = self.prepare()
        low.say("begin 10000 60000")
        self.ctl("pause", str(low.pid))
        until(lambda: low.show()["requests"] & DAEMON_BIT, "paused by the daemon")
        slots = (low.slot, high.slot)
        daemon.kill()
        daemon.wait()
        until(lambda: low.say("poll") == "absent", "the daemon is missed")
        self.assertEqual(low.show()["requests"], 0, "its holds are void")
        high.say("begin 500 3000")
        self.assertEqual(low.show()["requests"], 1 << high.slot, "clients still ask one another")
        high.process.send_signal(signal.SIGSTOP)  # and with nobody to look after it
        until(lambda: low.say("drop") == "0", "the lease has ended")
        high.process.send_signal(signal.SIGCONT)
        high.say("end")
        self.serve("--config", self.config)
        for member in (low, high):
            until(lambda m=member: m.say("poll") == "present", "the new daemon is found")
        self.assertEqual((low.slot, high.slot), slots)
        self.assertEqual(set(self.clients()), {low.pid, high.pid})
        until(lambda: high.say("poll") and self.clients()[high.pid]["priority"] == 5,
              "the new daemon knows its label")
        high.say("begin 500")
        self.assertTrue(low.show()["requests"] & (1 << high.slot))

    def test_a_stuck_daemon_counts_as_absent(self):
        daemon, low, _ = self.prepare()
        low.say("begin 10000 60000")
        self.ctl("pause", str(low.pid))
        until(lambda: low.show()["requests"] & DAEMON_BIT, "paused by the daemon")
        daemon.send_signal(signal.SIGSTOP)
        until(lambda: low.say("poll") == "absent", "silence")
        self.assertEqual(low.show()["requests"], 0)
        daemon.send_signal(signal.SIGCONT)
        until(lambda: low.say("poll") == "present", "it is back")
        until(lambda: low.show()["requests"] & DAEMON_BIT, "and so is its hold")

    def test_an_orderly_end_frees_everybody(self):
        daemon, low, _ = self.prepare()
        low.say("begin 10000 60000")
        self.ctl("pause", str(low.pid))
        until(lambda: low.show()["requests"] & DAEMON_BIT, "paused by the daemon")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(TIMEOUT), 0)
        self.assertEqual(low.show()["requests"], 0)
        self.assertFalse(os.path.exists(self.socket))
        self.assertEqual(low.say("poll"), "absent")

    def test_without_a_daemon_joining_fails_at_once(self):
        self.assertEqual(Member(self).joined, "no-daemon")


class Places(ServeTest):
    def test_a_second_daemon_is_refused(self):
        daemon = self.serve()
        second = self.cupola("serve")
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"another cupola serve (process {daemon.pid}) is in charge here",
                      second.stderr)

    def test_a_stale_socket_is_removed(self):
        daemon = self.serve()
        daemon.kill()
        daemon.wait()
        self.assertTrue(os.path.exists(self.socket), "it was left")
        self.serve()
        self.assertEqual(Member(self).joined, "joined")

    def test_what_is_no_socket_is_left_alone(self):
        with open(self.socket, "w", encoding="utf-8"):
            pass
        refused = self.cupola("serve")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("something that is no socket is in its place", refused.stderr)

    def test_rights_of_the_socket(self):
        self.serve()
        self.assertEqual(os.stat(self.socket).st_mode & 0o777, 0o600)

    def test_a_folder_that_others_may_write_to(self):
        os.chmod(os.path.dirname(self.socket), 0o777)
        refused = self.cupola("serve")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("other users may write", refused.stderr)

    def test_damaged_messages(self):
        self.serve()
        seed = 20261121
        rng = random.Random(seed)
        good = struct.pack("<IHHIIIIII", 0x4D504F43, 1, 1, 416, 0, 1, 132, 0xFFFFFFFF, 0)
        good += b"SIM-0".ljust(64, b"\0") + bytes(256 + 64)
        self.assertEqual(len(good), 416)
        for round_ in range(300):
            message = bytearray(good if rng.random() < 0.7 else rng.randbytes(rng.randrange(1, 70000)))
            for _ in range(rng.randrange(1, 8)):
                message[rng.randrange(min(len(message), 100))] = rng.randrange(256)
            if rng.random() < 0.3:
                message = message[:rng.randrange(1, len(message) + 1)]
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.settimeout(TIMEOUT)
                client.connect(self.socket)
                files = []
                if rng.random() < 0.3:
                    files = [os.memfd_create("x")] * rng.randrange(1, 4)
                socket.send_fds(client, [bytes(message)], files)
                if files:
                    os.close(files[0])
                answer, fds, _, _ = socket.recv_fds(client, 65536, 4)
                for fd in fds:
                    os.close(fd)
                self.assertTrue(len(answer) in (0, 2320), f"seed {seed} round {round_}")
        self.assertEqual(Member(self).joined, "joined", f"seed {seed}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
