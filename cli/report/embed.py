#!/usr/bin/env python3
"""Puts the parts of the page of `cupola report` together, and writes them as a C++ source.

Usage: embed.py FOLDER OUT.cpp     FOLDER: the template page.html, style.css and scripts, of which the template names
                                   each as @NAME@

A raw string of C++ may not hold its own end, and compilers take only so long a one, so the page is cut into pieces.
"""
import pathlib
import re
import sys

PIECE = 8000
HEAD = """#include "cli/report/page.h"

namespace cupola::report {

std::string_view PageTemplate() {
  static constexpr char kText[] =
"""
TAIL = """;
  return {kText, sizeof(kText) - 1};
}

}  // namespace cupola::report
"""


def page_of(folder):
    page = (folder / "page.html").read_text(encoding="utf-8")
    # No part may hold what would end the element that it becomes the text of.
    for name in re.findall(r"@(\w+\.(?:css|js))@", page):
        part = (folder / name).read_text(encoding="utf-8")
        if "</s" in part or "@DATA@" in part or "@TITLE@" in part:
            sys.exit(f"embed.py: {name} holds an end of an element, or @DATA@ or @TITLE@")
        page = page.replace(f"@{name}@", part)
    for mark in "@TITLE@", "@DATA@":
        if page.count(mark) != 1:
            sys.exit(f"embed.py: page.html must have {mark} once")
    return page


def main():
    folder, target = map(pathlib.Path, sys.argv[1:])
    page = page_of(folder)
    assert ')page"' not in page
    pieces = [page[i:i + PIECE] for i in range(0, len(page), PIECE)]
    text = "\n".join(f'      R"page({piece})page"' for piece in pieces)
    target.write_text(HEAD + text + TAIL, encoding="utf-8")


if __name__ == "__main__":
    main()
