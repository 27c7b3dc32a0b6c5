#!/usr/bin/env python3
"""Programs under `cupola run` that have no place on a board, on the simulated device: refused when they
join, or without the slot that they had. They say so, and their output is that of a plain run.

  without_place.py --build DIR      77: something that it needs is not built
"""
import json
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("tests/bench", "tests/apps"):
    sys.path.insert(0, os.path.join(ROOT, folder))
import built_app  # noqa: E402
import corun  # noqa: E402

LIMIT = 60  # seconds of every wait
NOBODY = 65534
SLOTS, SLOT_BYTES, HEAD_BYTES, PID_AT = 256, 512, 4096, 4  # sched/board/board.h


class WithoutPlace(built_app.AppTest):
    def start(self, label):
        """sliced_app, which has launched a kernel and waits for commands."""
        job = self.bed.start("cupola", label, [self.folder + "sliced_app"])
        self.addCleanup(job.kill)
        self.assertEqual(job.await_line(LIMIT), "ready")
        return job

    def end(self, job):
        """Has the program launch another kernel and checks what it prints of that. Returns Cupola's log."""
        job.process.stdin.write(b"sum 0\nend 0\n")
        code, out = job.finish(LIMIT)
        self.assertEqual((code, out), (0, "2000 blocks ran once\n"), job.err)
        return job.err

    def clients(self):
        """(GPU, {label: its row})"""
        code, text = self.bed.run_tool(["ctl", "--json", "show"], LIMIT)
        self.assertEqual(code, 0, text)
        (gpu,) = json.loads(text)["gpus"]
        return gpu["uuid"], {client["label"]: client for client in gpu["clients"]}

    def fill(self, uuid, count):
        """Has `count` other processes join the board."""
        for _ in range(count):
            member = subprocess.Popen(
                [self.build + "/bin/board_member", uuid], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, env={**self.bed.environ, **self.bed.additions})
            self.addCleanup(member.communicate)
            self.assertEqual(member.stdout.readline(), b"joined \n")

    def test_one_process_too_many(self):
        with self.bed.arbiter(corun.config("hpf", {})):
            first = self.start("first")
            uuid, _ = self.clients()
            self.fill(uuid, SLOTS - 1)
            late = self.start("late")
            self.assertEqual(set(self.clients()[1]), {"first", ""})
            self.assertIn("not scheduled by an arbiter: all 256 places on the board are taken",
                          self.end(late))
            self.assertNotIn("not scheduled", self.end(first))

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become another user")
    def test_a_user_who_is_not_admitted(self):
        with tempfile.TemporaryDirectory(prefix="cupola-nobody-") as place:
            os.chown(place, NOBODY, -1)
            path = place + "/arbiter.sock"
            daemon = subprocess.Popen(
                ["setpriv", f"--reuid={NOBODY}", "--clear-groups", self.build + "/bin/cupola",
                 "serve", "--socket", path], stdout=subprocess.PIPE)
            self.addCleanup(daemon.communicate)
            self.addCleanup(daemon.kill)
            self.assertEqual(daemon.stdout.readline(), f"listening on {path}\n".encode())
            self.bed.additions["CUPOLA_SOCKET"] = path
            self.assertRegex(self.end(self.start("it")),
                             "not scheduled by an arbiter: user .* is not admitted")

    def test_who_loses_its_slot(self):
        """As if the daemon had given it to another: the program lets go of it."""
        with self.bed.arbiter(corun.config("hpf", {})) as daemon:
            it = self.start("it")
            row = self.clients()[1]["it"]
            files = f"/proc/{row['pid']}/fd"
            (board,) = [f"{files}/{file}" for file in os.listdir(files)
                        if "cupola-board" in os.readlink(f"{files}/{file}")]
            with open(board, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
                at = HEAD_BYTES + SLOT_BYTES * row["slot"]
                struct.pack_into("<I", memory, at + PID_AT, os.getpid())
                said = []
                while not said or "no longer scheduled" not in said[-1]:
                    self.assertTrue(select.select([it.process.stderr], [], [], LIMIT)[0], said)
                    said.append(it.process.stderr.readline().decode())
                    self.assertTrue(said[-1], said)
                daemon.process.send_signal(signal.SIGSTOP)  # it would free the slot of the program
                try:
                    self.end(it)
                    self.assertEqual(struct.unpack_from("<II", memory, at), (1, os.getpid()),
                                     "it gave back what is another's")
                finally:
                    daemon.process.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(built_app.main(WithoutPlace, __doc__, "sliced_app"))
