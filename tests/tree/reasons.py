#!/usr/bin/env python3
"""Checks that docs/limits.md lists the reasons of base/reasons.h, which is the only place where they are, in their
words, and that each of them is given somewhere.

Usage: reasons.py ROOT [--write]
Prints one line per difference and exits 1 if there is any. --write: writes the table of the page from the header.
"""
import pathlib
import re
import sys

ROW = re.compile(r'\{Reason::(k\w+), "([^"]*)",\s*"([^"]*)",\s*"([^"]*)"\}')
HEAD = "| reason | why | what to do |\n|---|---|---|\n"
TABLE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)+")


def rows_of(header):
    """(enumerator, words, sentence, remedy) of each reason."""
    return ROW.findall(header)


def table_of(rows):
    return HEAD + "".join(f"| {words} | {sentence} | {remedy} |\n" for _, words, sentence, remedy in rows)


def problems(root):
    rows = rows_of((root / "base/reasons.h").read_text())
    if len(rows) < 30:
        return [f"base/reasons.h: only {len(rows)} reasons are found"]
    found = []
    page = TABLE.search((root / "docs/limits.md").read_text())
    listed = page[0].splitlines() if page else []
    wanted = table_of(rows).splitlines()
    found += [f"docs/limits.md lacks: {line}" for line in wanted if line not in listed]
    found += [f"docs/limits.md has too much: {line}" for line in listed if line not in wanted]
    if not found and listed != wanted:
        found.append("docs/limits.md has the reasons in another order")
    code = "".join(path.read_text() for path in sorted((root / "intercept").rglob("*.cpp")))
    found += [f"base/reasons.h: nothing gives Reason::{name}" for name, *_ in rows if f"Reason::{name}" not in code]
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    if "--write" in sys.argv:
        page = root / "docs/limits.md"
        table = table_of(rows_of((root / "base/reasons.h").read_text()))
        page.write_text(TABLE.sub(lambda _: table, page.read_text()))
    found = problems(root)
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
