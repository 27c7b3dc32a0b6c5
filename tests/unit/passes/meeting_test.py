#!/usr/bin/env python3
"""In the machine code of a variant all warps meet at one barrier, the only one that the worker adds.

  meeting_test.py --make-side PROGRAM --ptxas PTXAS FILE.ptx...

Where the meeting can be entered in two ways ptxas makes two copies of it, and lanes of a warp that come to
different copies wait for each other forever: on a GPU, not on the simulated device, so the machine code
itself is looked at. Variants of kernels that have no barriers themselves must have one; those of kernels whose
threads return before barriers must have as many as their PTX, which has one place for all. Kernels with matrix
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
# may come apart ptxas adds a second copy, to which all go that do: with its number in a register, so not this one.
BAR = 0xB1D


def sections(elf):
    """{name: bytes} of a 64-bit little-endian ELF file."""
    table, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, table + size * i) for i in range(count)]
    text = rows[names][4]
    return {elf[text + row[0]:elf.index(b"\0", text + row[0])].decode(): elf[row[4]:row[4] + row[5]]
            for row in rows}


def barriers(code):
    """How many barrier instructions there are."""
    return sum(word & 0xFFF == BAR for word, in struct.iter_unpack("<Q8x", code[:len(code) // 16 * 16]))


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
            wanted[entry.split("(")[0]] = count
    if side.returncode != 0 or not wanted:
        return 0, [] if side.returncode == 0 else [f"{path}: {side.stderr.strip()[:300]}"]
    out = os.path.join(folder, "side")
    with open(out + ".ptx", "w") as file:
        file.write(side.stdout)
    subprocess.run([args.ptxas, "-O3", "-arch=sm_90", out + ".ptx", "-o", out + ".cubin"], check=True,
                   timeout=60)
    with open(out + ".cubin", "rb") as file:
        found = sections(file.read())
    counts = {name: barriers(found[".text." + name]) for name in sorted(wanted)}
    return len(counts), [f"{os.path.basename(path)}: {name}: {count} barriers, not {wanted[name]}"
                         for name, count in counts.items() if count != wanted[name]]


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
