#!/usr/bin/env python3
"""Checks that the golden cases of PTX cover what they must, which it finds by reading the sources.

Every message of the parser and the validator (their string literals with a blank) stands in the
expectation of a case; every opcode of opcodes.def and every directive [11 of the PTX ISA, and the words
within them] in the input of a case of parse, write and validate. Exit code 1 with a list of what lacks.
"""
import glob
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
SOURCES = ("lexer.cpp", "parse*.cpp", "parser.h", "validate.cpp", "target.cpp")
SEPARATOR = "// %%% output %%%\n"
NOT_SHOWN = {"callseq "}
DIRECTIVES = (
    ".version .target .address_size .file .section .loc function_name inlined_at @@DWARF .pragma .alias "
    ".extern .visible .weak .common .entry .func .noreturn .param .ptr .align .reg .sreg .const .global "
    ".local .shared .tex .texref .samplerref .surfref .attribute .managed .unified .v2 .v4 .b128 .maxnreg "
    ".maxntid .reqntid .minnctapersm .maxnctapersm .explicitcluster .reqnctapercluster .maxclusterrank "
    ".blocksareclusters .branchtargets .calltargets .callprototype .abi_preserve "
    ".abi_preserve_control").split()
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def messages(text):
    """The literals of a source with a blank and a word in them, those side by side joined."""
    text = re.sub(r"^\s*#.*$|//.*$", "", text, flags=re.M).replace("'\"'", "")
    text = re.sub(r'"\s*\n\s*"', "", text)
    for literal in LITERAL.findall(text):
        if re.search(r"[a-z]{2}.* | .*[a-z]{2}", literal) and literal not in NOT_SHOWN:
            yield literal


def cases(stages):
    """(input, expectation) of every golden case of the stages."""
    for stage in stages:
        for path in glob.glob(os.path.join(ROOT, "tests/golden/ptx", stage, "*.ptx")):
            with open(path, encoding="latin-1") as file:
                text, _, expectation = file.read().partition(SEPARATOR)
            yield text, expectation


def read(name):
    with open(os.path.join(ROOT, "device/compiler/ptx", name)) as file:
        return file.read()


def missing_messages():
    expected = "".join(expectation for _, expectation in cases(("diagnostics", "validate")))
    names = [os.path.basename(path) for pattern in SOURCES
             for path in sorted(glob.glob(os.path.join(ROOT, "device/compiler/ptx", pattern)))]
    found = [(name, message) for name in names for message in messages(read(name))]
    if len(found) < 100:
        yield f"only {len(found)} messages found in the sources"
    for name, message in found:
        if message not in expected:
            yield f"{name}: no golden case shows: {message}"


def missing_forms(stage):
    text = "".join(input for input, _ in cases((stage,)))
    text = re.sub(r"//.*", "", text)
    instructions = set(re.findall(r"(?:^|[;{:])\s*(?:@!?\S+\s+)?(\w+)(?=[.\s;])", text, re.M))
    for opcode in re.findall(r"^PTX_OPCODE\((\w+),", read("opcodes.def"), re.M):
        if opcode not in instructions:
            yield f"{stage}: no golden case has the opcode {opcode}"
    for word in DIRECTIVES:
        if not re.search(r"(?<![\w$])" + re.escape(word) + r"\b", text):
            yield f"{stage}: no golden case has the directive {word}"


def main():
    missing = [*missing_messages(), *(line for stage in ("parse", "write", "validate")
                                      for line in missing_forms(stage))]
    print("\n".join([*missing, f"{len(missing)} missing"]))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
