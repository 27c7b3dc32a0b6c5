#!/usr/bin/env python3
"""Makes the forwarding stubs of libcupola.so from calls.def, hooks.def and the driver's exports.

Writes into --out: stubs.S (one trampoline per export), calls.inc (X-macro: the rows of calls.def, and one
with all defaults for each export that has none), forms.inc (X-macro: name for cuGetProcAddress, version and
stream form of each watched call), stream_arguments.inc (X-macro: which argument of a call is its stream),
signatures.inc (X-macro: the type of each call, in the order of calls.inc),
exports.map (the linker's export map). Run by the build; nothing of it is committed. Ends with a message for
each fault of calls.def, and writes nothing then.
"""
import argparse
import pathlib
import re
import subprocess

DOOR = ["cupola_handle_for"]  # door/door.h
COLUMNS = ("HOOK", "LAUNCH_HOOK", "WAITS", "TASKS", "HOLDS", "ENDS", "MAKES_MEMORY", "MAY_JOIN")  # in this order
LOOKED_AT = {  # for each class
    "kPure": {"HOOK"},
    "kStreamOrdered": {"HOOK", "LAUNCH_HOOK", "TASKS", "HOLDS", "ENDS", "MAY_JOIN"},
    "kMayWait": {"HOOK", "WAITS", "TASKS", "HOLDS", "ENDS", "MAKES_MEMORY"},
}


class Row:
    """A row of calls.def. `columns`: pairs of a name and a value, which is "" where a column has none."""

    def __init__(self, name, call_class="kMayWait", columns=()):
        self.name, self.call_class, self.columns = name, call_class, list(columns)

    def names(self):
        return [name for name, _ in self.columns]

    def hook(self):
        """As hooks.def has it: "HOOK", "LAUNCH_HOOK" or None."""
        return next((kind for kind in ("HOOK", "LAUNCH_HOOK") if kind in self.names()), None)

    def text(self):
        columns = [name + (f"({value})" if value else "") for name, value in self.columns]
        return f"CUPOLA_CALL({', '.join([self.name, self.call_class, *columns])})"


def read_calls(text):
    """The rows of calls.def, in its order. What is no row or comment there is an error."""
    rows = []
    for line in text.splitlines():
        match = re.fullmatch(r"CUPOLA_CALL\((\w+), (\w+)((?:, \w+(?:\(\w+\))?)*)\)", line)
        if match:
            columns = re.findall(r", (\w+)(?:\((\w+)\))?", match.group(3))
            rows.append(Row(match.group(1), match.group(2), columns))
        elif line and not line.startswith("//"):
            raise SystemExit(f"stubs.py: not a row of calls.def: {line}")
    return rows


def read_hooks(text):
    """The hooks of hooks.def: name to "HOOK" or "LAUNCH_HOOK"."""
    return {name: kind for kind, name in re.findall(r"^CUPOLA_((?:LAUNCH_)?HOOK)\((\w+),", text, re.M)}


def faults_of_row(row, hooks):
    columns = row.names()
    if row.call_class not in LOOKED_AT:
        yield f"there is no class {row.call_class}"
    elif unseen := sorted(set(columns) - LOOKED_AT[row.call_class]):
        yield f"{', '.join(unseen)} is not looked at for {row.call_class}"
    if columns != [name for name in COLUMNS if name in columns]:
        yield f"not each column once, in the order {', '.join(COLUMNS)}"
    if "LAUNCH_HOOK" in columns and len(columns) > 1:
        yield "no other column is looked at for LAUNCH_HOOK"
    if row.hook() != hooks.get(row.name):
        yield f"calls.def says {row.hook() or 'no hook'}, hooks.def {hooks.get(row.name) or 'no hook'}"


def faults_of(rows, hooks):
    """What is wrong about the table, as messages. Values of columns are checked by the compiler."""
    names = [row.name for row in rows]
    for row in rows:
        yield from (f"{row.name}: {fault}" for fault in faults_of_row(row, hooks))
    for before, name in zip(names, names[1:]):
        if before >= name:
            yield f"{name}: listed twice, or not in alphabetical order"
    for name in sorted(set(hooks) - set(names)):
        yield f"{name}: has a hook, and no row in calls.def"


def exports_of(library, nm):
    text = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True,
                          text=True).stdout
    return {line.split()[2].split("@")[0] for line in text.splitlines() if line.split()[1] in "TW"}


def launch_text(name, index):
    """The hook of a launch call: three instructions in one cache line when nothing is recorded.
    2 is RecordingState::kOff (recorder.h)."""
    return [f"    .globl hook_{name}", f"    .hidden hook_{name}", f"    .hidden recorded_{name}",
            f"    .type hook_{name},@function", "    .p2align 5", f"hook_{name}:", "    endbr64",
            "    cmpb $2, cupola_recording_state(%rip)", f"    jne recorded_{name}",
            f"    jmp *cupola_real+{8 * index}(%rip)", f"    .size hook_{name},.-hook_{name}"]


def watched_text(row, index):
    """The entry of a call that is looked at while `cupola_watched` is not 0 (process/participation.h)."""
    target = f"hook_{row.name}" if row.hook() else f"*cupola_real+{8 * index}(%rip)"
    keep = ([f"    leaq hook_{row.name}(%rip), %r11", "    pushq %r11"] if row.hook() else
            [f"    pushq cupola_real+{8 * index}(%rip)"])
    kind = "stream_ordered" if row.call_class == "kStreamOrdered" else "may_wait"
    # kTakesPartBit is bit 30: most stream-ordered calls are looked at only behind a guard, or what the
    # program holds.
    is_always = kind == "may_wait" or dict(row.columns).get("HOLDS") in ("kHolds", "kHoldsIfItWaits")
    test = "cmpl $0, cupola_watched(%rip)" if is_always else "testl $0x3fffffff, cupola_watched(%rip)"
    return ["    endbr64", f"    {test}", f"    jne .Lwatched{index}",
            f"    jmp {target}", f".Lwatched{index}:", *keep,
            f"    pushq ${index}", f"    jmp cupola_{kind}_call"]


def stub_text(rows):
    lines = ["    .text", "    .hidden cupola_recording_state", "    .hidden cupola_watched"]
    for index, row in enumerate(rows):
        if row.hook() == "LAUNCH_HOOK":
            lines += launch_text(row.name, index)
    for index, row in enumerate(rows):
        name = row.name
        is_launch = row.hook() == "LAUNCH_HOOK"
        lines += [f"    .globl {name}", f"    .type {name},@function", "    .p2align 4", f"{name}:"]
        if not is_launch and row.call_class != "kPure":
            lines += watched_text(row, index)
        else:
            target = f"hook_{name}" if row.hook() else f"*cupola_real+{8 * index}(%rip)"
            lines += ["    endbr64", f"    jmp {target}"]
        lines += [f"    .size {name},.-{name}"]
        # What cuGetProcAddress gives out for it.
        entry = f"hook_{name}" if is_launch else name
        lines += [f"    .globl entry_{name}", f"    .hidden entry_{name}",
                  f"    .set entry_{name}, {entry}"]
    for index, _ in enumerate(rows):
        lines += [f".Llazy{index}:", "    endbr64", f"    pushq ${index}",
                  "    jmp cupola_lazy_call"]
    lines += ["    .data", "    .p2align 6", "    .globl cupola_real", "    .hidden cupola_real",
              "    .type cupola_real,@object", "cupola_real:"]
    lines += [f"    .quad .Llazy{index}" for index, _ in enumerate(rows)]
    lines += [f"    .size cupola_real,{8 * len(rows)}",
              '    .section .note.GNU-stack,"",@progbits', ""]
    return "\n".join(lines)


def forms_of(typedefs, names):
    """(export, name, version, is per thread) of every form that cudaTypedefs.h knows: exports add _v2,
    _v3 ... in the order of the versions, and the newest typedef is the newest export."""
    versions = {}
    for name, version, suffix in re.findall(r"PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)", typedefs):
        versions.setdefault((name, suffix), set()).add(int(version))
    for (name, suffix), known in sorted(versions.items()):
        exports = [name + form + suffix for form in [f"_v{n}" for n in range(9, 1, -1)] + [""]
                   if name + form + suffix in names]
        for export, version in zip(exports, sorted(known, reverse=True)):
            yield export, name, version, suffix != ""


def stream_arguments_of(typedefs, names):
    """(export, which argument is its stream) of every form that has one. No argument of these takes more
    than one register, or one word of the stack."""
    parameters = {(name, version, suffix): text.split(",") for name, version, suffix, text in
                  re.findall(r"PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)\((.*)\);", typedefs)}
    for export, name, version, _ in forms_of(typedefs, names):
        suffix = re.search(r"(_pt[sd][sz])?$", export).group(0)
        for at, text in enumerate(parameters.get((name, str(version), suffix), [])):
            if re.match(r"\s*CUstream \w+$", text):
                yield export, at


def signatures_of(typedefs, names):
    """A line for each export: its typedef, or how many words it takes of the stack."""
    known = {export: f"PFN_{name}_v{version}{re.search('(_pt[sd][sz])?$', export).group(0)}"
             for export, name, version, _ in forms_of(typedefs, names)}
    for name in names:
        if name in known:
            yield f"CUPOLA_SIGNATURE({name}, {known[name]})"
        else:  # those of cudaProfiler.h have three arguments at most
            yield f"CUPOLA_STACK_WORDS({name}, {0 if name.startswith('cuProfiler') else 'kUnknown'})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=pathlib.Path, required=True)
    parser.add_argument("--hooks", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--library", help="the toolkit's stub libcuda.so, for exports that have "
                                          "no row in calls.def")
    parser.add_argument("--typedefs", type=pathlib.Path, required=True,
                        help="the toolkit's cudaTypedefs.h")
    parser.add_argument("--nm", default="nm")
    args = parser.parse_args()

    listed = read_calls(args.calls.read_text())
    faults = list(faults_of(listed, read_hooks(args.hooks.read_text())))
    if faults:
        raise SystemExit("\n".join(f"stubs.py: {fault}" for fault in faults))
    by_name = {row.name: row for row in listed}
    names = set(by_name)
    if args.library:
        names |= exports_of(args.library, args.nm)
    names = sorted(names)
    rows = [by_name.get(name, Row(name)) for name in names]
    watched = {row.name for row in rows if not row.hook() and row.call_class != "kPure"}

    args.out.mkdir(parents=True, exist_ok=True)
    typedefs = args.typedefs.read_text()
    (args.out / "stubs.S").write_text(stub_text(rows))
    (args.out / "forms.inc").write_text("".join(
        f'CUPOLA_FORM({export}, "{name}", {version}, {"kPerThread" if per_thread else "kAnyStream"})\n'
        for export, name, version, per_thread in forms_of(typedefs, set(names)) if export in watched))
    (args.out / "stream_arguments.inc").write_text("".join(
        f"CUPOLA_STREAM_ARGUMENT({export}, {at}, {'true' if export.endswith('_ptsz') else 'false'})\n"
        for export, at in stream_arguments_of(typedefs, set(names))))
    (args.out / "signatures.inc").write_text("\n".join(signatures_of(typedefs, names)) + "\n")
    (args.out / "calls.inc").write_text("".join(row.text() + "\n" for row in rows))
    (args.out / "exports.map").write_text(
        "{\n  global:\n" + "".join(f"    {name};\n" for name in DOOR + names) +
        "  local: *;\n};\n")


if __name__ == "__main__":
    main()
