#!/usr/bin/env python3
"""Checks that docs/limits.md names every reason for which a launch stays plain, in the words of the log.

Usage: reasons.py ROOT
Prints one line per reason that is missing and exits 1 if there is any.
"""
import pathlib
import re
import sys

TABLES = {"intercept/launch/launch_counters.h": "kPlainReasonWords", "intercept/tasks/tasks.h": "kNoTaskWords"}


def words_of(text, table):
    body = re.search(rf"{table}\[[^=]*= \{{(.*?)\}};", text, re.DOTALL)
    return re.findall(r"\"([^\"]+)\"", body[1])


def main():
    root = pathlib.Path(sys.argv[1])
    page = " ".join((root / "docs/limits.md").read_text().split())
    cells = {word.strip() for row in re.findall(r"\| ([^|]+) \|", page) for word in re.split(r",|\*\*", row)}
    missing = 0
    for path, table in TABLES.items():
        words = words_of((root / path).read_text(), table)
        assert len(words) > 10, f"{path}: {table} is not found"
        for word in words:
            if word not in cells:
                print(f"docs/limits.md does not name \"{word}\" ({table} in {path})")
                missing += 1
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
