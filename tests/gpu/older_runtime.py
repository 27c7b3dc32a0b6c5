#!/usr/bin/env python3
"""A program that was built with CUDA 12.4 runs under Cupola on this machine's GPU as it runs without.

The program is older_runtime.cpp, with the headers and the runtime library of CUDA 12.4. It runs on the machine's driver,
and on one that has only what the driver of CUDA 12.4 has (tests/preload/older_driver, in front of the machine's): plain,
under `cupola run`, with a trace, with tasks asked for, and stopped and resumed from outside. Standard output and exit code
have to be the same, and Cupola may not call what the driver lacks. Exit code 77: something that it needs is not here.

  older_runtime.py --build BUILD --runtime DIR [--programs DIR]

DIR of --runtime: what `pip install --target T nvidia-cuda-runtime-cu12==12.4.*` puts into T/nvidia/cuda_runtime. With
--programs the program and its variants are built into that folder, or taken from there where they are built already.
"""
import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests/apps"), os.path.join(ROOT, "tests/preempt")]
import pestered_board  # noqa: E402
import runner  # noqa: E402

LACKING = b"a call was made that the driver lacks"
OFF = b"lacks cuCtxRecordEvent (CUDA 12.5): launches do not become tasks"
SECONDS = 60


def build_program(runtime, folder):
    """The path of the program, which is built where it is not there."""
    program, fatbin = os.path.join(folder, "older_runtime"), os.path.join(folder, "older_runtime.fatbin")
    if os.path.exists(program):
        return program
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    source = os.path.join(ROOT, "tests/gpu/older_runtime")
    if not os.path.exists(nvcc) or not os.path.exists(f"{runtime}/lib/libcudart.so.12"):
        raise runner.NotPossible("needs nvcc, and the runtime of CUDA 12 in --runtime")
    os.makedirs(folder, exist_ok=True)
    subprocess.run([nvcc, "-gencode", "arch=compute_90,code=[sm_90,compute_90]", "-fatbin", source + "_kernel.cu", "-o",
                    fatbin], check=True)
    subprocess.run(["g++", "-std=c++20", "-O1", f'-DFATBIN="{fatbin}"', "-isystem", f"{runtime}/include", source + ".cpp",
                    f"{runtime}/lib/libcudart.so.12", "-o", program], check=True)
    return program


def machines_driver():
    places = [path for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64")
              for path in sorted(glob.glob(f"{folder}/libcuda.so.*.*"))]
    if not places:
        raise runner.NotPossible("there is no driver")
    return places[0]


def runs_of(build, driver, environ, folder, store, program):
    """Pairs of a name and the run of the program, the plain one first."""
    base = environ | {"LD_LIBRARY_PATH": f"{os.path.dirname(driver)}:{environ['LD_LIBRARY_PATH']}"}
    yield "plain", runner.run([program], base, SECONDS)
    ours = environ | {"CUPOLA_DRIVER": driver, "CUPOLA_STORE": store, "CUPOLA_LOG": "debug"}
    command = [f"{build}/bin/cupola", "run", "--device", "gpu"]
    yield "cupola run", runner.run([*command, "--", program], ours, SECONDS)
    yield "--trace", runner.run([*command, "--trace", f"{folder}/trace.json", "--", program], ours, SECONDS)
    yield "tasks", runner.run([*command, "--", program], ours | {"CUPOLA_TASKS": "always"}, SECONDS)
    board = pestered_board.Board(folder)
    direct = ours | {"LD_LIBRARY_PATH": f"{build}/lib/libcupola:{environ['LD_LIBRARY_PATH']}",
                     "LD_PRELOAD": f"{build}/lib/libcupola.so", "CUPOLA_BOARD": board.path, "CUPOLA_BOARD_SLOT": "0",
                     "CUPOLA_PREEMPT": "always"}
    with pestered_board.pestering(board):
        run = runner.run([program], direct, SECONDS)
    yield f"stopped {board.preemptions()} times", run


def faults(driver, is_older, name, plain, run):
    if (plain["code"], plain["stdout"]) != (run["code"], run["stdout"]) or run["code"] != 0:
        yield f"{driver}, {name}: plain {plain['code']} {plain['stdout']}, {run['code']} {run['stdout']} {run['stderr'][-600:]}"
    if LACKING in run["stderr"]:
        yield f"{driver}, {name}: Cupola called what the driver lacks"
    if name == "tasks" and (OFF in run["stderr"]) != is_older:
        yield f"{driver}, {name}: whether tasks are off is not as it should be: {run['stderr'][-600:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--programs")
    options = parser.parse_args()
    build, wrong = os.path.abspath(options.build), []
    try:
        with tempfile.TemporaryDirectory() as folder:
            program = build_program(os.path.abspath(options.runtime), os.path.abspath(options.programs or folder))
            store = os.path.join(os.path.dirname(program), "store")
            if not os.path.exists(store) and (problem := runner.build_variants(build, store, program)):
                raise runner.NotPossible(problem)
            real = machines_driver()
            older = f"{build}/tests/preload/older_driver/older_null_driver/libcuda.so.1"
            environ = runner.environment(build, "gpu") | {"OLDER_DRIVER_OF": real}
            environ["LD_LIBRARY_PATH"] = os.path.abspath(options.runtime) + "/lib"
            for driver, is_older in ((real, False), (older, True)):
                plain = None
                for name, run in runs_of(build, driver, environ, folder, store, program):
                    plain = plain or run
                    found = list(faults(driver, is_older, name, plain, run))
                    print(f"{'as CUDA 12.4' if is_older else os.path.basename(real)}, {name}: "
                          f"{found or run['stdout'].decode().split()}", flush=True)
                    wrong += found
    except runner.NotPossible as reason:
        print(f"older_runtime: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
