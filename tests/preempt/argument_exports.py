#!/usr/bin/env python3
"""Writes a driver that checks what it is passed: argument_exports.py CALLS.def TYPEDEFS.h OUT.S OUT.txt

Every export expects 0x1001 ... 0x1006 in registers and 0x1007, ... in as many words of the stack as its
arguments take there, and returns 1,000,000 and its place in the list, or -1. OUT.txt has a line for each:
its name and that number of words.
"""
import pathlib
import re
import sys

REGISTERS = ["%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9"]
# Passed by value, and too large for registers: in words.
BY_VALUE = {"CUipcMemHandle_v1": 8, "CUipcEventHandle_v1": 8}
FLOATING = ("float", "double")


def stack_words(parameters):
    """How many words of the stack a parameter list, given as text, takes by the x86-64 psABI."""
    types = [re.sub(r"\s*\w+$", "", text.strip()) for text in parameters.split(",")]
    in_memory = sum(BY_VALUE.get(kind, 0) for kind in types)
    numbers = sum(kind not in BY_VALUE and kind not in FLOATING and kind not in ("", "void") for kind in types)
    return in_memory + max(0, numbers - len(REGISTERS))


def words_by_export(typedefs, names):
    """The newest form of a name is its newest export, and so on down."""
    forms = {}
    for name, version, suffix, parameters in re.findall(
            r"PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)\((.*)\);", typedefs):
        forms.setdefault((name, suffix), {})[int(version)] = parameters
    words = dict.fromkeys(names, 0)
    for (name, suffix), versions in forms.items():
        exports = [name + end + suffix for end in ["_v9", "_v8", "_v7", "_v6", "_v5", "_v4", "_v3", "_v2", ""]
                   if name + end + suffix in words]
        for export, version in zip(exports, sorted(versions, reverse=True)):
            words[export] = stack_words(versions[version])
    return words


def main():
    calls, typedefs, out, table = map(pathlib.Path, sys.argv[1:])
    names = re.findall(r"^CUPOLA_CALL\((\w+),", calls.read_text(), re.M)
    words = words_by_export(typedefs.read_text(), names)
    lines = ["    .text"]
    for index, name in enumerate(names):
        lines += [f"    .globl {name}", f"    .type {name},@function", f"{name}:", "    endbr64",
                  f"    movl ${1000000 + index}, %eax", f"    jmp check_{words[name]}"]
    for count in sorted(set(words.values())):
        lines += [f"check_{count}:"]
        places = REGISTERS + [f"{8 + 8 * i}(%rsp)" for i in range(count)]
        for number, place in enumerate(places, 1):
            lines += [f"    cmpq ${0x1000 + number}, {place}", "    jne .Lbad"]
        # Changes the registers that a call may change.
        lines += [f"    movq $-1, {name}" for name in REGISTERS + ["%r10", "%r11"]]
        lines += ["    ret"]
    lines += [".Lbad:", "    movl $-1, %eax", "    ret", '    .section .note.GNU-stack,"",@progbits', ""]
    out.write_text("\n".join(lines))
    table.write_text("".join(f"{name} {words[name]}\n" for name in names))


if __name__ == "__main__":
    main()
