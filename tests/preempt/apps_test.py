#!/usr/bin/env python3
"""Runs the programs of tests/apps with variants made by `cupola build`, while something outside
stops and resumes their kernels all the time: their output is what it is plain.

  apps_test.py --build DIR [APP...]      77: something that it needs is not built
"""
import argparse
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/apps"))
import pestered_board  # noqa: E402
import runner  # noqa: E402

APPS = ["vector_add", "matmul_tiled", "histogram", "reduce_early_return", "stencil_constant",
        "device_globals", "cub_scan_select", "streams_events", "warp_scan", "dynamic_shared",
        "many_arguments", "launch_ex", "per_thread_stream", "cuda_graph", "copies_behind_kernels",
        "repeated_launches"]
# Programs that run with other settings, and how many seconds they are asked to yield each time.
# copies_behind_kernels: its kernels take longer than the limit after which Cupola ends its own waits; while it is in the
# driver then, it may not be asked (pestered_board). repeated_launches: where no launch may become a task, the second one of
# a kind is known already (launch/known_launch.h); a wait for what the program holds would last for ever.
SETTINGS = {"copies_behind_kernels": ({"CUPOLA_WAIT_LIMIT_MS": "1"}, 0.005),
            "repeated_launches": ({"CUPOLA_TASKS": "off", "CUPOLA_WAIT_LIMIT_MS": "0"}, 0.0004)}
ENDED_ANYWAY = b"waits ended though nothing went on"


def compare(build, name, environ, store, folder, watch_from):
    """What is wrong with this program, or ""; and how often it was stopped. One worker of launches of
    at least `watch_from` watches."""
    program = f"{build}/apps/shared/{name}"
    if not os.path.exists(program):
        raise runner.NotPossible(f"no {program}: build it first")
    if problem := runner.build_variants(build, store, program):
        return problem, 0
    plain = runner.run([program], environ, 60)
    board = pestered_board.Board(folder)
    more = {"LD_PRELOAD": f"{build}/lib/libcupola.so", "CUPOLA_STORE": store,
            "CUPOLA_DRIVER": f"{build}/lib/sim/libcuda.so.1", "CUPOLA_BOARD": board.path,
            "CUPOLA_BOARD_SLOT": "0", "CUPOLA_PREEMPT": "always", "CUPOLA_POLL_NS": "0",
            "CUPOLA_WATCH_FROM": str(watch_from), "CUPOLA_LOG": "info"}
    settings, seconds = SETTINGS.get(name, ({}, 0.0004))
    more.update(settings)
    with pestered_board.pestering(board, seconds):
        stopped = runner.run([program], {**environ, **more}, 60)
    if (plain["code"], plain["stdout"]) != (stopped["code"], stopped["stdout"]):
        return (f"plain {plain['code']} {plain['stdout'][-300:]}, stopped {stopped['code']} "
                f"{stopped['stdout'][-300:]} {stopped['stderr'][-300:]}"), board.preemptions()
    if name == "copies_behind_kernels" and ENDED_ANYWAY not in stopped["stderr"]:
        return f"no wait was ended: {stopped['stderr'][-300:]}", board.preemptions()
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
