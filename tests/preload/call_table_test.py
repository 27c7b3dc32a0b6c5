#!/usr/bin/env python3
"""Faults that are planted in the table of driver calls are found: by the generator, which makes nothing then, and by
the comparison with the toolkit's exports (library_test.py).

usage: call_table_test.py stubs.py calls.def hooks.def cudaTypedefs.h
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import library_test


def generate(calls, stubs, hooks, typedefs):
    """Runs the generator with this table. Returns (exit code, messages, the files that it made)."""
    with tempfile.TemporaryDirectory() as folder:
        table, out = pathlib.Path(folder, "calls.def"), pathlib.Path(folder, "out")
        table.write_text(calls)
        run = subprocess.run([sys.executable, stubs, "--calls", table, "--hooks", hooks, "--typedefs", typedefs,
                              "--out", out], capture_output=True, text=True)
        made = {path.name: path.read_text() for path in out.glob("*")}
    return run.returncode, run.stderr, made


def changed(calls, name, rows):
    """The table with these lines for the row of a call."""
    row = re.compile(rf"^CUPOLA_CALL\({name}[,)].*\n", re.M)
    assert len(row.findall(calls)) == 1, f"the test is to be changed: calls.def has not one row of {name}"
    return row.sub(lambda _: rows, calls)


# For each fault: what is wrong, the call whose row is changed, what it becomes, and the message of the generator.
PLANTED = [
    ("a hook without a row", "cuModuleLoad", "",
     "cuModuleLoad: has a hook, and no row in calls.def"),
    ("a hook that the row does not have", "cuModuleLoad", "CUPOLA_CALL(cuModuleLoad, kMayWait)\n",
     "cuModuleLoad: calls.def says no hook, hooks.def HOOK"),
    ("a hook that only the row has", "cuMemFree_v2", "CUPOLA_CALL(cuMemFree_v2, kMayWait, HOOK)\n",
     "cuMemFree_v2: calls.def says HOOK, hooks.def no hook"),
    ("another kind of hook", "cuGraphLaunch", "CUPOLA_CALL(cuGraphLaunch, kStreamOrdered, HOOK)\n",
     "cuGraphLaunch: calls.def says HOOK, hooks.def LAUNCH_HOOK"),
    ("a class that there is not", "cuInit", "CUPOLA_CALL(cuInit, kWaits)\n",
     "cuInit: there is no class kWaits"),
    ("a column that there is not", "cuInit", "CUPOLA_CALL(cuInit, kMayWait, JOINS)\n",
     "cuInit: JOINS is not looked at for kMayWait"),
    ("a column that its class does not look at", "cuDeviceGet", "CUPOLA_CALL(cuDeviceGet, kPure, WAITS(kNone))\n",
     "cuDeviceGet: WAITS is not looked at for kPure"),
    ("a column of a launch", "cuGraphLaunch", "CUPOLA_CALL(cuGraphLaunch, kStreamOrdered, LAUNCH_HOOK, TASKS(kHook))\n",
     "cuGraphLaunch: no other column is looked at for LAUNCH_HOOK"),
    ("a column twice", "cuEventDestroy", "CUPOLA_CALL(cuEventDestroy, kMayWait, TASKS(kNone), TASKS(kWait))\n",
     "cuEventDestroy: not each column once"),
    ("columns in another order", "cuMemGetInfo", "CUPOLA_CALL(cuMemGetInfo, kMayWait, MAKES_MEMORY, WAITS(kNone))\n",
     "cuMemGetInfo: not each column once"),
    ("a row twice", "cuInit", "CUPOLA_CALL(cuInit, kMayWait)\nCUPOLA_CALL(cuInit, kPure)\n",
     "cuInit: listed twice"),
    ("a row elsewhere", "cuArray3DCreate", "CUPOLA_CALL(cuZ, kMayWait)\nCUPOLA_CALL(cuArray3DCreate, kMayWait)\n",
     "cuArray3DCreate: listed twice, or not in alphabetical order"),
    ("a line that is no row", "cuInit", "CUPOLA_CALL(cuInit kMayWait)\n",
     "not a row of calls.def"),
]


def main():
    stubs, calls_path, hooks, typedefs = sys.argv[1:]
    calls = pathlib.Path(calls_path).read_text()
    code, messages, made = generate(calls, stubs, hooks, typedefs)
    wrong = [] if code == 0 and "stubs.S" in made else [f"the table as it is: {messages}"]

    for what, name, rows, message in PLANTED:
        code, messages, made = generate(changed(calls, name, rows), stubs, hooks, typedefs)
        if code == 0 or made or message not in messages:
            wrong.append(f"{what}: exit code {code}, {len(made)} files made, messages: {messages}")

    # An export without a row is no fault of the table, so that a newer toolkit can be built with.
    names = set(re.findall(r"^CUPOLA_CALL\((\w+),", calls, re.M))
    without = changed(calls, "cuMemFree_v2", "")
    ours = names | library_test.LIBRARY
    if list(library_test.faults_of_rows(calls, ours, names)):
        wrong.append("the comparison finds a fault in the table as it is")
    if not any(fault.startswith("cuMemFree_v2: exported by the toolkit's library")
               for fault in library_test.faults_of_rows(without, ours - {"cuMemFree_v2"}, names)):
        wrong.append("an export of the toolkit that has no row is not found")
    if not any(fault.startswith("cuMemFree_v2: a row in calls.def, and not exported by the toolkit's library")
               for fault in library_test.faults_of_rows(calls, ours, names - {"cuMemFree_v2"})):
        wrong.append("a row of a call that the toolkit does not export is not found")

    print("\n".join(wrong) or f"{len(PLANTED) + 2} planted faults, all found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
