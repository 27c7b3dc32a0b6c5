#!/usr/bin/env python3
"""Graphs in pieces (docs/graphs.md) on the simulated device: programs of graphs print what they print without Cupola,
while they are held between the pieces again and again; and they are held there.

  graphs_test.py --build DIR      77: something that it needs is not built

Of a build tree it also runs the libraries with a planted bug (plant.py), each of which one of the checks must find.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/apps"))
import pestered_board  # noqa: E402
import runner  # noqa: E402

BUILD = runner.default_build()
IN_PIECES = re.compile(rb"(\d+) graphs launched in pieces")
DEFERRED = re.compile(rb"(\d+) launches of graphs deferred")
PREEMPTIBLE = re.compile(rb"(\d+) launches preemptible")
STOPPED = re.compile(rb"(\d+) preemptions")
LONGEST_CALL = re.compile(rb"longest launch call: (\d+) ms")
SEEDS = (0, 1)  # of the order in which nodes run that nothing orders
HOLD_SECONDS, FREE_SECONDS = 0.3, 0.15
HOLDS = 20  # that are looked at


def held(board, hold_seconds, free_seconds, answered_after=None):
    """Asks the process for the GPU, its gates closed, and lets it go, again and again. The list `answered_after` gets the
    seconds after which it said that it had stopped, infinity where it did not."""
    def gate(is_open):
        struct.pack_into("<I", board.memory, pestered_board.SLOT + pestered_board.GATE, is_open)

    def hold(over):
        while not over.wait(free_seconds):
            struct.pack_into("<I", board.memory, pestered_board.SLOT + pestered_board.STOPPED, 0)
            if not board.ask(pestered_board.DAEMON_BIT):
                continue
            gate(0)
            since = time.monotonic()
            if answered_after is not None:
                while not board.has_answered() and time.monotonic() < since + hold_seconds and not over.is_set():
                    time.sleep(0.0005)
                if not over.is_set():
                    answered_after.append(time.monotonic() - since if board.has_answered() else float("inf"))
            over.wait(max(0, since + hold_seconds - time.monotonic()))
            gate(1)
            board.ask(0)

    return pestered_board.beside(hold)


# Planted bugs, and the way of graph_app that finds each.
BUGS = {"change_unseen": "changed", "update_not_followed": "changed", "edge_lost": "ordered", "piece_early": "ordered", "overlaps_itself": "elsewhere",
        "pieces_not_awaited": "elsewhere", "fed_ahead": "ahead", "opened_early": "ahead", "node_arguments": "inside",
        "no_guard": "inside"}
ATTEMPTS = 6  # of a run that must have some luck: two streams that overlap, a machine that is not busy


class Graphs(unittest.TestCase):
    library = f"{BUILD}/lib/libcupola.so"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environ = runner.environment(BUILD, "sim")
        self.board = pestered_board.Board(folder.name)
        self.addCleanup(self.board.close)
        self.board.open_gate_for_anyone()
        self.program = f"{BUILD}/tests/preempt/graph_app"
        if not os.path.exists(self.program):
            self.skipTest(f"no {self.program}: build it first")

    def under_cupola(self, *words, seconds=100, **more):
        environ = {"LD_PRELOAD": self.library, "CUPOLA_DRIVER": f"{BUILD}/lib/sim/libcuda.so.1",
                   "CUPOLA_BOARD": self.board.path, "CUPOLA_BOARD_SLOT": "0", "CUPOLA_LOG": "info",
                   "CUPOLA_PIECE_US": "100", "CUPOLA_TASKS": "off", "CUPOLA_SIM_GRAPH_SEED": "1", **more}
        return runner.run([self.program, *words], {**self.environ, **environ}, seconds)

    def number(self, pattern, result):
        found = pattern.search(result["stderr"])
        return int(found.group(1)) if found else 0

    def launches_in_pieces(self, result):
        return self.number(IN_PIECES, result)

    def check(self, way, launches=40, least=10):
        plain = runner.run([self.program, way, str(launches)], self.environ, 60)
        self.assertEqual(plain["code"], 0, plain["stderr"][-300:])
        for seed in SEEDS:
            with held(self.board, 0.004, 0.004):
                stopped = self.under_cupola(way, str(launches), CUPOLA_SIM_GRAPH_SEED=str(seed))
            said = f"seed {seed}: {stopped['stderr'][-600:]}"
            self.assertEqual((stopped["code"], stopped["stdout"]), (0, plain["stdout"]), said)
            self.assertGreaterEqual(self.launches_in_pieces(stopped), least, said)

    def test_ordered(self):
        self.check("ordered")
        # It has told how long its pieces take to come to a gate.
        self.assertGreater(self.board.overhead_ns(), 0)
        self.assertLess(self.board.overhead_ns(), 1e9)

    def test_legacy_stream(self):
        self.check("legacy")

    def test_per_thread_stream(self):
        self.check("per-thread")

    def check_ahead(self, way, **more):
        """Launches for whose pieces the driver has no room are deferred, and what comes behind them waits for them."""
        plain = runner.run([self.program, way, "150"], self.environ, 60)
        with held(self.board, 0.01, 0.005):
            stopped = self.under_cupola(way, "150", **more)
        said = stopped["stderr"][-600:]
        self.assertEqual((stopped["code"], stopped["stdout"]), (0, plain["stdout"]), said)
        self.assertGreaterEqual(self.number(DEFERRED, stopped), 20, said)

    def test_ahead_of_the_device(self):
        for way in ("ahead", "ahead-legacy", "ahead-per-thread"):
            with self.subTest(way=way):
                self.check_ahead(way)
        with self.subTest("under MPS"):
            self.check_ahead("ahead", CUPOLA_SIM_MPS="1")

    def ahead_of_a_strict_driver(self, seconds):
        """Beside a driver in which calls that wait keep the feeder out (strict_driver.cpp), with no limit of our waits."""
        driver = f"{BUILD}/tests/preempt/strict/libcuda.so.1"
        if not os.path.exists(driver):
            self.skipTest(f"no {driver}: build it first")
        with held(self.board, 0.01, 0.005):
            return self.under_cupola("ahead", "150", seconds=seconds, CUPOLA_DRIVER=driver, STRICT_LOCKS="1",
                                     STRICT_DRIVER=f"{BUILD}/lib/sim/libcuda.so.1", CUPOLA_WAIT_LIMIT_MS="0")

    def test_calls_that_wait_find_all_pieces_in_the_driver(self):
        result = self.ahead_of_a_strict_driver(100)
        self.assertEqual(result["code"], 0, result["stderr"][-600:])
        self.assertGreaterEqual(self.number(DEFERRED, result), 20, result["stderr"][-600:])

    def test_a_planted_call_that_does_not_wait(self):
        self.plant("not_fed")
        self.assertEqual(self.ahead_of_a_strict_driver(10)["code"], "timeout")

    def test_ends_with_launches_deferred(self):
        """By exit(), by a reset of the device, and with a forked child that ends first: soon, and as without Cupola."""
        for way in ("ends-by-exit", "ends-by-reset", "ends-by-fork"):
            with self.subTest(way=way):
                plain = runner.run([self.program, way, "100"], self.environ, 60)
                with held(self.board, 0.01, 0.005):
                    result = self.under_cupola(way, "100", seconds=30)
                said = result["stderr"][-600:]
                self.assertEqual((result["code"], result["stdout"]), (plain["code"], plain["stdout"]), said)
                self.assertGreaterEqual(self.number(DEFERRED, result), 10, said)

    def test_more_nodes_than_fit_into_the_queue(self):
        self.check("large", 8, 4)

    def test_launch_calls_do_not_wait_until_the_process_is_let_go(self):
        """The process is held for seconds; meanwhile the program launches what the driver has no room for."""
        with held(self.board, HOLD_SECONDS, FREE_SECONDS):
            result = self.under_cupola("ahead", "49")
        self.assertGreaterEqual(self.number(DEFERRED, result), 5, result["stderr"][-600:])
        self.assertLess(self.number(LONGEST_CALL, result), 0.5 * HOLD_SECONDS * 1000, result["stderr"][-600:])

    def store(self):
        """A variant store with what `cupola build` makes of the program."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        environ = {key: value for key, value in self.environ.items() if not key.startswith("LD_")}
        built = subprocess.run([f"{BUILD}/bin/cupola", "build", self.program, "--no-libraries", "--quiet", "--kernel", "Long",
                                "--store", folder.name], env=environ, capture_output=True, check=False)
        self.assertEqual(built.returncode, 0, built.stderr)
        return folder.name

    def stopped_inside(self, way, launches="40"):
        return self.under_cupola(way, launches, CUPOLA_STORE=self.store(), CUPOLA_PIECE_US="500")

    def check_inside(self, way):
        plain = runner.run([self.program, way, "40"], self.environ, 60)
        with held(self.board, 0.006, 0.006):
            result = self.stopped_inside(way)
        said = result["stderr"][-900:]
        self.assertEqual((result["code"], result["stdout"]), (0, plain["stdout"]), said)
        self.assertGreaterEqual(self.number(PREEMPTIBLE, result), 20, said)
        self.assertGreaterEqual(self.number(STOPPED, result), 2, said)

    def test_kernels_with_variants_are_stopped_inside(self):
        for way in ("inside", "inside-legacy"):
            with self.subTest(way=way):
                self.check_inside(way)

    def test_cooperative_kernels_are_not(self):
        plain = runner.run([self.program, "inside-cooperative", "20"], self.environ, 60)
        result = self.under_cupola("inside-cooperative", "20", CUPOLA_STORE=self.store(), CUPOLA_PIECE_US="50", CUPOLA_PREEMPT="always")
        said = result["stderr"][-900:]
        self.assertEqual((result["code"], result["stdout"]), (0, plain["stdout"]), said)
        self.assertEqual(self.number(PREEMPTIBLE, result), 0, said)

    def test_elsewhere(self):
        self.check("elsewhere")

    def test_changed(self):
        """Also behind the change, once it was launched whole for some times."""
        self.check("changed", 40, 50)

    def test_changed_again_and_again(self):
        self.check("restless", 40, 1)

    def test_child_graphs_and_host_functions(self):
        self.check("nested", 20, 5)

    def test_replaced(self):
        self.check("replaced", 80, 1)

    def test_nobody_may_ask(self):
        """Then no piece is built, and every graph goes whole."""
        struct.pack_into("<II", self.board.memory, pestered_board.SLOT + pestered_board.GATE, 1, 0)
        result = self.under_cupola("ordered")
        self.assertEqual(result["code"], 0, result["stderr"][-300:])
        self.assertEqual(self.launches_in_pieces(result), 0)

    def test_whole_where_that_is_wanted(self):
        result = self.under_cupola("ordered", CUPOLA_PIECE_US="0")
        self.assertEqual(self.launches_in_pieces(result), 0)

    def plant(self, bug):
        self.library = f"{BUILD}/tests/preempt/planted/libplanted_{bug}.so"
        if not os.path.exists(self.library):
            self.skipTest(f"no {self.library}: build it first")

    def test_planted_bugs(self):
        for bug, way in BUGS.items():
            with self.subTest(bug=bug):
                self.plant(bug)
                launches = "150" if way == "ahead" else "40"
                run = self.stopped_inside if way == "inside" else self.under_cupola
                plain = runner.run([self.program, way, launches], self.environ, 60)
                found = False
                for _ in range(ATTEMPTS):
                    with held(self.board, 0.004, 0.004):
                        found = found or run(way, launches)["stdout"] != plain["stdout"]
                    if found:
                        break
                self.assertTrue(found)

    def longest_pause(self, piece_us, answered_after=None):
        """In ms, of launches of 24 kernels of 3 ms, while the process is held and let go."""
        with held(self.board, HOLD_SECONDS, FREE_SECONDS, answered_after):
            result = self.under_cupola("paused", "12", CUPOLA_PIECE_US=str(piece_us))
        self.assertEqual(result["code"], 0, result["stderr"][-300:])
        return int(result["stdout"])

    def is_never_held(self, piece_us):
        """Whether launches go on while the process is held. A busy machine makes pauses of its own, now and then."""
        return any(self.longest_pause(piece_us) < 0.5 * HOLD_SECONDS * 1000 for _ in range(ATTEMPTS))

    def test_a_planted_piece_without_gates(self):
        self.plant("piece_ungated")
        self.assertTrue(self.is_never_held(3000))

    def test_is_held_between_pieces(self):
        """A launch of 24 kernels of 3 ms pauses in its middle for as long as the process is held. Whole graphs do not."""
        self.assertGreaterEqual(self.longest_pause(3000), 0.8 * HOLD_SECONDS * 1000)
        self.assertTrue(self.is_never_held(0))

    def answers_of_holds(self):
        """The seconds after which HOLDS holds of graphs in pieces were answered, one after another."""
        answered_after = []
        for _ in range(2 * ATTEMPTS):
            answers = []
            if self.longest_pause(3000, answers) >= 0.8 * HOLD_SECONDS * 1000:  # it was launched in pieces
                answered_after += answers
            if len(answered_after) >= HOLDS:
                break
        self.assertGreaterEqual(len(answered_after), HOLDS)
        return answered_after

    def test_says_soon_that_it_has_stopped(self):
        """When its longest piece is over, and not when a whole launch, of 72 ms and what it was held for, would be: then
        half of the holds end without an answer. At first the times are not known yet, and a busy machine adds some."""
        for _ in range(3):
            answered_after = self.answers_of_holds()
            self.assertLess(min(answered_after), 0.03, answered_after)
            if answered_after.count(float("inf")) <= HOLDS // 4:
                return
        self.fail(f"not answered in time: {answered_after}")


if __name__ == "__main__":
    if "--build" in sys.argv:
        at = sys.argv.index("--build")
        BUILD = os.path.abspath(sys.argv[at + 1])
        Graphs.library = f"{BUILD}/lib/libcupola.so"
        del sys.argv[at:at + 2]
    unittest.main()
