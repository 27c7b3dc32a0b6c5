#!/usr/bin/env python3
"""Checks the spelling of what people read.

Usage: spelling.py ROOT [--cupola COMMAND] [--self-test]

- aspell (British English) has every word of README.md, CONTRIBUTING.md, the pages of docs/, examples/ and tests/, the
  page of `cupola report`, and with --cupola the help of every command. Not looked at: code, links, names with capitals
  or digits in the middle, words of one or two letters. Words of the field stand in spelling_words.txt, one in a line,
  in the order of sorted(); one that is used nowhere is a fault.
- codespell, which knows common typos, has all text of the tree, comments too.

Prints one line per fault and exits 1 if there is any; 77 where aspell or codespell is missing.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
WORDS = HERE / "spelling_words.txt"
SKIPPED = 77
SKIPPED_FOLDERS = {"build", ".git", ".toolchain", "__pycache__", "shared", "corpus"}
# Misspelt on purpose, in tests of what is said of misspelt settings; or no English.
TYPOS_ON_PURPOSE = "priorty,fro,froms"
NOT_PROSE = "*.json,*.ptx,*.png,*.svg,*.dot,*.csv,corpus,build,.git,.toolchain,shared,__pycache__,spelling.py"
IDENTIFIER = r"\b\w*[a-z][A-Z]\w*\b"

CODE = [re.compile(pattern, re.DOTALL | re.MULTILINE) for pattern in (
    r"^(```|~~~).*?^\1",              # fenced code
    r"``[^`]+``|`[^`]+`",             # code in a line, which may be broken
    r"<!--.*?-->",
    r"<(style|script)\b.*?</\1>",
    r"(?<=\])\([^)\s]+(?:\s+\"[^\"]*\")?\)",  # what a link leads to
    r"<?https?://[^\s>)]+>?",
    r"</?[a-z][^<>\n]*>",             # tags
    r"&[a-z]+;",
    r"\B--?[a-z][\w-]*",              # options
    r"\$\{?\w+\}?|\$\([^)]*\)",
    r"[\w.*~-]*/[\w./*~<>-]*/[\w./*~<>-]*",  # paths
    r"\b[\w-]+\.(?:\w{1,4}|service)\b",      # names of files
)]
TOKEN = re.compile(r"[^\W_][\w'\u2019]*", re.UNICODE)


def pages(root):
    for path in [root / "README.md", root / "CONTRIBUTING.md", root / "cli/report/page/page.html"]:
        if path.exists():
            yield path
    for folder in "docs", "examples", "tests":
        for path in sorted((root / folder).rglob("*.md")):
            if not SKIPPED_FOLDERS & set(path.relative_to(root).parts):
                yield path


def words_of(text):
    """(line, word) of the prose in a page."""
    for code in CODE:
        text = code.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for number, line in enumerate(text.split("\n"), 1):
        for match in TOKEN.finditer(line):
            word = re.sub(r"['\u2019]s?$", "", match[0])
            around = line[max(match.start() - 1, 0):match.start()] + line[match.end():match.end() + 1]
            is_name = re.search(r"[\d_]|\w[A-Z]|[^A-Za-z']", word) is not None or "_" in around or "=" in around
            if len(word) > 2 and not is_name:
                yield number, word


def help_texts(cupola):
    sys.path.insert(0, str(HERE.parents[1] / "packaging"))
    import man_pages  # pylint: disable=import-outside-toplevel

    def all_of(words):
        text = man_pages.help_of(cupola, words)
        yield " ".join(["cupola", *words, "--help"]), text
        for name in man_pages.subcommands_of(text):
            yield from all_of([*words, name])
    return all_of([])


def misspelt(words):
    """Those of the words that aspell does not know."""
    done = subprocess.run(["aspell", "list", "--lang=en_GB", "--encoding=utf-8"], input="\n".join(sorted(words)), text=True,
                          capture_output=True, check=True)
    return set(done.stdout.split())


def page_faults(texts, known):
    """`texts`: (name, text). `known`: the words of the list."""
    places = {}
    for name, text in texts:
        for number, word in words_of(text):
            places.setdefault(word, f"{name}:{number}")
    unknown = misspelt(places)
    for word in sorted(unknown, key=lambda each: places[each]):
        if word not in known and word.lower() not in known:
            yield f"{places[word]}: {word}: not English; mend it, or add a word of the field to tests/tree/{WORDS.name}"
    used = set(places) | {word.lower() for word in places}
    for word in known:
        if word not in used:
            yield f"tests/tree/{WORDS.name}: {word}: is used nowhere; take it out"


def typo_faults(root):
    done = subprocess.run(["codespell", "--ignore-words-list", TYPOS_ON_PURPOSE, "--ignore-regex", IDENTIFIER, "--skip",
                           NOT_PROSE, "."], cwd=root, text=True, capture_output=True, check=False)
    if done.returncode not in (0, 65) and not done.stdout:
        yield f"codespell: {done.stderr.strip()}"
    yield from done.stdout.splitlines()


def faults(root, cupola):
    known = WORDS.read_text(encoding="utf-8").split()
    if known != sorted(known):
        yield f"tests/tree/{WORDS.name}: is not in the order of sorted()"
    texts = [(str(path.relative_to(root)), path.read_text(encoding="utf-8")) for path in pages(root)]
    texts += help_texts(cupola) if cupola else []
    found = list(page_faults(texts, known))
    # Without the help texts a word of theirs would seem to be used nowhere.
    yield from (fault for fault in found if cupola or not fault.startswith("tests/tree/"))
    yield from typo_faults(root)


def self_test():
    text = "# A streem of launches\n`recieve` [a link](no/wherre.md) cuMemAlloc sm_90 CUDA\n```\nfoo barr\n```\nColour, gpu's.\n"
    found = list(page_faults([("a.md", text)], ["gpu", "unuzed"]))
    assert len(found) == 2 and found[0].startswith("a.md:1: streem:") and "unuzed" in found[1], found
    seen = [word for _, word in words_of("It-self isn't in file.cpp or --option, the gpu's KERNEL's x_y is.")]
    assert seen == ["self", "isn't", "the", "gpu"], seen
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "a.h").write_text("// How we recieve it; froms, NowNs.\n")
        found = list(typo_faults(folder))
        assert len(found) == 1 and "recieve" in found[0], found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--cupola")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    missing = [name for name in ("aspell", "codespell") if shutil.which(name) is None]
    if missing or "en_GB" not in subprocess.run(["aspell", "dicts"], text=True, capture_output=True, check=True).stdout:
        print(f"skipped: there is no {' and no '.join(missing) or 'British dictionary of aspell'} "
              "(scripts/bootstrap --tests installs them)")
        sys.exit(SKIPPED)
    if options.self_test:
        self_test()
    found = list(faults(options.root.resolve(), options.cupola))
    print(*found, sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
