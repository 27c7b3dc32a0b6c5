#!/usr/bin/env python3
"""ptxas brings the lanes of a warp together behind what lane 0 does alone between two ranges.

  convergence_test.py --make-side PROGRAM --ptxas PTXAS FILE.ptx...

Where it does not (free_worker.cpp tells why), a warp runs the next blocks in two parts, in twice the time,
and no result is wrong: so the machine code itself is looked at. In each preemptible variant whose warps run
free the two places where lane 0 sleeps must lie between a BSSY and its BSYNC. Kernels with matrix operations
are left out: ptxas brings their lanes together at each of those. Exit code: 0 they do, 1 not, 77 no ptxas.
"""
import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile

# Lowest twelve bits of an instruction of 16 bytes, sm_70 to sm_90 (as nvdisasm -hex shows them).
BSSY, BSYNC, NANOSLEEP_REGISTER = 0x945, 0x941, 0x35D


def sections(elf):
    """{name: bytes} of a 64-bit little-endian ELF file."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, table + size * i) for i in range(count)]
    text = rows[names][4]
    return {elf[text + row[0]:elf.index(b"\0", text + row[0])].decode(): elf[row[4]:row[4] + row[5]]
            for row in rows}


def open_at_sleeps(code):
    """How many convergence barriers are open, in the order of the code, where lane 0 sleeps."""
    opened, found = 0, []
    for word, in struct.iter_unpack("<Q8x", code[:len(code) // 16 * 16]):
        operation = word & 0xFFF
        opened += (operation == BSSY) - (operation == BSYNC)
        if operation == NANOSLEEP_REGISTER:
            found.append(opened)
    return found


def check(path, args, folder):
    """(variants looked at, what is wrong)"""
    side = subprocess.run([args.make_side, path], capture_output=True, text=True, timeout=60)
    if re.search(r"\bw?mma\.", side.stdout):
        return 0, []
    free = set(re.findall(r"\.entry (\w+__cupola_preemptible)\(", side.stdout))
    if side.returncode != 0 or not free:
        return 0, [] if side.returncode == 0 else [f"{path}: {side.stderr.strip()[:300]}"]
    out = os.path.join(folder, "side")
    with open(out + ".ptx", "w") as file:
        file.write(side.stdout)
    subprocess.run([args.ptxas, "-O3", "-arch=sm_90", out + ".ptx", "-o", out + ".cubin"], check=True,
                   timeout=60)
    with open(out + ".cubin", "rb") as file:
        found = sections(file.read())
    looked_at, wrong = 0, []
    for name in sorted(free):
        sleeps = open_at_sleeps(found[".text." + name])
        if not sleeps:  # its warps meet
            continue
        looked_at += 1
        if len(sleeps) != 2 or min(sleeps) < 1:
            wrong.append(f"{os.path.basename(path)}: {name}: {sleeps} open, not 1 or more at each of two")
    return looked_at, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--make-side", required=True)
    parser.add_argument("--ptxas")
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    if not args.ptxas:
        print("skipped: no ptxas found")
        return 77
    variants, bad = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for path in args.paths:
            looked_at, wrong = check(path, args, folder)
            variants += looked_at
            bad += wrong
    print(f"{variants} variants whose warps run free, {len(bad)} of them wrong")
    print("\n".join(bad))
    return 1 if bad or variants == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
