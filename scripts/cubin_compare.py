"""Compares what ptxas makes of PTX texts, for scripts/roundtrip and scripts/roundtrip-all. No state; any
number of processes.

Two cubins are the same when every section has the same header facts and the same bytes, in the same
order. Left out is what tells about the lines of the PTX text: sections with "debug" in their name and
the places of sections in the file, which move with those; where the hash of a debug section or the
line of a declaration is part of a name, that part.
"""
import hashlib
import os
import re
import struct
import subprocess

SECTION_HEADER = "<IIQQQQIIQQ"
SYMTAB, STRTAB = 2, 3
NOBITS, SHARED = 8, 0x7000000A  # at their offset in the file are bytes of other sections
# Words in the option string of a fatbin image that are for other tools than ptxas.
NOT_FOR_PTXAS = re.compile(r'--ext-desc-file="?[^" ]*"?|(?<!\S)-v(?!\S)')
# Targets that older toolkits made PTX for; PTX is good for any later target.
OLDEST_TARGET = "sm_75"


def is_debug(name):
    return "debug" in name


def read_sections(cubin, without_bytes):
    """[(name, facts, bytes)] of all sections of a 64-bit ELF, in order."""
    offset, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from(SECTION_HEADER, cubin, offset + i * size) for i in range(count)]
    table = headers[names][4]
    found = []
    for name, kind, flags, address, start, length, link, info, align, entry in headers:
        text = string_at(cubin, table + name)
        body = b"" if kind in without_bytes else cubin[start:start + length]
        found.append((text, (kind, flags, address, length, link, info, align, entry), body))
    return found


def string_at(table, offset):
    return table[offset:table.index(b"\0", offset)].decode(errors="replace")


def digest(cubin):
    """One hash over all sections but the debug ones, string tables and all: equal hashes are proof."""
    total = hashlib.sha256()
    for name, facts, body in read_sections(cubin, (NOBITS,)):
        if is_debug(name):
            continue
        total.update(repr((name, facts)).encode())
        total.update(body)
    return total.hexdigest()[:32]


def without_line(name, lines):
    """A name without the hash of a debug section's text or the line of a variable's declaration, which
    ptxas puts into the names of shared variables of -rdc units."""
    if is_debug(name):
        return re.sub(r"\.\d+$", "", name)
    local = re.fullmatch(r"(\$__.*__)(\d+)", name)
    if local:
        number = int(local.group(2))
        if number <= len(lines) and b".shared" in lines[number - 1]:
            return local.group(1) + "LINE"
    return name


def compared(cubin, text):
    """[(name, what counts of it)] for each section that is compared. String tables count by what the
    symbols take from them, symbols by name, facts and the name of their section."""
    lines = text.split(b"\n")
    every = read_sections(cubin, (NOBITS, SHARED))
    found = []
    for name, facts, body in every:
        if is_debug(name) or facts[0] == STRTAB:
            continue
        if facts[0] == SYMTAB:
            table = every[facts[4]][2]
            symbols = []
            for at in range(0, len(body), 24):
                start, info, other, place, value, size = struct.unpack_from("<IBBHQQ", body, at)
                section = every[place][0] if place < len(every) else place
                debug = isinstance(section, str) and is_debug(section)
                symbols.append((without_line(string_at(table, start), lines), info, other,
                                without_line(section, lines) if isinstance(section, str) else place,
                                value, 0 if debug else size))
            body = symbols
        found.append((name, (facts, body)))
    return found


def differing_sections(first, first_text, second, second_text):
    """Names of the sections that are not the same in two cubins, made of these texts; "order" where
    only that differs."""
    def keyed(found):
        numbered, counts = {}, {}
        for name, content in found:
            counts[name] = counts.get(name, 0) + 1
            numbered[(name, counts[name])] = content
        return numbered
    a, b = keyed(compared(first, first_text)), keyed(compared(second, second_text))
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


def ptxas_version(ptxas):
    """"13.0.88"."""
    run = subprocess.run([ptxas, "--version"], capture_output=True, text=True)
    found = re.search(r"\bV([\d.]+)", run.stdout)
    return found.group(1) if found else "unknown"


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
