#!/usr/bin/env python3
"""Writes the forwarding exports of older_driver.cpp.

usage: generate.py NAMES cudaTypedefs.h OUT [OTHER]...

NAMES lists the calls that the driver exports, one a line. OTHER: names that are exported as well, such as the functions
by which tests look into the null driver. Writes into the folder OUT: exports.S (a jump through older_real[i] for each
name), names.inc (OLDER_EXPORT(name), in the order of older_real), entries.inc (OLDER_ENTRY(name for cuGetProcAddress,
version, whether per thread, export)) and exports.map.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "intercept/entry/generate"))
import stubs  # noqa: E402

OWN = ("cuDriverGetVersion", "cuGetProcAddress", "cuGetProcAddress_v2")  # older_driver.cpp has them


def main():
    names_path, typedefs_path, out = (pathlib.Path(name) for name in sys.argv[1:4])
    listed = [line for line in names_path.read_text().splitlines() if line and not line.startswith("#")]
    forwarded = [name for name in listed + sys.argv[4:] if name not in OWN]
    lines = ["    .text"]
    for index, name in enumerate(forwarded):
        lines += [f"    .globl {name}", f"    .type {name},@function", f"{name}:",
                  f"    jmp *older_real+{8 * index}(%rip)", f"    .size {name},.-{name}"]
    lines += ["    .hidden older_real", '    .section .note.GNU-stack,"",@progbits', ""]
    out.mkdir(parents=True, exist_ok=True)
    (out / "exports.S").write_text("\n".join(lines))
    (out / "names.inc").write_text("".join(f"OLDER_EXPORT({name})\n" for name in forwarded))
    # From 12.0 on the name cuGraphInstantiate means the form with flags (intercept/entry/hooks.def).
    entries = [*stubs.forms_of(typedefs_path.read_text(), set(listed)),
               ("cuGraphInstantiateWithFlags", "cuGraphInstantiate", 12000, False)]
    (out / "entries.inc").write_text("".join(
        f'OLDER_ENTRY("{name}", {version}, {"true" if per_thread else "false"}, {export})\n'
        for export, name, version, per_thread in entries))
    (out / "exports.map").write_text("{\n  global:\n" + "".join(f"    {name};\n" for name in listed + sys.argv[4:]) +
                                     "  local: *;\n};\n")


if __name__ == "__main__":
    main()
