#!/usr/bin/env python3
"""Computes what golden kernels must give from the PTX ISA's text, without the interpreter.

usage: reference.py [--write] [NAME...]   (default: every kernel that has a reference)
Compares the expectations of tests/golden/sim/NAME.ptx with the references of this folder;
--write rewrites those that differ. Exit code 1 if any differs.

A reference is a function @golden("name") of the kernel's file; it gives {argument: values} of the
buffers that change, or Outcome(buffers, printed, fault)."""
import argparse, importlib, os, sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)
from kernel_file import MARKER, KernelFile
from registry import Outcome, REFERENCES

MODULES = ["approximation", "atomics", "barriers", "conversion", "floating_point", "flow",
           "integers", "matrices", "memory", "systems", "warps"]


def expectation(name, path):
    kernel = KernelFile(path)
    outcome = REFERENCES[name](kernel)
    if not isinstance(outcome, Outcome):
        outcome = Outcome(outcome)
    return kernel, kernel.output(outcome.buffers, outcome.printed, outcome.fault)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    for module in MODULES:
        importlib.import_module(module)
    bad = 0
    for name in options.names or sorted(REFERENCES):
        path = os.path.join(FOLDER, "../sim", name + ".ptx")
        kernel, output = expectation(name, path)
        if kernel.expected == output:
            continue
        if options.write:
            with open(path, "w") as file:
                file.write(kernel.head + MARKER + "\n" + output)
            print(f"{name}: written")
            continue
        bad += 1
        print(f"{name}: differs from its reference")
        for wanted, given in zip(output.splitlines(), kernel.expected.splitlines()):
            if wanted != given:
                print(f"  reference {wanted}\n  file      {given}")
                break
    print(f"{len(options.names or REFERENCES)} references, {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
