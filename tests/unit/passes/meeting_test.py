#!/usr/bin/env python3
"""In the machine code of a variant all warps meet at one barrier, the only one that the worker adds.

  meeting_test.py --make-side PROGRAM --ptxas PTXAS FILE.ptx...

Where the meeting can be entered in two ways ptxas makes two copies of it, and lanes of a warp that come to
different copies wait for each other forever: on a GPU, not on the simulated device, so the machine code
itself is looked at. Variants of kernels that have no barriers themselves must have one; those of kernels whose
threads return before barriers must have one to which parts of warps come and one way back from it, and no
other barrier that gathers lanes of a warp: those of the body did, as unaligned ones, and an H100 waited for ever. Kernels with matrix
operations are left out, ptxas adds barriers there. Exit code: 0 they do, 1 not, 77 no ptxas.
"""
import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile

# Lowest twelve bits of an instruction of 16 bytes, sm_70 to sm_90 (as nvdisasm -hex shows them). Where a warp's lanes
# may come apart ptxas adds a second copy of a barrier, to which all go that do (WARPSYNC.COLLECTIVE.ALL): with its
# number in a register, so not this one.
BAR, BRX, WARPSYNC_ALL = 0xB1D, 0x949, 0x948
COLLECTIVE = 1 << 22  # in the upper half
TRUE = 7  # the predicate that is always true


def sections(elf):
    """{name: bytes} of a 64-bit little-endian ELF file."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, table + size * i) for i in range(count)]
    text = rows[names][4]
    return {elf[text + row[0]:elf.index(b"\0", text + row[0])].decode(): elf[row[4]:row[4] + row[5]]
            for row in rows}


def barriers(code):
    """How many barrier instructions there are; of those, how many say something that is not always so."""
    found = [high >> 23 & 7 for low, high in struct.iter_unpack("<QQ", code[:len(code) // 16 * 16])
             if low & 0xFFF == BAR]
    return len(found), sum(predicate != TRUE for predicate in found)


def tables(code):
    """How many branches there are by a table."""
    return sum(word & 0xFFF == BRX for word, in struct.iter_unpack("<Q8x", code[:len(code) // 16 * 16]))


def gatherings(code):
    """How many barriers have a second copy for lanes that come apart."""
    return sum(low & 0xFFF == WARPSYNC_ALL and high & COLLECTIVE != 0
               for low, high in struct.iter_unpack("<QQ", code[:len(code) // 16 * 16]))


def meets_apart(entry, code):
    """Whether parts of warps have more than one place to meet at, or there are several copies of it."""
    parts = barriers(code)[1]
    reduces = ".red.or" not in entry  # two phases
    return (tables(code) != entry.count("brx.idx") or parts == 0 or (not reduces and parts != 1) or
            gatherings(code) > (2 if reduces else 1))


def check(path, args, folder):
    """(variants looked at, what is wrong)"""
    side = subprocess.run([args.make_side, path], capture_output=True, text=True, timeout=60)
    if re.search(r"\bw?mma\.", side.stdout):
        return 0, []
    entries = re.split(r"^\.visible \.entry |^\.entry ", side.stdout, flags=re.M)[1:]
    wanted = {}
    for entry in entries:
        count = len(re.findall(r"\b(?:bar|barrier)\.(?!warp)", entry))
        if "__cupola_preemptible(" in entry.split("\n")[0] and (count == 1 or "$cupola_meet:" in entry):
            wanted[entry.split("(")[0]] = entry
    if side.returncode != 0 or not wanted:
        return 0, [] if side.returncode == 0 else [f"{path}: {side.stderr.strip()[:300]}"]
    out = os.path.join(folder, "side")
    with open(out + ".ptx", "w") as file:
        file.write(side.stdout)
    subprocess.run([args.ptxas, "-O3", "-arch=sm_90", out + ".ptx", "-o", out + ".cubin"], check=True,
                   timeout=60)
    with open(out + ".cubin", "rb") as file:
        found = sections(file.read())
    bad = []
    for name, entry in sorted(wanted.items()):
        code = found[".text." + name]
        if "$cupola_meet:" in entry:
            wrong = "parts of warps meet at several places" if meets_apart(entry, code) else ""
        else:
            wrong = f"{barriers(code)[0]} barriers, not one" if barriers(code)[0] != 1 else ""
        bad += [f"{os.path.basename(path)}: {name}: {wrong}"] if wrong else []
    return len(wanted), bad


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
    print(f"{variants} variants that meet at one place, {len(bad)} of them wrong")
    print("\n".join(bad))
    return 1 if bad or variants == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
