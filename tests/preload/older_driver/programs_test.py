#!/usr/bin/env python3
"""Programs run under Cupola on a driver of CUDA 12.4 as they run without it: with launches recorded, with their kernels
stopped and resumed from outside, and with tasks asked for, which that driver does not allow. Cupola calls nothing that
the driver lacks.

  programs_test.py --build DIR --driver FILE [PROGRAM...]      77: something that it needs is not built

FILE is the libcuda.so.1 of an older system (older_driver.cpp).
"""
import argparse
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests/apps"), os.path.join(ROOT, "tests/preempt")]
import pestered_board  # noqa: E402
import runner  # noqa: E402

PROGRAMS = ["driver_api", "driver_dlopen"]
CALLED = b"a call was made that the driver lacks"
OFF = b"cupola: the driver (CUDA 12.4) lacks cuCtxRecordEvent (CUDA 12.5): launches do not become tasks"


def without_cupola(environ, driver):
    return environ | {"LD_LIBRARY_PATH": os.path.dirname(driver)}


def under_cupola(environ, build, driver, store, **more):
    return environ | {"LD_LIBRARY_PATH": f"{build}/lib/libcupola", "LD_PRELOAD": f"{build}/lib/libcupola.so",
                      "CUPOLA_DRIVER": driver, "CUPOLA_STORE": store, "CUPOLA_LOG": "debug"} | more


def faults(name, how, plain, run, has_to_say=None):
    """What is wrong with the run of a program, as messages."""
    if (plain["code"], plain["stdout"]) != (run["code"], run["stdout"]):
        yield f"{name}, {how}: plain {plain['code']} {plain['stdout'][-200:]}, {run['code']} {run['stdout'][-200:]} " \
              f"{run['stderr'][-300:]}"
    if CALLED in run["stderr"]:
        yield f"{name}, {how}: Cupola called what the driver lacks: {run['stderr'][-300:]}"
    if has_to_say is not None and has_to_say not in run["stderr"]:
        yield f"{name}, {how}: it does not say {has_to_say}: {run['stderr'][-500:]}"


def faults_of_program(build, driver, environ, folder, name):
    program = f"{build}/apps/driver/{name}"
    if not os.path.exists(program):
        raise runner.NotPossible(f"no {program}: build it first")
    store = os.path.join(folder, "store")
    if problem := runner.build_variants(build, store, program):
        yield problem
        return
    plain = runner.run([program], without_cupola(environ, driver), 60)
    if plain["code"] != 0:
        yield f"{name}, without Cupola: {plain['code']} {plain['stderr'][-300:]}"
    records = os.path.join(folder, f"records-{name}")
    os.mkdir(records)
    recorded = runner.run([program], under_cupola(environ, build, driver, store, CUPOLA_RECORDS=records), 60)
    yield from faults(name, "recorded", plain, recorded)
    if not os.listdir(records):
        yield f"{name}: no launches were recorded"
    tasks = runner.run([program], under_cupola(environ, build, driver, store, CUPOLA_TASKS="always",
                                               CUPOLA_BATCHES="always"), 60)
    yield from faults(name, "with tasks asked for", plain, tasks, OFF)
    board = pestered_board.Board(folder)
    with pestered_board.pestering(board, 0.0004):
        stopped = runner.run([program], under_cupola(
            environ, build, driver, store, CUPOLA_BOARD=board.path, CUPOLA_BOARD_SLOT="0", CUPOLA_PREEMPT="always",
            CUPOLA_POLL_NS="0"), 60)
    yield from faults(name, "stopped", plain, stopped)
    print(f"{name}: stopped {board.preemptions()} times")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    parser.add_argument("--driver", required=True)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    options = parser.parse_args()
    wrong = []
    try:
        environ = runner.environment(os.path.abspath(options.build), "sim")
        with tempfile.TemporaryDirectory() as folder:
            for name in options.programs or PROGRAMS:
                wrong += faults_of_program(os.path.abspath(options.build), os.path.abspath(options.driver), environ, folder,
                                           name)
    except runner.NotPossible as reason:
        print(f"programs_test: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    print("\n".join(wrong) or "all as without Cupola")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
