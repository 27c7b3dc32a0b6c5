"""What ptxas makes of PTX text, in a form that can be compared, for scripts/roundtrip and
scripts/roundtrip-all. No state; any number of processes.

Two cubins are the same when every section has the same header facts and the same bytes, in the same
order. Sections that tell about the PTX text itself (its lines: those with "debug" in their name) are
left out, and so are the places of sections in the file, which move with those.
"""
import hashlib
import os
import re
import struct
import subprocess

SECTION_HEADER = "<IIQQQQIIQQ"
NOBITS = 8
# What in an option string of a fatbin image concerns other tools than ptxas.
NOT_FOR_PTXAS = re.compile(r'--ext-desc-file="?[^" ]*"?|(?<!\S)-v(?!\S)')
# Targets that older toolkits made PTX for; PTX is good for any later target.
OLDEST_TARGET = "sm_75"


def is_debug(name):
    return "debug" in name


def sections(cubin):
    """[(name, facts, bytes)] of a 64-bit ELF in order, without the sections that are left out."""
    offset, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from(SECTION_HEADER, cubin, offset + i * size) for i in range(count)]
    table = headers[names][4]
    found = []
    for name, kind, flags, address, start, length, link, info, align, entry in headers:
        text = cubin[table + name:cubin.index(b"\0", table + name)].decode()
        if is_debug(text):
            continue
        body = b"" if kind == NOBITS else cubin[start:start + length]
        found.append((text, (kind, flags, address, length, link, info, align, entry), body))
    return found


def digest(cubin):
    """One hash over all that is compared."""
    total = hashlib.sha256()
    for name, facts, body in sections(cubin):
        total.update(repr((name, facts)).encode())
        total.update(body)
    return total.hexdigest()[:32]


def differing_sections(first, second):
    """Names of the sections that are not the same in both cubins; "order" where only that differs."""
    def keyed(cubin):
        numbered, counts = {}, {}
        for name, facts, body in sections(cubin):
            counts[name] = counts.get(name, 0) + 1
            numbered[(name, counts[name])] = (facts, body)
        return numbered
    a, b = keyed(first), keyed(second)
    names = sorted({key[0] for key in a.keys() | b.keys() if a.get(key) != b.get(key)})
    return names or (["order"] if list(a) != list(b) else [])


def target_of(text):
    """The architecture of PTX text and whether it asks for debug information."""
    line = re.search(r"^[ \t]*\.target[ \t]+([^\n/]+)", text, re.M)
    words = [word.strip() for word in line.group(1).split(",")] if line else []
    return (words[0] if words else ""), "debug" in words


def ptxas_options(text, image_options="", optimisation=None):
    """The options of ptxas for a module: its target, and what its fatbin image asks for."""
    target, debug = target_of(text)
    number = re.match(r"sm_(\d+)$", target)
    if number and int(number.group(1)) < int(OLDEST_TARGET[3:]):
        target = OLDEST_TARGET
    options = ["-arch=" + target] + NOT_FOR_PTXAS.sub("", image_options).split()
    if debug:
        options.append("-g")
    if optimisation is not None:
        options.append("-O%d" % optimisation)
    if not re.search(r"\.entry\b", text) and "--compile-only" not in options:
        options.append("--compile-only")
    return options


def compile_ptx(ptxas, text, options, folder, timeout):
    """(cubin, "") or (None, ptxas's first line of complaint). Raises TimeoutExpired.

    Cubins tell the command line that made them, so all are made by the same one."""
    source, cubin = os.path.join(folder, "module.ptx"), os.path.join(folder, "module.cubin")
    with open(source, "wb") as file:
        file.write(text)
    run = subprocess.run([ptxas, *options, "module.ptx", "-o", "module.cubin"], cwd=folder,
                         capture_output=True, text=True, errors="replace", timeout=timeout)
    if run.returncode == 0:
        with open(cubin, "rb") as file:
            return file.read(), ""
    lines = [line for line in (run.stderr + run.stdout).split("\n") if line.strip()]
    lines = [line for line in lines if "warning" not in line] or lines or ["no message"]
    return None, lines[0].replace("module.ptx", "").strip()[:300]
