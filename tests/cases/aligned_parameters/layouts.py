#!/usr/bin/env python3
"""The parameters that the bundles of a store name, compared with what their machine code says of them
(EIATTR_KPARAM_INFO). Exit code 1: they differ.

  layouts.py STORE            the comparison
  layouts.py STORE move N     has the bundles say that parameter N of each kernel lies 16 bytes further
"""
import glob
import os
import struct
import sys

HEAD, IMAGES, IMAGE, ENTRY, CHECKSUM = 56, 2, 40, 96, 24


def records(cubin):
    """Name of each kernel of a cubin, {ordinal: offset} of its parameters."""
    sections, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", cubin, sections + i * size) for i in range(count)]
    strings = rows[names][4]
    for name, _, _, _, at, length in rows:
        text = cubin[strings + name:cubin.index(b"\0", strings + name)].decode()
        if not text.startswith(".nv.info."):
            continue
        found, end = {}, at + length
        while at < end:
            form, attribute, value = struct.unpack_from("<BBH", cubin, at)
            if form == 4 and attribute == 0x17:
                _, ordinal, offset = struct.unpack_from("<IHH", cubin, at + 4)
                found[ordinal] = offset
            at += 4 + (value if form == 4 else 0)
        yield text[len(".nv.info."):], [found[i] for i in sorted(found)]


def kernels(data):
    """Name, where the parameters' entries lie, how many, and launch_offset of each kernel of a bundle."""
    count, at = struct.unpack_from("<II", data, 36)[0], struct.unpack_from("<II", data, 36)[1]
    for i in range(count):
        name, _, many, entries, _, launch = struct.unpack_from("<6I", data, at + i * ENTRY)
        yield data[name:data.index(b"\0", name)].decode(), entries, many, launch


def side_cubin(data):
    offset, length = struct.unpack_from("<QQ", data, HEAD)
    return bytes(data[offset:offset + length])


def checksum(data):
    sum_ = 0xCBF29CE484222325
    for i, byte in enumerate(data):
        sum_ = (sum_ ^ (0 if CHECKSUM <= i < CHECKSUM + 8 else byte)) * 0x100000001B3 & (2 ** 64 - 1)
    return sum_


def move(path, data, number):
    for _, entries, many, _ in kernels(data):
        if number < many:
            offset, = struct.unpack_from("<I", data, entries + 12 * number)
            struct.pack_into("<I", data, entries + 12 * number, offset + 16)
    struct.pack_into("<Q", data, CHECKSUM, checksum(data))
    os.chmod(path, 0o600)
    with open(path, "wb") as file:
        file.write(data)


def main():
    compared = different = 0
    for path in sorted(glob.glob(sys.argv[1] + "/bundles/*")):
        data = bytearray(open(path, "rb").read())
        if bytes(data[:8]) != b"CUPBNDL1":
            continue
        if sys.argv[2:3] == ["move"]:
            move(path, data, int(sys.argv[3]))
            continue
        code = dict(records(side_cubin(data)))
        for name, entries, many, launch in kernels(data):
            told = [struct.unpack_from("<I", data, entries + 12 * i)[0] for i in range(many)] + [launch]
            for form in ("__cupola_preemptible", "__cupola_sliced"):
                if name + form not in code:
                    continue
                compared += 1
                if told != code[name + form]:
                    different += 1
                    print(f"{name}{form}: the bundle says {told}, the machine code {code[name + form]}")
    if sys.argv[2:3] != ["move"]:
        print(f"{different} of {compared} variants differ")
    return different != 0 or (not compared and len(sys.argv) < 3)


sys.exit(main())
