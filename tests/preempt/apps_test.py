#!/usr/bin/env python3
"""Runs the programs of tests/apps with variants made by `cupola build`, while something outside
stops and resumes their kernels all the time: their output is what it is plain.

  apps_test.py --build DIR [APP...]      77: something that it needs is not built
"""
import argparse
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/apps"))
import runner  # noqa: E402

APPS = ["vector_add", "matmul_tiled", "histogram", "reduce_early_return", "stencil_constant",
        "device_globals", "cub_scan_select", "streams_events", "warp_scan", "dynamic_shared",
        "many_arguments", "launch_ex", "per_thread_stream", "cuda_graph"]
# sched/board/board.h: the head, slot 0, and in it yield_requests, yield_sm_bound and wake.
BOARD_BYTES, SLOT, REQUESTS, BOUND, WAKE = 28672, 4096, 256, 264, 272
DAEMON_BIT, ALL_SMS = 1 << 63, 0xFFFF


class Board:
    def __init__(self, folder):
        self.path = os.path.join(folder, "board")
        with open(self.path, "wb") as file:
            file.write(bytes(BOARD_BYTES))
        self.file = open(self.path, "r+b")
        self.memory = mmap.mmap(self.file.fileno(), 0)
        struct.pack_into("<III", self.memory, 0, 0x43555042, 1, 63)
        struct.pack_into("<I", self.memory, SLOT, 1)
        struct.pack_into("<I", self.memory, SLOT + BOUND, ALL_SMS)

    def ask(self, requests):
        struct.pack_into("<Q", self.memory, SLOT + REQUESTS, requests)
        wake = struct.unpack_from("<I", self.memory, SLOT + WAKE)[0]
        struct.pack_into("<I", self.memory, SLOT + WAKE, (wake + 1) & 0xFFFFFFFF)

    def preemptions(self):
        return struct.unpack_from("<Q", self.memory, SLOT + 128 + 48)[0]


def pester(board, over):
    while not over.wait(0.0004):
        board.ask(DAEMON_BIT)
        if over.wait(0.0004):
            break
        board.ask(0)
    board.ask(0)


def compare(build, name, environ, store, folder, watch_from):
    """What is wrong with this program, or ""; and how often it was stopped. One worker of launches of
    at least `watch_from` watches."""
    program = f"{build}/apps/shared/{name}"
    if not os.path.exists(program):
        raise runner.NotPossible(f"no {program}: build it first")
    built = subprocess.run([f"{build}/bin/cupola", "build", "--quiet", "--store", store, program],
                           capture_output=True, text=True, timeout=120)
    if built.returncode != 0:
        return f"cupola build: {built.stderr[-300:]}", 0
    plain = runner.run([program], environ, 60)
    board, over = Board(folder), threading.Event()
    more = {"LD_PRELOAD": f"{build}/lib/libcupola.so", "CUPOLA_STORE": store,
            "CUPOLA_DRIVER": f"{build}/lib/sim/libcuda.so.1", "CUPOLA_BOARD": board.path,
            "CUPOLA_BOARD_SLOT": "0", "CUPOLA_PREEMPT": "always", "CUPOLA_POLL_NS": "0",
            "CUPOLA_WATCH_FROM": str(watch_from)}
    pestering = threading.Thread(target=pester, args=(board, over))
    pestering.start()
    stopped = runner.run([program], {**environ, **more}, 60)
    over.set()
    pestering.join()
    if (plain["code"], plain["stdout"]) != (stopped["code"], stopped["stdout"]):
        return (f"plain {plain['code']} {plain['stdout'][-300:]}, stopped {stopped['code']} "
                f"{stopped['stdout'][-300:]} {stopped['stderr'][-300:]}"), board.preemptions()
    return "", board.preemptions()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    parser.add_argument("apps", nargs="*", metavar="APP")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    wrong = total = 0
    try:
        environ = runner.environment(build, "sim")
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store")
            for name in options.apps or APPS:
                for watch_from in (2, 1000):
                    problem, preemptions = compare(build, name, environ, store, folder, watch_from)
                    total += preemptions
                    wrong += problem != ""
                    print(f"{name}, watcher from {watch_from} workers: "
                          f"{problem or f'same, stopped {preemptions} times'}")
    except runner.NotPossible as reason:
        print(f"apps_test: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    if total == 0:
        print("nothing was stopped")
    return 1 if wrong or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
