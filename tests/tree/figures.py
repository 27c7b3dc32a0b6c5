#!/usr/bin/env python3
"""Checks the pictures of the pages. Of docs/figures: each source has an SVG that was drawn from it as it is, with a
background of its own (so that it can be read on a light and on a dark page). Of docs/screenshots: each was taken of the
sources as they are, has at most 150 kB, and is shown with a text for those who do not see it. Each picture is shown by
some page.

Usage: figures.py ROOT
Prints one line per fault and exits 1 if there is any. Needs no Graphviz: scripts/figures writes the SHA-256 of the
source into each SVG, and scripts/screenshots that of its sources into each PNG.
"""
import hashlib
import pathlib
import re
import struct
import sys

# Of what each screenshot is one: sources whose change makes it an old one.
SCREENSHOTS = {
    "report-light.png": ["cli/report/page"],
    "report-dark.png": ["cli/report/page"],
    "top.png": ["cli/arbiter_table.cpp"],
}
LARGEST_SCREENSHOT = 150_000


def digest_of(root, sources):
    """The SHA-256 of files and folders of files, with their names."""
    digest = hashlib.sha256()
    for source in sources:
        path = root / source
        for file in [path] if path.is_file() else sorted(path.iterdir()):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def chunks(png):
    """(type, data) of each chunk of a PNG."""
    at = 8
    while at + 8 <= len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        yield kind, png[at + 8:at + 8 + size]
        at += size + 12


def screenshot_faults(root, shown):
    folder = root / "docs" / "screenshots"
    for png in sorted(folder.glob("*.png")):
        if png.name not in SCREENSHOTS:
            yield f"{png.name}: is not in the list of tests/tree/figures.py"
    for name, sources in SCREENSHOTS.items():
        png = folder / name
        if not png.exists():
            yield f"{name}: is not taken; run scripts/screenshots"
            continue
        data = png.read_bytes()
        if (b"tEXt", b"Source\0" + digest_of(root, sources).encode()) not in chunks(data):
            yield f"{name}: was not taken of {', '.join(sources)} as they are; run scripts/screenshots"
        if len(data) > LARGEST_SCREENSHOT:
            yield f"{name}: has {len(data)} bytes, more than {LARGEST_SCREENSHOT}"
        if re.search(r"!\[[^\]]{20,}\]\([\w/.]*screenshots/" + re.escape(name) + r"\)", shown) is None:
            yield f"{name}: no page shows it with a text"


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
    yield from screenshot_faults(root, shown)


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print(*found, sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
