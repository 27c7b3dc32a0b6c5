#!/usr/bin/env python3
"""Checks that every setting stands in the table base/settings/table.h, and is read by it.

Usage: settings_rules.py ROOT
- No source reads a variable by getenv("CUPOLA_..."): base/settings/variables.h is the way.
- Every variable that a source, a test or a script names is a row of the table.
- Every row is named outside the table: a setting that nobody reads is none.
Prints one line per violation and exits 1 if there is any.
"""
import pathlib
import re
import sys

HOME = "base/settings/"
CODE = {".h", ".cpp", ".cu", ".cuh", ".c"}
SCRIPTS = {".py", ".sh", ""}
ROW = re.compile(r'\.name = "([^"]+)"')
READ = re.compile(r'(getenv|Environment)\(\s*"CUPOLA_')  # Environment: what some sources call their own getenv
# How code names a variable: as a whole text, or with = behind it.
IN_CODE = re.compile(r'"(CUPOLA_[A-Z0-9_]*[A-Z0-9])[="]')
# How scripts do: in quotes, set (NAME=, name=value of a call), or with a dollar sign.
IN_SCRIPT = re.compile(r'''["'](CUPOLA_[A-Z0-9_]*[A-Z0-9])["']|\b(CUPOLA_[A-Z0-9_]*[A-Z0-9])=(?!=)|\$\{?(CUPOLA_[A-Z0-9_]*[A-Z0-9])''')
# Options of CMake, of which scripts speak too.
OPTIONS = {"CUPOLA_BUILD_APPS", "CUPOLA_BUILD_FUZZERS", "CUPOLA_BUILD_TESTS", "CUPOLA_CUDA_HOME", "CUPOLA_CUDA_INCLUDE_DIR",
           "CUPOLA_GPU_TESTS", "CUPOLA_NVCC", "CUPOLA_PTXAS", "CUPOLA_SANITIZE"}
MADE_UP = {"CUPOLA_PREMPT"}  # by tests of what is said of a name that is not in the table
ABOUT_THE_TABLE = {"tests/unit/base/settings_test.cpp", "tests/cli/settings_test.py", "tests/tree/settings_rules.py"}


def names_in(path, text):
    """(line number, name) of the variables that a file names."""
    pattern = IN_CODE if pathlib.PurePath(path).suffix in CODE else IN_SCRIPT
    for number, line in enumerate(text.splitlines(), 1):
        for match in pattern.finditer(line):
            yield number, next(filter(None, match.groups()))


def violations_of(path, text, rows):
    found = [f"{path}:{number}: a variable is read past the table: use base/settings/variables.h"
             for number, line in enumerate(text.splitlines(), 1) if READ.search(line)]
    return found + [f"{path}:{number}: {name} is not in base/settings/table.h"
                    for number, name in names_in(path, text) if name not in rows | OPTIONS | MADE_UP]


def self_test():
    rows = {"CUPOLA_LOG"}
    assert violations_of("a.cpp", 'std::getenv("CUPOLA_LOG");', rows)
    assert violations_of("a.cpp", 'settings::Word("CUPOLA_LOG");\n#ifndef CUPOLA_A_H_\n', rows) == []
    assert violations_of("a.cpp", 'Environment("CUPOLA_LOG");', rows)
    assert violations_of("a.cpp", 'Set("CUPOLA_LAG", 1);', rows)
    assert violations_of("a.cpp", 'Set("CUPOLA_LAG=1");', rows)
    assert violations_of("a.py", 'environ["CUPOLA_LAG"]', rows)
    assert violations_of("a.py", 'run(CUPOLA_LAG="1")', rows)
    assert violations_of("a.sh", 'export CUPOLA_LAG=1', rows)
    assert violations_of("a.sh", 'if [ "${CUPOLA_LAG:-0}" = 1 ]', rows)
    assert violations_of("a.sh", 'CUPOLA_LOG=info "$CUPOLA" run -DCUPOLA_SANITIZE=ON', rows) == []


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    rows = set(ROW.findall((root / HOME / "table.h").read_text()))
    messages, named = [], set()
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root).as_posix()
        is_script = path.suffix in SCRIPTS and (path.suffix or relative.startswith("scripts/"))
        if relative.startswith(("build/", ".", HOME)) or not path.is_file() or not (path.suffix in CODE or is_script):
            continue
        text = path.read_text(errors="replace")
        if relative not in ABOUT_THE_TABLE:
            messages += violations_of(relative, text, rows)
            named |= {row for row in rows if f'"{row}"' in text or (is_script and row in text)}
    messages += [f"{HOME}table.h: nothing reads {row}" for row in sorted(rows - named)]
    print("\n".join(messages) if messages else f"{len(rows)} settings, each in the table and read by it")
    return 1 if messages or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
