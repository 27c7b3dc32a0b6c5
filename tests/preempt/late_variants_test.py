#!/usr/bin/env python3
"""Variants of what is compiled while programs run (docs/variants.md): `cupola build --watch` builds them, and a program
that runs uses them from its next launch on. On the simulated device.

  late_variants_test.py --build DIR --toolkit DIR      77: something that it needs is not built
"""
import argparse
import glob
import os
import queue
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/apps"))
import pestered_board  # noqa: E402
import runner  # noqa: E402

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--build", default=runner.default_build())
PARSER.add_argument("--toolkit", default="/usr/local/cuda")
OPTIONS, REST = PARSER.parse_known_args()
BUILD = os.path.abspath(OPTIONS.build)
PREEMPTIBLE = re.compile(r"(\d+) launches preemptible")
LIMIT = 100  # seconds after which a test that hangs ends


def library(name):
    found = sorted(glob.glob(f"{OPTIONS.toolkit}/lib64/{name}.so.*[0-9]"), key=len)
    return found[0] if found else None


class Watcher:
    """A `cupola build --watch`, and the lines that it prints."""

    def __init__(self, environ, *folders):
        self.process = subprocess.Popen([f"{BUILD}/bin/cupola", "build", "--watch", *folders], env=environ,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.seen = []

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)

    def await_line(self, pattern):
        while True:
            line = self.lines.get(timeout=LIMIT)
            self.seen.append(line)
            if re.search(pattern, line):
                return line

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT)


class LateVariants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.nvrtc = library("libnvrtc")
        self.program = f"{BUILD}/tests/preempt/compiling_app"
        for needed in (self.nvrtc, self.program):
            if needed is None or not os.path.exists(needed):
                self.skipTest(f"no {needed or 'libnvrtc'}")
        self.store = os.path.join(self.folder, "store")
        self.environ = {**runner.environment(BUILD, "sim"), "CUPOLA_STORE": self.store}
        board = pestered_board.Board(self.folder)
        self.addCleanup(board.close)
        self.under_cupola = {**self.environ, "CUPOLA_BOARD": board.path, "CUPOLA_BOARD_SLOT": "0", "CUPOLA_TASKS": "off",
                             "LD_PRELOAD": f"{BUILD}/lib/libcupola.so", "CUPOLA_LOG": "info",
                             "CUPOLA_DRIVER": f"{BUILD}/lib/sim/libcuda.so.1", "CUPOLA_PREEMPT": "always"}

    def watch(self, *folders):
        watcher = Watcher({key: value for key, value in self.environ.items() if not key.startswith("LD_")}, *folders)
        self.addCleanup(watcher.close)
        watcher.await_line("watching what programs compile")
        return watcher

    def compiled(self):
        folder = os.path.join(self.store, "compiled")
        return sorted(name for name in os.listdir(folder) if name != "watched") if os.path.isdir(folder) else []

    def run_app(self, *words):
        return subprocess.run([self.program, *words], env=self.under_cupola, capture_output=True, text=True, timeout=LIMIT)

    def launch_until_built(self, watcher, pattern):
        """The program's output, and how many of its launches were preemptible."""
        stop = os.path.join(self.folder, "stop")
        program = subprocess.Popen([self.program, "ptx", self.nvrtc, stop], env=self.under_cupola, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(program.kill)
        watcher.await_line(pattern)
        timer = threading.Timer(2.5, lambda: open(stop, "w").close())  # it looks twice a second
        timer.start()
        out, err = program.communicate(timeout=LIMIT)
        self.assertEqual((program.returncode, out), (0, "0 wrong\n"), err[-600:])
        return int(PREEMPTIBLE.search(err).group(1)), err

    def test_a_program_takes_up_what_was_built_while_it_runs(self):
        watcher = self.watch(os.path.join(self.folder, "no-cache"))
        preemptible, err = self.launch_until_built(watcher, r"built .*\.image\.ptx.*: 1 kernel")
        self.assertGreater(preemptible, 20, err[-600:])
        self.assertEqual(self.compiled(), [])
        self.assertEqual(watcher.end(), 0)

    def test_it_is_there_at_once_the_next_time(self):
        watcher = self.watch(os.path.join(self.folder, "no-cache"))
        self.launch_until_built(watcher, r"built ")
        self.assertEqual(watcher.end(), 0)
        stop = os.path.join(self.folder, "stop")
        done = self.run_app("ptx", self.nvrtc, stop)  # it exists: no launch
        self.assertEqual(done.returncode, 0)
        os.unlink(stop)
        threading.Timer(1, lambda: open(stop, "w").close()).start()
        done = self.run_app("ptx", self.nvrtc, stop)
        self.assertGreater(int(PREEMPTIBLE.search(done.stderr).group(1)), 20, done.stderr[-600:])
        self.assertNotIn("no variant", done.stderr)

    def check_kept(self, *words):
        watcher = self.watch(os.path.join(self.folder, "no-cache"))
        done = self.run_app(*words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        size = int(re.search(r"a cubin of (\d+) bytes", done.stdout).group(1))
        watcher.await_line(r"built [0-9-]+\.cubin.*: 1 kernel")
        self.assertEqual(watcher.end(), 0)
        self.assertEqual(self.compiled(), [])
        # It is found by the bytes that the program has.
        self.assertEqual(os.listdir(os.path.join(self.store, "contents")), [str(size)])

    def test_a_cubin_of_nvrtc(self):
        self.check_kept("cubin", self.nvrtc)

    def test_a_cubin_of_nvjitlink(self):
        linker = library("libnvJitLink")
        if linker is None:
            self.skipTest("no libnvJitLink")
        self.check_kept("jitlink", self.nvrtc, linker)

    def test_a_program_that_is_linked_with_nvrtc(self):
        linked = f"{BUILD}/tests/preempt/linked_compiling_app"
        if not os.path.exists(linked):
            self.skipTest(f"no {linked}: build it first")
        self.program = linked
        self.check_kept("cubin", self.nvrtc)

    def test_nothing_is_kept_where_nobody_watches(self):
        watcher = self.watch(os.path.join(self.folder, "no-cache"))
        self.assertEqual(watcher.end(), 0)
        done = self.run_app("cubin", self.nvrtc)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.compiled(), [])

    def test_a_cache_that_fills(self):
        """As Triton's: a folder of its own for each kernel, with cubin and PTX."""
        cache = os.path.join(self.folder, "cache")
        watcher = self.watch(cache)  # it need not exist yet
        for number, folder in enumerate(("one", "two")):
            os.makedirs(os.path.join(cache, folder))
            ptx = os.path.join(cache, folder, f"{folder}.ptx")
            with open(ptx, "w", encoding="ascii") as file:
                file.write(".version 8.0\n.target sm_90\n.address_size 64\n"
                           f".visible .entry k{number}(.param .u64 p)\n{{ ret; }}\n")
            cubin = ptx.replace(".ptx", ".cubin")
            subprocess.run([f"{OPTIONS.toolkit}/bin/ptxas", "-arch=sm_90", ptx, "-o", cubin], check=True)
            watcher.await_line(rf"built {folder}\.cubin.*: 1 kernel")
        self.assertEqual(watcher.end(), 0)
        self.assertEqual(len([line for line in watcher.seen if "built" in line]), 2, watcher.seen)

    def test_what_is_no_image(self):
        """Broken files are told once, and do not end the watch."""
        cache = os.path.join(self.folder, "cache")
        os.makedirs(cache)
        for name, text in (("bad.cubin", b"\x7fELF" + struct.pack("<60x")), ("bad.ptx", b"no PTX")):
            with open(os.path.join(cache, name), "wb") as file:
                file.write(text)
        watcher = self.watch(cache)
        done = self.run_app("cubin", self.nvrtc)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        watcher.await_line(r"built [0-9-]+\.cubin.*: 1 kernel")
        self.assertEqual(watcher.end(), 0)

    def test_a_second_watcher_and_what_is_no_folder(self):
        self.watch(os.path.join(self.folder, "no-cache"))
        environ = {key: value for key, value in self.environ.items() if not key.startswith("LD_")}
        command = [f"{BUILD}/bin/cupola", "build", "--watch"]
        second = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LIMIT)
        self.assertIn("another `cupola build --watch` watches for this store", second.stderr)
        self.assertNotEqual(second.returncode, 0)
        wrong = subprocess.run([*command, self.program], env=environ, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((wrong.returncode, "is no folder" in wrong.stderr), (2, True), wrong.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
