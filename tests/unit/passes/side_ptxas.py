#!/usr/bin/env python3
"""ptxas takes the side module of every PTX module: of the files given, of a sample of the libraries'.

Prints how many kernels get which variant and why the others get none. CUPOLA_SEED=N takes other samples.
Exit code: 0 all taken, 1 something is not, 77 no ptxas.
"""
import argparse
import collections
import importlib.machinery
import importlib.util
import os
import random
import re
import subprocess
import sys
import tempfile
import time

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts")


def load_roundtrip():
    sys.path.insert(0, SCRIPTS)
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("roundtrip", os.path.join(SCRIPTS, "roundtrip-all"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("roundtrip", loader))
    loader.exec_module(module)
    return module


def arch_of(text):
    """What ptxas compiles for: the target, sm_90 at least."""
    target = re.search(r"^\.target\s+(sm_(\d+)[af]?)", text, re.M)
    return target.group(1) if target and int(target.group(2)) >= 90 else "sm_90"


class Checker:
    def __init__(self, args):
        self.args = args
        self.counts, self.reasons = collections.Counter(), collections.Counter()
        self.modules = self.empty = self.slow = 0
        self.bad = []

    def check(self, name, path, folder):
        self.modules += 1
        try:
            side = subprocess.run([self.args.make_side, path], capture_output=True, text=True,
                                  errors="replace", timeout=60)
        except subprocess.TimeoutExpired:
            self.bad.append(f"{name}: no side module within 60 s")
            return
        if side.returncode != 0:
            self.bad.append(f"{name}: {side.stderr.strip()[:500]}")
            return
        for line in side.stderr.splitlines():
            words = line.split(None, 2)
            if words[0] != "refused":
                self.counts[words[0]] += 1
                continue
            variant, reason = words[2].split(": ", 1)
            self.counts["not " + variant] += 1
            self.reasons[variant + ": " + reason.split(": ")[0]] += 1
        if ".entry" not in side.stdout:
            self.empty += 1
            return
        out = os.path.join(folder, "side.ptx")
        with open(out, "w") as file:
            file.write(side.stdout)
        try:
            run = subprocess.run([self.args.ptxas, "-O1" if self.args.fast else "-O3",
                                  "-arch=" + arch_of(side.stdout), out, "-o",
                                  os.path.join(folder, "side.cubin")], capture_output=True,
                                 text=True, timeout=self.args.limit)
        except subprocess.TimeoutExpired:
            self.slow += 1
            return
        if run.returncode != 0:
            self.bad.append(f"{name}: {run.stderr.strip()[:500]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--make-side", required=True)
    parser.add_argument("--ptxas")
    parser.add_argument("--cupola", help="for --libraries")
    parser.add_argument("--libraries", type=int, default=0, help="how many of their modules")
    parser.add_argument("--max-bytes", type=int, default=200000, help="of a library's module")
    parser.add_argument("--files", type=int, default=10 ** 6, help="how many of the files at most")
    parser.add_argument("--budget", type=float, default=600, help="seconds for the libraries")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one ptxas")
    parser.add_argument("--fast", action="store_true", help="ptxas -O1: is it PTX, no more")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CUPOLA_SEED", "1")))
    parser.add_argument("paths", nargs="*")
    args = parser.parse_args()
    if not args.ptxas:
        print("skipped: no ptxas found")
        return 77
    checker = Checker(args)
    chance = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(chance.sample(args.paths, min(args.files, len(args.paths)))):
            checker.check(path, path, folder)
        if args.libraries:
            roundtrip = load_roundtrip()
            args.libraries_wanted, args.libraries = args.libraries, []
            modules = [each for each in roundtrip.list_modules(args, folder)
                       if each["bytes"] <= args.max_bytes]
            end = time.monotonic() + args.budget
            for module in roundtrip.take_sample(modules, args.libraries_wanted, args.seed):
                if time.monotonic() > end:
                    break
                text = subprocess.run([args.cupola, "inspect", module["path"], "--image",
                                       str(module["image"]), "--extract", "-"], capture_output=True)
                path = os.path.join(folder, "library.ptx")
                with open(path, "wb") as file:
                    file.write(text.stdout)
                checker.check(f"{module['library']} image {module['image']}", path, folder)
    print(f"seed {args.seed}: {checker.modules} modules, {checker.empty} of them without variants, "
          f"{checker.slow} given up for time")
    for word, count in sorted(checker.counts.items()):
        print(f"{count:7} {word}")
    for reason, count in checker.reasons.most_common():
        print(f"{count:7} {reason}")
    for bad in checker.bad:
        print("BAD " + bad)
    return 1 if checker.bad or not checker.modules else 0


if __name__ == "__main__":
    sys.exit(main())
