"""`cupola top`, with processes on a board, and a terminal to show them on. Run by ctest."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import unittest

from arbiter_bed import CUPOLA, Member, ServeTest, until


class Terminal:
    """A program on a terminal of its own, with what it shows in columns."""
    COLUMNS = 120

    def __init__(self, test, *words):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, self.COLUMNS, 0, 0))
        self.settings = self.read_settings()
        self.text = ""
        self.process = subprocess.Popen(
            words, env=test.env, stdin=self.slave, stdout=self.slave, stderr=self.slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # ctrl-C is for it

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def read_settings(self):
        return termios.tcgetattr(self.slave)

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.text += os.read(self.master, 65536).decode()
        return self.text

    def screen(self):
        """The lines of the last table that is whole."""
        tables = self.read().split("\x1b[H\x1b[2J")
        return tables[-2].splitlines() if len(tables) > 2 else []

    def row(self, pid):
        """By column; {} where there is none of the process."""
        lines = self.screen()
        names = lines[1].split() if len(lines) > 1 else []
        for line in lines[2:]:
            if line.split()[0] == str(pid):
                return dict(zip(names, line.split()))
        return {}

    def end(self, keys):
        """All that was shown until the program ended, which these keys are to make it."""
        os.write(self.master, keys.encode())
        until(lambda: self.process.poll() is not None, "it ends")
        return self.read()


class Top(ServeTest):
    def test_top_once(self):
        self.serve()
        member = Member(self)
        shown = self.cupola("top", "--once")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertTrue(re.search(r"PID +PROGRAM +PRIORITY", shown.stdout))
        self.assertIn(str(member.pid), shown.stdout)
        self.assertNotIn("\x1b", self.cupola("top").stdout)

    def test_top_outlives_the_daemon(self):
        daemon = self.serve()
        with Terminal(self, CUPOLA, "top", "--interval", "4") as top:
            until(lambda: "no process has joined yet" in top.read(), "the first table")
            daemon.kill()
            daemon.wait()
            self.serve()
            member = Member(self)
            until(lambda: str(member.pid) in top.read(), "the next daemon's")
            top.end("q\n")
            self.assertEqual(top.process.returncode, 0)

    def test_top_on_a_terminal(self):
        self.write_config('[[rule]]\nlabel = "high"\npriority = 5\n')
        self.serve("--config", self.config)
        low = Member(self)
        high = Member(self, env={**self.env, "CUPOLA_LABEL": "high"})
        until(lambda: high.show()["may_take"] != 0, "the standing decision")
        for member, kernel in ((low, "slow_sum"), (high, "gemm")):
            member.say("kernel " + kernel)
            member.say("begin 1000000 600000")
        for end, signal_text in (("\x03", "^C"), ("q\n", "q")):
            with self.subTest(end=end), Terminal(self, CUPOLA, "top", "--interval", "0.1") as top:
                until(lambda t=top: "100.0" in t.row(high.pid).get("SHARE%", ""), "a share")
                row = top.row(high.pid)
                self.assertEqual((row["PROGRAM"], row["PRIORITY"], row["WAITING"], row["STATE"],
                                  row["KERNEL"]), ("board_member", "5", "-", "runs", "gemm"))
                row = top.row(low.pid)
                self.assertEqual((row["PRIORITY"], row["SHARE%"], row["PREEMPTD"], row["STATE"],
                                  row["KERNEL"]), ("0", "0.0", "0", "waits", "slow_sum"))
                self.assertRegex(row["WAITING"], r"^[0-9.]+(us|ms|s)$")
                low.say("preempted 3")
                until(lambda t=top: t.row(low.pid)["PREEMPTD"] == "3", "those of the interval")
                until(lambda t=top: t.row(low.pid)["PREEMPTD"] == "0", "and of it alone")
                self.assertLessEqual(max(map(len, top.screen())), top.COLUMNS)
                before, text = top.settings, top.end(end)
                self.assertEqual(top.process.returncode, 0, text)
                self.assertEqual(top.read_settings(), before)
                # A screen of its own, without a cursor; in the end the old one, with it.
                self.assertTrue(text.startswith("\x1b[?1049h\x1b[?25l"), text[:40])
                self.assertTrue(text.endswith("\x1b[?25h\x1b[?1049l"), text[-40:])
                self.assertIn(signal_text, text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
