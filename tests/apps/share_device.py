#!/usr/bin/env python3
"""Runs several programs of tests/apps at once on one simulated device and checks results, turns and deaths.

Usage: share_device.py --build BUILD. Exit code 77 = the programs are not built.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import runner

LIMIT = 120  # seconds of every wait: generous, a stall is for ever
SEED = int(os.environ.get("CUPOLA_TEST_SEED", "11"))
BUILD = None


class ShareDevice(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cupola-share-")
        self.addCleanup(folder.cleanup)
        self.token = os.path.join(folder.name, "token")
        self.environ = runner.environment(BUILD, "sim")
        self.environ.update(CUPOLA_SIM_TOKEN=self.token, CUPOLA_SIM_SLICE_US="1000")
        self.alone = {}

    def start(self, app, *arguments, **more):
        process = subprocess.Popen([f"{BUILD}/apps/shared/{app}", *arguments],
                                   env={**self.environ, **more}, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, preexec_fn=runner.prepare_child)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)  # does nothing where it was waited for
        return process

    def expected(self, app, *arguments):
        """What the program prints when it does not share the device."""
        if (app, *arguments) not in self.alone:
            process = self.start(app, *arguments, CUPOLA_SIM_TOKEN="off")
            out, _ = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 0)
            self.alone[(app, *arguments)] = out
        return self.alone[(app, *arguments)]

    def check(self, process, *command):
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, err), (0, b""))
        self.assertEqual(out, self.expected(*command))

    def totals(self):
        return json.loads(subprocess.run([BUILD + "/bin/sim_token_totals", self.token], check=True,
                                         capture_output=True, timeout=LIMIT).stdout)

    def await_totals(self, is_enough):
        deadline = time.monotonic() + LIMIT
        while not is_enough(self.totals()):
            self.assertLess(time.monotonic(), deadline)

    def test_programs_take_turns_and_print_the_same(self):
        commands = [("matmul_tiled", "240"), ("matmul_tiled", "240"), ("histogram",),
                    ("mapped_ping_pong",), ("cooperative_grid",)]
        running = [(self.start(*command), command) for command in commands]
        for process, command in running:
            self.check(process, *command)
        self.assertGreater(self.totals()["handovers"], 10)

    def test_a_killed_program_frees_the_device_at_once(self):
        # One slice of this program lasts a minute and its kernel at least as long as the limit of
        # the others: only its death lets them run.
        holder = self.start("matmul_tiled", "4000", CUPOLA_SIM_SLICE_US="60000000")
        self.await_totals(lambda totals: totals["slices"] == 1)
        waiting = [self.start("vector_add"), self.start("matmul_tiled", "120")]
        killed = time.monotonic()
        holder.send_signal(signal.SIGKILL)
        self.check(waiting[0], "vector_add")
        self.check(waiting[1], "matmul_tiled", "120")
        self.assertLess(time.monotonic() - killed, 30)
        self.assertEqual(holder.wait(LIMIT), -signal.SIGKILL)

    def test_kills_at_random(self):
        chance = random.Random(SEED)
        commands = [("matmul_tiled", "200"), ("histogram",), ("streams_events",)]
        for command in commands:
            self.expected(*command)
        running = [(self.start(*command), command) for command in commands * 2]
        for _ in range(12):
            slices = self.totals()["slices"] + chance.randrange(1, 12)
            self.await_totals(lambda totals: totals["slices"] >= slices or
                              all(process.poll() is not None for process, _ in running))
            which = chance.randrange(len(running))
            process, command = running[which]
            process.kill()
            process.wait(LIMIT)
            running[which] = (self.start(*command), command)
        for process, command in running:
            self.check(process, *command)

    def test_a_damaged_file_is_said_once(self):
        with open(self.token, "w") as file:
            file.write("no token" * 4000)
        process = self.start("streams_events")
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, out), (0, self.expected("streams_events")))
        self.assertEqual(err.decode().count("\n"), 1, err)
        self.assertIn("is not a token of the simulated device", err.decode())


def main():
    global BUILD
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=runner.default_build())
    options, rest = parser.parse_known_args()
    BUILD = os.path.abspath(options.build)
    if not os.path.isdir(BUILD + "/apps/shared"):
        print("the programs of tests/apps are not built")
        sys.exit(runner.NOT_POSSIBLE_HERE)
    print(f"seed {SEED}")
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
