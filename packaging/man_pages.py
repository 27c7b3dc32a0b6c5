#!/usr/bin/env python3
"""Writes the man pages of `cupola` from its help texts: cupola.1 and one for each subcommand, cupola-run.1 ...

  man_pages.py CUPOLA FOLDER

A page of a subcommand holds the help of its own subcommands too, such as `cupola store evict`.
"""
import os
import re
import subprocess
import sys


def help_of(command, words):
    return subprocess.run([command, *words, "--help"], capture_output=True, text=True, check=True).stdout


def subcommands_of(text):
    listed = re.search(r"^Subcommands:\n((?:  .*\n|\n(?=  ))*)", text, re.MULTILINE)
    return re.findall(r"^  ([a-z][a-z-]*)\s", listed.group(1), re.MULTILINE) if listed else []


def escaped(text):
    """Text for troff as it stands: no line is a request, no character is special."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").splitlines()
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


def sections(command, words):
    """(heading, text) of a command and its subcommands."""
    text = help_of(command, words)
    found = [(" ".join(["cupola", *words]), text)]
    for name in subcommands_of(text):
        if words:
            found += sections(command, [*words, name])
    return found


def page(command, words, version):
    parts = sections(command, words)
    name, summary = "-".join(["cupola", *words]), parts[0][1].split("\n", 1)[0]
    out = [f'.TH {name.upper()} 1 "" "cupola {version}" "Cupola"', ".SH NAME", f"{name} \\- {escaped(summary)}"]
    for heading, text in parts:
        out += [f'.SH "{heading.upper() if heading != parts[0][0] else "DESCRIPTION"}"', ".nf", escaped(text.rstrip()), ".fi"]
    if not words:
        out += [".SH SEE ALSO", ", ".join(f".BR cupola\\-{name} (1)" if i == 0 else f"cupola\\-{name}(1)"
                                          for i, name in enumerate(subcommands_of(parts[0][1])))]
    return "\n".join(out) + "\n"


def main():
    command, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    for words in [[], *([name] for name in subcommands_of(help_of(command, [])))]:
        with open(os.path.join(folder, "-".join(["cupola", *words]) + ".1"), "w", encoding="utf-8") as file:
            file.write(page(command, words, version))


if __name__ == "__main__":
    main()
