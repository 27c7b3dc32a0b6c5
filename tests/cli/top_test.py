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
import time
import unittest

from arbiter_bed import CUPOLA, TIMEOUT, Member, ServeTest, until
from vt_screen import Screen


class Terminal:
    """A program on a terminal of its own, with what it shows in columns."""

    def __init__(self, test, *words, rows=40, columns=120, term="xterm"):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.settings = self.read_settings()
        self.text = ""
        self.process = subprocess.Popen(
            words, env={**test.env, "TERM": term, "LC_ALL": "C.UTF-8"}, stdin=self.slave, stdout=self.slave,
            stderr=self.slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # ctrl-C is for it

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.vt = Screen(rows, columns)

    def read_settings(self):
        return termios.tcgetattr(self.slave)

    def read(self):
        """Reads all that was written, up to the end of a table, after which nothing comes for a while."""
        while select.select([self.master], [], [], 0.02)[0]:
            text = os.read(self.master, 65536).decode()
            self.text += text
            self.vt.feed(text)
        return self.text

    def screen(self):
        self.read()
        return self.vt.lines()

    def press(self, keys):
        os.write(self.master, keys.encode())

    def row(self, pid):
        """The row of a process as {column: text}; {} if there is none."""
        lines = self.screen()
        names = lines[1].split() if len(lines) > 1 else []
        for line in lines[2:]:
            if line.split()[:1] == [str(pid)]:
                return dict(zip(names, line.split()))
        return {}

    def end(self, keys):
        """Presses keys that must make the program end. Returns all that was shown until it ended."""
        self.press(keys)
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
            top.end("q")
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
        for end, name in (("\x03", "SIGINT"), ("q", "q")):
            with self.subTest(end=name), Terminal(self, CUPOLA, "top", "--interval", "0.1") as top:
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
                before, text = top.settings, top.end(end)
                self.assertEqual(top.process.returncode, 0, text)
                self.assertEqual(top.read_settings(), before)
                # A screen of its own, without a cursor; in the end the old one, with it.
                self.assertTrue(text.startswith("\x1b[?1049h"), text[:40])
                self.assertIn("\x1b[?25l", text)
                self.assertIn("\x1b[?1049l", text[-60:])
                self.assertRegex(text[-60:], "\x1b\\[\\?(12;)?25h|\x1b\\[34h")

    def test_a_small_terminal_and_keys(self):
        self.serve()
        members = [Member(self) for _ in range(30)]
        busy = members[17]
        busy.say("begin 1000000 600000")
        with Terminal(self, CUPOLA, "top", "--interval", "0.1", rows=24, columns=80) as top:
            until(lambda: top.row(busy.pid).get("SHARE%") == "100.0", "the busy one's share")
            lines = top.screen()
            self.assertEqual(lines[2].split()[:1], [str(busy.pid)], "the busiest first")
            self.assertEqual(lines[1].split(), ["PID", "PROGRAM", "PRIORITY", "WEIGHT", "SHARE%", "WAITING", "STATE",
                                                "KERNEL"])
            self.assertEqual(top.row(busy.pid)["STATE"], "runs")
            self.assertEqual(lines[23], "1-21 of 30 lines; arrow keys for the others, q ends")
            for keys, last in (("\x1bOB", "2-22"), ("\x1b[6~", "10-30"), ("k", "9-29"), ("\x1bOH", "1-21")):
                top.press(keys)
                until(lambda l=last: top.screen()[23].startswith(l + " of 30"), f"{keys!r} shows {last}")
                self.assertIn("PID", top.screen()[1], "the head stays")
            top.resize(40, 120)
            until(lambda: "LAUNCHES" in top.screen()[1] and sum("board_member" in x for x in top.screen()) == 30,
                  "all of them, on a larger terminal")
            top.resize(3, 20)
            until(lambda: "PID" in top.screen()[1], "a very small one")
            top.end("q")

    def test_a_size_that_changes_all_the_time(self):
        """Each change is a signal, which may come while the daemon is asked."""
        self.serve()
        members = [Member(self) for _ in range(30)]
        with Terminal(self, CUPOLA, "top", "--interval", "0.1", rows=24, columns=80) as top:
            until(lambda: str(members[0].pid) in top.read(), "a table")
            for number in range(1000):
                top.resize(24 + number % 2, 80)
                time.sleep(0.002)
                if number % 20 == 0:
                    top.read()
                    self.assertIsNone(top.process.poll(), top.text[-200:])
            top.resize(40, 120)
            until(lambda: sum("board_member" in x for x in top.screen()) == 30, "all of them")
            top.end("q")

    def test_a_terminal_that_cannot_move_its_cursor(self):
        self.serve()
        members = [Member(self) for _ in range(30)]
        for term in ("dumb", "no-such-terminal"):
            with self.subTest(term=term), Terminal(self, CUPOLA, "top", "--interval", "0.1", rows=24, columns=80,
                                                   term=term) as top:
                until(lambda t=top: t.read().count("and 10 more lines") >= 3, "three tables")
                text = top.read()
                self.assertNotIn("\x1b", text)
                self.assertLess(max(map(len, text.split("\r\n"))), 80)
                before = top.settings
                top.end("q")
                self.assertEqual((top.process.returncode, top.read_settings()), (0, before))
        self.assertTrue(members)

    def test_a_terminal_that_nobody_reads(self):
        self.serve()
        members = [Member(self) for _ in range(60)]
        with Terminal(self, CUPOLA, "top", "--interval", "0.1", rows=100, columns=200) as top:
            until(lambda: members[-1].process.poll() is None and "PID" in top.read(), "a table")
            fcntl.ioctl(top.slave, termios.TCXONC, termios.TCOOFF)  # as ctrl-S
            top.process.terminate()
            self.assertEqual(top.process.wait(TIMEOUT), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=2)
