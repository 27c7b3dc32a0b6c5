#!/usr/bin/env python3
"""Compares the driver calls that Cupola makes for itself with what the driver of CUDA 12.4 exports.

usage: own_calls_test.py ROOT cudaTypedefs.h exports_12_4.txt

A call that this driver lacks has a row in base/later_calls.h, which says what is off without it, and some code that looks
whether it is there. A row without such a call is a fault too. The hook of a later call may pass the program's own call on.
Faults that are planted here are found.
"""
import pathlib
import re
import sys

OLDEST = 12040


def sources(root):
    """path -> text of the library's sources."""
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted((root / "intercept").rglob("*"))
            if path.suffix in (".cpp", ".h")}


def own_calls(files):
    """call -> the file in which Cupola makes or names it."""
    calls = {}
    for path, text in files.items():
        for name in re.findall(r"(?:CUPOLA_CALL_REAL\(\s*|Call::k_|Find\(\w+, \")(cu[A-Z]\w+)", text):
            calls.setdefault(name, path)
    return calls


def passed_on_elsewhere(files):
    """(call, file) where CUPOLA_REAL, by which a hook passes the program's call on, stands outside the call's hook."""
    for path, text in files.items():
        hook = None
        for kind, name in re.findall(r"\b(hook_|CUPOLA_REAL\()(cu[A-Z]\w+)", text):
            if kind == "hook_":
                hook = name
            elif name != hook:
                yield name, path


def rows_of(text):
    """call -> since, of base/later_calls.h."""
    return {name: int(since) for name, since in re.findall(r'\{"(cu\w+)", (\d+),\s*"[^"]+"', text)}


def faults(files, table, exports, since):
    """What is wrong, as messages. `since`: call -> the version in which it came, where the toolkit's headers say it."""
    calls, rows, everything = own_calls(files), rows_of(table), "".join(files.values())
    for name, path in sorted(calls.items()):
        if name not in exports and name not in rows:
            yield f"{path}: {name} is not in CUDA 12.4, and has no row in base/later_calls.h"
    for name, path in sorted(passed_on_elsewhere(files)):
        if name not in exports:
            yield f"{path}: {name} is not in CUDA 12.4, and is called elsewhere than in its hook"
    for name, version in rows.items():
        if name not in calls:
            yield f"base/later_calls.h: {name} is not called"
        if name in exports or version <= OLDEST:
            yield f"base/later_calls.h: {name} is in CUDA 12.4"
        if since.get(name, version) != version:
            yield f"base/later_calls.h: {name} came with {since[name]}, not {version}"
        if f"IsLacking(Call::k_{name})" not in everything:
            yield f"base/later_calls.h: nobody looks whether the driver lacks {name}"


def main():
    root, typedefs, listed = (pathlib.Path(name) for name in sys.argv[1:])
    sys.path.insert(0, str(root / "intercept/entry/generate"))
    import stubs  # pylint: disable=import-outside-toplevel
    exports = {line for line in listed.read_text().splitlines() if line and not line.startswith("#")}
    known = {row.name for row in stubs.read_calls((root / "intercept/calls/calls.def").read_text())}
    since = {export: version for export, _, version, _ in stubs.forms_of(typedefs.read_text(), known)}
    files, table = sources(root), (root / "base/later_calls.h").read_text()
    wrong = list(faults(files, table, exports, since))
    wrong += [f"exports_12_4.txt: {name} has no row in calls.def" for name in sorted(exports - known)]
    wrong += [f"exports_12_4.txt: {name} came with {since[name]}" for name in sorted(exports)
              if since.get(name, 0) > OLDEST]

    planted = [
        (files | {"x.cpp": "CUPOLA_CALL_REAL(cuStreamGetDevice, PFN)(stream, &device)"}, table, "cuStreamGetDevice is not in"),
        (files | {"x.cpp": "get = Real<PFN>(Call::k_cuCtxGetDevice_v2);"}, table, "cuCtxGetDevice_v2 is not in"),
        (files | {"x.cpp": "void Other() { CUPOLA_REAL(cuCtxSynchronize_v2)(context); }"}, table, "elsewhere than in its hook"),
        (files, table.replace("cuCtxRecordEvent", "cuCtxWaitEvent"), "cuCtxWaitEvent is not called"),
        (files, table.replace("12050", "12060"), "cuCtxRecordEvent came with 12050"),
        ({path: text.replace("IsLacking(", "Is(") for path, text in files.items()}, table, "nobody looks"),
    ]
    for its_files, its_table, message in planted:
        if not any(message in fault for fault in faults(its_files, its_table, exports, since)):
            wrong.append(f"a planted fault is not found: {message}")
    calls = own_calls(files)
    print("\n".join(wrong) or f"{len(calls)} calls of Cupola's own; later than CUDA 12.4: {', '.join(rows_of(table))}; "
                              f"{len(known - exports)} calls of the table are later")
    return 1 if wrong or len(calls) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
