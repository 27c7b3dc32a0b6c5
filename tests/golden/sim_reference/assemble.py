#!/usr/bin/env python3
"""usage: assemble.py PTXAS: every kernel of tests/golden/sim must assemble for sm_90, or the GPU
could not run it. Exit code 1 if any does not."""
import concurrent.futures, glob, os, subprocess, sys, tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))


def assemble(path):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        result = subprocess.run([sys.argv[1], "-arch=sm_90", "-O1", path, "-o", cubin.name], timeout=60,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if result.returncode == 0 else result.stdout


def main():
    paths = sorted(glob.glob(os.path.join(FOLDER, "../sim/*.ptx")))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [text for text in pool.map(assemble, paths) if text]
    print("".join(failures) + f"{len(paths)} kernels, {len(failures)} do not assemble")
    return 1 if failures or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
