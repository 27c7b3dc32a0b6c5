#!/usr/bin/env python3
"""Checks that the pages' links lead somewhere: every relative link of README.md, CONTRIBUTING.md, docs/ and the other
pages of the tree names a file or folder that is there, and an anchor names a heading of that page. Where a source,
script or page mentions a page as docs/NAME.md, with or without a section as in docs/NAME.md, "Section", both must
be there too.

Usage: links.py ROOT [--self-test]
Prints one line per fault and exits 1 if there is any.
"""
import os
import pathlib
import re
import sys
import tempfile

SKIPPED = ("build", ".git", ".toolchain", "__pycache__", "shared", "corpus")
SOURCES = (".h", ".cpp", ".cu", ".cuh", ".py", ".def", ".sh", ".S", ".txt", ".cmake", ".md", ".c", "")
TEMPLATES = ("flep_report.md",)  # becomes a part of a page in another folder
FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
MENTION = re.compile(r"\bdocs/([\w/.-]+\.md)(?:(?:,\s+|\s+\()\"([^\"]{1,80})\")?")
COMMENT_BREAK = re.compile(r"\n[ \t]*(?:///?<?|#|\*)?[ \t]*")


def headings(text):
    return [match[1].strip() for match in re.finditer(r"^#{1,6}\s+(.*)$", FENCE.sub("", text), re.MULTILINE)]


def slug(heading):
    """The anchor that GitHub gives a heading."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    heading = re.sub(r"[^\w\- ]", "", heading.lower())
    return heading.replace(" ", "-")


def anchors(text):
    found = set()
    for heading in headings(text):
        name, number = slug(heading), 0
        while f"{name}-{number}" in found or (number == 0 and name in found):
            number += 1
        found.add(name if number == 0 else f"{name}-{number}")
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def plain(heading):
    return re.sub(r"[`*]|\s*\(`.*?`\)", "", heading).strip()


def files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            if path.suffix in SOURCES and path.is_file():
                yield path


def link_faults(root, page):
    text = page.read_text()
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        at = (page.parent / name).resolve() if name else page
        if not at.exists():
            yield f"{page.relative_to(root)}: {target}: there is no such file"
        elif anchor and at.suffix == ".md" and anchor not in anchors(at.read_text()):
            yield f"{page.relative_to(root)}: {target}: no heading gives this anchor"


def mention_faults(root, path):
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return
    for match in MENTION.finditer(COMMENT_BREAK.sub(" ", text)):
        page, section = root / "docs" / match[1], match[2]
        if not page.exists():
            yield f"{path.relative_to(root)}: docs/{match[1]}: there is no such page"
        elif section is not None:
            known = {plain(heading) for heading in headings(page.read_text())}
            if plain(section).rstrip(".,") not in known:
                yield f"{path.relative_to(root)}: docs/{match[1]} has no section \"{section}\""


def faults(root):
    for path in files(root):
        if path.suffix == ".md" and path.name not in TEMPLATES:
            yield from link_faults(root, path)
        if path.name != "links.py":
            yield from mention_faults(root, path)


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs").mkdir()
        (root / "docs" / "a.md").write_text("# A page\n## Two words (`x.cpp`)\n[b](#a-page)\n```\n[c](gone)\n```\n")
        (root / "README.md").write_text("[a](docs/a.md#two-words-xcpp) [x](https://example.org) `[no](link)`\n")
        (root / "good.h").write_text("// docs/a.md,\n// \"Two\n// words\".\n")
        assert not list(faults(root)), list(faults(root))
        (root / "docs" / "bad.md").write_text("[a](gone.md) [b](a.md#gone) [c](#gone)\n")
        (root / "bad.h").write_text("// docs/gone.md and docs/a.md, \"Gone\"\n")
        found = list(faults(root))
        assert len(found) == 5, found


def main():
    if "--self-test" in sys.argv:
        self_test()
    found = list(faults(pathlib.Path(sys.argv[1]).resolve()))
    print(*found, sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
