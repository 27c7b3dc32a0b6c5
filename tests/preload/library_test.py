#!/usr/bin/env python3
"""Checks libcupola.so as a file, and classes.def against the toolkit's stub library.

usage: library_test.py libcupola.so classes.def hooks.def [stub libcuda.so]
"""
import pathlib
import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
OWN = {"dlopen", "dlsym", "cudaLaunchKernel", "cudaLaunchKernel_ptsz", "__cudaLaunchKernel",
       "__cudaLaunchKernel_ptsz", "cudaLaunchKernelExC", "cudaLaunchKernelExC_ptsz",
       "cudaLaunchCooperativeKernel", "cudaLaunchCooperativeKernel_ptsz"}
CLASSES = {"kPure", "kStreamOrdered", "kMayWait"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exports(library):
    return {line.split()[2].split("@")[0]
            for line in output("nm", "-D", "--defined-only", library).splitlines()}


def main():
    library, classes_path, hooks_path = sys.argv[1:4]
    wrong = []
    dynamic = output("readelf", "-dW", library)
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    if not needed <= ALLOWED:
        wrong.append(f"needs more than libc's own: {sorted(needed - ALLOWED)}")
    if re.findall(r"SONAME.*\[(.*)\]", dynamic) != ["libcuda.so.1"]:
        wrong.append("its SONAME is not libcuda.so.1")

    pairs = re.findall(r"^CUPOLA_CALL\((\w+), (\w+)\)", pathlib.Path(classes_path).read_text(),
                       re.M)
    classes = dict(pairs)
    if len(pairs) != len(classes):
        wrong.append("a call is classified twice")
    wrong += [f"{name}: no class {kind}" for name, kind in pairs if kind not in CLASSES]
    exported = exports(library)
    if exported - set(classes) != OWN:
        others = (exported - set(classes)) ^ OWN
        wrong.append(f"exports besides the driver's calls: {sorted(others)}")
    if set(classes) - exported:
        wrong.append(f"classified, not exported: {sorted(set(classes) - exported)}")
    hooks = re.findall(r"^CUPOLA_(?:LAUNCH_)?HOOK\((\w+),", pathlib.Path(hooks_path).read_text(), re.M)
    if len(hooks) != len(set(hooks)):
        wrong.append("a hook is listed twice")
    if len(sys.argv) > 4:
        stub = exports(sys.argv[4])
        wrong += [f"{name}: exported by the toolkit's library, not classified"
                  for name in sorted(stub - set(classes))]
        wrong += [f"{name}: classified, but the toolkit's library does not export it"
                  for name in sorted(set(classes) - stub)]
    print("\n".join(wrong) or f"{len(classes)} calls, all classified and exported")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
