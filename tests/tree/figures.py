#!/usr/bin/env python3
"""Checks the figures of docs/figures: each source has an SVG that was drawn from it as it is, with a background of its
own (so that it can be read on a light and on a dark page), and each figure is shown by some page.

Usage: figures.py ROOT
Prints one line per fault and exits 1 if there is any. Needs no Graphviz: scripts/figures writes the SHA-256 of the
source into each SVG.
"""
import hashlib
import pathlib
import re
import sys


def faults(root):
    folder = root / "docs" / "figures"
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    shown = "\n".join(page.read_text() for page in pages)
    for svg in sorted(folder.glob("*.svg")):
        if not svg.with_suffix(".dot").exists():
            yield f"{svg.name}: has no source {svg.stem}.dot"
    for source in sorted(folder.glob("*.dot")):
        svg = source.with_suffix(".svg")
        if not svg.exists():
            yield f"{source.name}: is not drawn; run scripts/figures"
            continue
        text = svg.read_text()
        digest = re.search(r"<!-- source sha256: ([0-9a-f]{64}) -->", text)
        if digest is None or digest[1] != hashlib.sha256(source.read_bytes()).hexdigest():
            yield f"{svg.name}: was not drawn from {source.name} as it is; run scripts/figures"
        if re.search(r"bgcolor=\"#[0-9a-f]{6}\"", source.read_text()) is None:
            yield f"{source.name}: has no bgcolor=\"#rrggbb\""
        if f"figures/{svg.name})" not in shown:
            yield f"{svg.name}: no page shows it"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print(*found, sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
