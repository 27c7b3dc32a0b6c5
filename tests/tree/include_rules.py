#!/usr/bin/env python3
"""Checks the tree's include rules: which folder may include which.

Usage: include_rules.py ROOT [--self-test]
Prints one line per violation and exits 1 if there is any. The table is the one of
docs/architecture.md.
"""
import pathlib
import re
import sys

# Inside intercept/ each layer may include those before it. Those of one line are beside each other, and may not.
LAYERS = (("process",), ("facts",), ("record",), ("images",), ("launch",), ("preempt", "tasks", "graphs"), ("batches",),
          ("path", "calls"), ("entry",))


def intercept_rules():
    outside = ["base", "sched", "sched/board", "models", "profiles", "profiles/report", "device/runtime",
               "device/compiler/store"]
    rules, below = {}, []
    for layer in LAYERS:
        for name in layer:
            rules[f"intercept/{name}"] = outside + [f"intercept/{each}" for each in below]
        below = below + list(layer)
    rules["intercept/door"] = ["base", "intercept/process"]
    rules["intercept/cupti"] = ["base", "profiles", "models", "intercept/process", "intercept/facts", "intercept/record"]
    return rules


INTERCEPT = intercept_rules()

# folder -> folders it may include besides itself. The longest matching prefix names a file's
# folder.
RULES = {
    "base": [],
    "profiles": ["base"],
    "profiles/report": ["base", "profiles"],
    "models": ["base", "profiles"],
    "models/train": ["base", "profiles", "models"],
    "sched": ["base", "models", "profiles"],
    "sched/board": ["base", "sched", "device/runtime"],
    "sched/daemon": ["base", "sched", "sched/board", "models", "profiles", "device/runtime"],
    "device/compiler/fatbin": ["base"],
    "device/compiler/ptx": ["base"],
    "device/compiler/passes": ["base", "device/compiler/ptx", "device/runtime"],
    "device/compiler/store": ["base"],
    "device/compiler/build": ["base", "device/compiler/fatbin", "device/compiler/ptx",
                              "device/compiler/passes", "device/compiler/store", "device/runtime"],
    "device/compiler": ["base", "device/compiler/fatbin", "device/compiler/ptx"],
    "device/runtime": ["base"],
    "device/sim/token": ["base"],
    "device/sim/exec": ["base", "device/compiler", "device/compiler/fatbin", "device/compiler/ptx",
                        "device/sim/token"],
    "device/sim/stepped": ["base", "device/compiler", "device/compiler/fatbin",
                           "device/compiler/ptx", "device/sim/exec"],
    "device/sim/driver": ["base", "device/compiler", "device/compiler/fatbin",
                          "device/compiler/ptx", "device/sim/token", "device/sim/exec"],
    "device/sim/cudart": ["base"],
    **INTERCEPT,
    "include/cupola": ["device/runtime"],
    "examples": ["include/cupola"],
    "cli": ["*"],
    "tests": ["*"],
}
# Nothing includes these: the preloaded library and the command are ends, not parts.
ENDS = ("intercept", "cli")
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".c", ".S"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def folder_of(path):
    """The rule that a root-relative path, or one as programs include it, falls under, or None."""
    if path.startswith("cupola/"):
        path = "include/" + path
    best = None
    for folder in RULES:
        if path.startswith(folder + "/") and (best is None or len(folder) > len(best)):
            best = folder
    return best


def violations_of(path, text):
    """Messages for one source file; `path` is relative to the root, with slashes."""
    home = folder_of(path)
    if home is None:
        return [f"{path}: in no folder of the table"]
    allowed = RULES[home]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = folder_of(match.group(1))
        if target is None or target == home or "*" in allowed:
            continue
        if target.split("/")[0] in ENDS and home.split("/")[0] != target.split("/")[0]:
            found.append(f"{path}:{number}: nothing includes {target}/")
        elif target not in allowed:
            found.append(f"{path}:{number}: {home}/ may not include {target}/")
    return found


def self_test():
    assert violations_of("base/x.h", '#include "base/y.h"\n#include <vector>\n') == []
    assert violations_of("base/x.h", '#include "sched/y.h"\n')
    assert violations_of("sched/x.cpp", '#include "intercept/tasks/y.h"\n')
    assert violations_of("intercept/x.cpp", "")  # each is in a layer
    assert violations_of("intercept/process/x.cpp", '#include "intercept/facts/y.h"\n')
    assert violations_of("intercept/facts/x.cpp", '#include "intercept/process/y.h"\n') == []
    assert violations_of("intercept/record/x.cpp", '#include "intercept/tasks/y.h"\n')
    assert violations_of("intercept/preempt/x.cpp", '#include "intercept/entry/y.h"\n')
    assert violations_of("intercept/preempt/x.cpp", '#include "intercept/tasks/y.h"\n')
    assert violations_of("intercept/tasks/x.cpp", '#include "intercept/preempt/y.h"\n')
    assert violations_of("intercept/launch/x.cpp", '#include "intercept/preempt/y.h"\n')
    assert violations_of("intercept/path/x.cpp", '#include "intercept/calls/y.h"\n')
    assert violations_of("intercept/path/x.cpp", '#include "intercept/tasks/y.h"\n') == []
    assert violations_of("device/compiler/ptx/x.cpp", '#include "device/sim/exec/y.h"\n')
    assert violations_of("device/sim/driver/x.cpp", '#include "device/compiler/ptx/y.h"\n') == []
    assert violations_of("device/sim/exec/x.cpp", '#include "device/sim/token/gate.h"\n') == []
    assert violations_of("device/sim/token/x.cpp", '#include "device/sim/exec/device.h"\n')
    assert violations_of("device/sim/exec/x.cpp", '#include "device/sim/driver/y.h"\n')
    assert violations_of("device/sim/driver/x.cpp", '#include "device/sim/stepped/y.h"\n')
    assert violations_of("device/sim/cudart/x.cpp", '#include "base/result.h"\n') == []
    assert violations_of("device/sim/cudart/x.cpp", '#include "device/sim/exec/device.h"\n')
    assert violations_of("include/cupola/x.h", '#include "cupola/y.h"\n') == []
    assert violations_of("include/cupola/x.h", '#include "device/runtime/y.h"\n') == []
    assert violations_of("include/cupola/x.h", '#include "base/result.h"\n')
    assert violations_of("base/x.h", '#include "cupola/task.h"\n')
    assert violations_of("examples/x/x.cu", '#include "cupola/task.h"\n') == []
    assert violations_of("examples/x/x.cu", '#include "base/result.h"\n')
    assert violations_of("stray/x.cpp", "")


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    files = 0
    messages = []
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root).as_posix()
        if path.suffix not in SOURCES or relative.startswith(("build/", ".")):
            continue
        files += 1
        messages += violations_of(relative, path.read_text(errors="replace"))
    print("\n".join(messages) if messages else f"{files} files obey the include rules")
    return 1 if messages or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
