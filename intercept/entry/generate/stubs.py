#!/usr/bin/env python3
"""Makes the forwarding stubs of libcupola.so from classes.def, hooks.def and the driver's exports.

Writes into --out: stubs.S (one trampoline per export), calls.inc (X-macro: index, name, class),
forms.inc (X-macro: name for cuGetProcAddress, version and stream form of each watched call),
stream_arguments.inc (X-macro: which argument of a call is its stream),
signatures.inc (X-macro: the type of each call, in the order of calls.inc),
exports.map (the linker's export map). Run by the build; nothing of it is committed.
"""
import argparse
import pathlib
import re
import subprocess

DOOR = ["cupola_handle_for"]  # door/door.h


def read_classes(path):
    return dict(re.findall(r"^CUPOLA_CALL\((\w+), (\w+)\)", path.read_text(), re.M))


def read_hooks(path, kind="(?:LAUNCH_)?HOOK"):
    return set(re.findall(rf"^CUPOLA_{kind}\((\w+),", path.read_text(), re.M))


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


HAS_HOOK = 1 << 30  # waiting_rules.cpp
# Calls behind which a stream waits for the program (calls/hold_rules.cpp): looked at in every process
# that takes part.
HOLDS = ("cuLaunchHostFunc", "cuStreamAddCallback", "cuStreamWaitValue", "cuStreamBatchMemOp",
         "cuWaitExternalSemaphoresAsync")


def watched_text(name, index, hooks, call_class):
    """The entry of a call that is looked at while `cupola_watched` is not 0 (preemption.h)."""
    hooked = name in hooks
    target = f"hook_{name}" if hooked else f"*cupola_real+{8 * index}(%rip)"
    keep = ([f"    leaq hook_{name}(%rip), %r11", "    pushq %r11"] if hooked else
            [f"    pushq cupola_real+{8 * index}(%rip)"])
    kind = "stream_ordered" if call_class == "kStreamOrdered" else "may_wait"
    # kTakesPartBit is bit 30: most stream-ordered calls are looked at only behind a guard, or what the
    # program holds.
    is_always = kind == "may_wait" or name.startswith(HOLDS)
    test = "cmpl $0, cupola_watched(%rip)" if is_always else "testl $0x3fffffff, cupola_watched(%rip)"
    return ["    endbr64", f"    {test}", f"    jne .Lwatched{index}",
            f"    jmp {target}", f".Lwatched{index}:", *keep,
            f"    pushq ${index | (HAS_HOOK if hooked else 0)}", f"    jmp cupola_{kind}_call"]


def stub_text(names, hooks, launches, class_of):
    lines = ["    .text", "    .hidden cupola_recording_state", "    .hidden cupola_watched"]
    for index, name in enumerate(names):
        if name in launches:
            lines += launch_text(name, index)
    for index, name in enumerate(names):
        lines += [f"    .globl {name}", f"    .type {name},@function", "    .p2align 4", f"{name}:"]
        if name not in launches and class_of(name) != "kPure":
            lines += watched_text(name, index, hooks, class_of(name))
        else:
            target = f"hook_{name}" if name in hooks else f"*cupola_real+{8 * index}(%rip)"
            lines += ["    endbr64", f"    jmp {target}"]
        lines += [f"    .size {name},.-{name}"]
        # What cuGetProcAddress gives out for it.
        entry = f"hook_{name}" if name in launches else name
        lines += [f"    .globl entry_{name}", f"    .hidden entry_{name}",
                  f"    .set entry_{name}, {entry}"]
    for index, _ in enumerate(names):
        lines += [f".Llazy{index}:", "    endbr64", f"    pushq ${index}",
                  "    jmp cupola_lazy_call"]
    lines += ["    .data", "    .p2align 6", "    .globl cupola_real", "    .hidden cupola_real",
              "    .type cupola_real,@object", "cupola_real:"]
    lines += [f"    .quad .Llazy{index}" for index, _ in enumerate(names)]
    lines += [f"    .size cupola_real,{8 * len(names)}",
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
    parser.add_argument("--classes", type=pathlib.Path, required=True)
    parser.add_argument("--hooks", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--library", help="the toolkit's stub libcuda.so, for exports newer than "
                                          "classes.def")
    parser.add_argument("--typedefs", type=pathlib.Path, required=True,
                        help="the toolkit's cudaTypedefs.h")
    parser.add_argument("--nm", default="nm")
    args = parser.parse_args()

    classes = read_classes(args.classes)
    hooks = read_hooks(args.hooks)
    names = set(classes)
    if args.library:
        names |= exports_of(args.library, args.nm)
    names = sorted(names)
    missing = hooks - set(names)
    if missing:
        raise SystemExit("stubs.py: hooks of calls that the driver does not export: "
                         f"{sorted(missing)}")

    args.out.mkdir(parents=True, exist_ok=True)
    launches = read_hooks(args.hooks, "LAUNCH_HOOK")
    def class_of(name):
        return classes.get(name, "kMayWait")
    (args.out / "stubs.S").write_text(stub_text(names, hooks, launches, class_of))
    (args.out / "forms.inc").write_text("".join(
        f'CUPOLA_FORM({export}, "{name}", {version}, {"kPerThread" if per_thread else "kAnyStream"})\n'
        for export, name, version, per_thread in forms_of(args.typedefs.read_text(), set(names))
        if export not in hooks and class_of(export) != "kPure"))
    (args.out / "stream_arguments.inc").write_text("".join(
        f"CUPOLA_STREAM_ARGUMENT({export}, {at}, {'true' if export.endswith('_ptsz') else 'false'})\n"
        for export, at in stream_arguments_of(args.typedefs.read_text(), set(names))))
    (args.out / "signatures.inc").write_text(
        "\n".join(signatures_of(args.typedefs.read_text(), names)) + "\n")
    (args.out / "calls.inc").write_text("".join(
        f"CUPOLA_CALL({name}, {classes.get(name, 'kMayWait')})\n" for name in names))
    (args.out / "exports.map").write_text(
        "{\n  global:\n" + "".join(f"    {name};\n" for name in DOOR + names) +
        "  local: *;\n};\n")


if __name__ == "__main__":
    main()
