#!/usr/bin/env python3
"""Checks on which systems the shipped files run: those with glibc 2.34 or later, whatever their C++ library.
And that what comes into programs takes little of their static TLS, of which all libraries together have
some hundred bytes to spare.

usage: systems_test.py LIBRARY-THAT-COMES-INTO-PROGRAMS... -- OTHER-FILE...
"""
import re
import subprocess
import sys

NEWEST_GLIBC = (2, 34)
MOST_TLS = 256  # of all files together that come into programs
# Of the compiler's own libraries, which may be older elsewhere.
NOT_SHARED = ("libstdc++.so", "libgcc_s.so")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def faults_of(path):
    for name in re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-dW", path)):
        if name.startswith(NOT_SHARED):
            yield f"{path} needs {name}"
    versions = set(re.findall(r"Name: (\w+?)_([0-9.]+)", output("readelf", "-VW", path)))
    if not any(library == "GLIBC" for library, _ in versions):
        yield f"{path}: no version of glibc found: readelf is not understood"
    for library, version in sorted(versions):
        if library in ("GLIBCXX", "CXXABI", "GCC"):
            yield f"{path} needs {library}_{version}"
        if library == "GLIBC" and tuple(map(int, version.split("."))) > NEWEST_GLIBC:
            yield f"{path} needs glibc {version}"


def tls_of(path):
    """Bytes of the segment of thread-local memory."""
    found = re.findall(r"^\s+TLS(?:\s+0x[0-9a-f]+){4}\s+(0x[0-9a-f]+)", output("readelf", "-lW", path), re.M)
    return sum(int(size, 16) for size in found)


def main():
    split = sys.argv.index("--")
    into_programs, others = sys.argv[1:split], sys.argv[split + 1:]
    wrong = [fault for path in into_programs + others for fault in faults_of(path)]
    tls = {path: tls_of(path) for path in into_programs}
    if sum(tls.values()) > MOST_TLS:
        wrong.append(f"thread-local memory of {tls}: more than {MOST_TLS} bytes")
    print("\n".join(wrong) or f"{len(into_programs + others)} files; thread-local: {tls}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
