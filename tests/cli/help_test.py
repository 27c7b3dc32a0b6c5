#!/usr/bin/env python3
"""Tests the help of every command: it fits into 80 columns, says the exit codes, and makes man pages."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CUPOLA = os.environ["CUPOLA"]
sys.path.insert(0, os.path.join(ROOT, "packaging"))
import man_pages  # noqa: E402


def commands(words=()):
    """Each command with its help."""
    text = man_pages.help_of(CUPOLA, words)
    found = [(" ".join(["cupola", *words]), text)]
    for name in man_pages.subcommands_of(text):
        found += commands((*words, name))
    return found


class Help(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.all = commands()

    def test_all_commands_are_seen(self):
        names = [name for name, _ in self.all]
        for name in ("cupola run", "cupola doctor", "cupola store evict", "cupola ctl set", "cupola ptx run"):
            self.assertIn(name, names)

    def test_lines_fit_into_80_columns(self):
        long = [f"{name}: {line}" for name, text in self.all for line in text.splitlines() if len(line) > 80]
        self.assertEqual(long, [])

    def test_exit_codes_are_stated(self):
        silent = [name for name, text in self.all if not re.search(r"[Ee]xit code", text)]
        self.assertEqual(silent, [])

    def test_man_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, os.path.join(ROOT, "packaging", "man_pages.py"), CUPOLA, folder], check=True)
            pages = os.listdir(folder)
            self.assertEqual(sorted(pages), sorted(
                "-".join(name.split()) + ".1" for name, _ in self.all if len(name.split()) <= 2))
            with open(os.path.join(folder, "cupola-store.1"), encoding="utf-8") as file:
                text = file.read()
            self.assertTrue(text.startswith(".TH CUPOLA-STORE 1"))
            self.assertIn("CUPOLA STORE EVICT", text)
            self.assertNotRegex(text, r"(?m)^\.(?!TH|SH|nf|fi|BR)")


if __name__ == "__main__":
    unittest.main()
