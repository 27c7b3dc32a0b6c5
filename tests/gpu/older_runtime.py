#!/usr/bin/env python3
"""A program that was built with CUDA 12.4 runs under Cupola on this machine's GPU as it runs without.

The program is older_runtime.cpp, with the headers and the runtime library of CUDA 12.4. It runs plain, under `cupola run`,
with a trace, with tasks asked for, and asked from outside to yield. Standard output and exit code have to be the same.
Exit code 77: something that it needs is not here. (A driver of CUDA 12.4 cannot be played on a GPU: the runtime checks the
driver's own tables, and refuses a library in front of it that lacks calls. tests/preload/older_driver does without a GPU.)

  older_runtime.py --build BUILD --runtime DIR [--programs DIR]

DIR of --runtime: what `pip install --target T nvidia-cuda-runtime-cu12==12.4.*` puts into T/nvidia/cuda_runtime, and in its
include/ the folder crt/ that nvidia-cuda-nvcc-cu12==12.4.* has in T/nvidia/cuda_nvcc/include. With
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

SECONDS = 60


def build_program(runtime, folder):
    """The path of the program, which is built where it is not there."""
    program, fatbin = os.path.join(folder, "older_runtime"), os.path.join(folder, "older_runtime.fatbin")
    if os.path.exists(program):
        return program
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    source = os.path.join(ROOT, "tests/gpu/older_runtime")
    needed = [nvcc, f"{runtime}/lib/libcudart.so.12", f"{runtime}/include/crt/host_defines.h"]
    if missing := [path for path in needed if not os.path.exists(path)]:
        raise runner.NotPossible(f"needs nvcc, and the runtime of CUDA 12 in --runtime; there is no {missing[0]}")
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


def fault(plain, run):
    """What is wrong with a run, or ""."""
    if (plain["code"], plain["stdout"]) == (run["code"], run["stdout"]) and run["code"] == 0:
        return ""
    return f"plain {plain['code']} {plain['stdout']}, {run['code']} {run['stdout']} {run['stderr'][-600:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--programs")
    options = parser.parse_args()
    build, wrong = os.path.abspath(options.build), False
    try:
        with tempfile.TemporaryDirectory() as folder:
            program = build_program(os.path.abspath(options.runtime), os.path.abspath(options.programs or folder))
            store = os.path.join(os.path.dirname(program), "store")
            if not os.path.exists(store) and (problem := runner.build_variants(build, store, program)):
                raise runner.NotPossible(problem)
            real = machines_driver()
            environ = runner.environment(build, "gpu")
            environ["LD_LIBRARY_PATH"] = os.path.abspath(options.runtime) + "/lib"
            plain = None
            for name, run in runs_of(build, real, environ, folder, store, program):
                plain = plain or run
                found = fault(plain, run)
                print(f"{os.path.basename(real)}, {name}: {found or run['stdout'].decode().split()}", flush=True)
                wrong |= bool(found)
    except runner.NotPossible as reason:
        print(f"older_runtime: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
