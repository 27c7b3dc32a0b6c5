#!/usr/bin/env python3
"""Writes a driver that checks what it is passed: argument_exports.py CLASSES.def OUT.

Every export expects 15 arguments, 0x1001 ... 0x100F, in registers and on the stack, and returns
1,000,000 and its place in the list, or -1.
"""
import pathlib
import re
import sys

names = re.findall(r"^CUPOLA_CALL\((\w+),", pathlib.Path(sys.argv[1]).read_text(), re.M)
lines = ["    .text"]
for index, name in enumerate(names):
    lines += [f"    .globl {name}", f"    .type {name},@function", f"{name}:", "    endbr64",
              f"    movl ${1000000 + index}, %eax", "    jmp check_arguments"]
lines += ["check_arguments:"]
places = ["%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9"] + [f"{8 + 8 * i}(%rsp)" for i in range(9)]
for number, place in enumerate(places, 1):
    lines += [f"    cmpq ${0x1000 + number}, {place}", "    jne .Lbad"]
# The registers that a call may change are changed.
lines += [f"    movq $-1, {name}" for name in ("%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9", "%r10",
                                               "%r11")]
lines += ["    ret", ".Lbad:", "    movl $-1, %eax", "    ret",
          '    .section .note.GNU-stack,"",@progbits', ""]
pathlib.Path(sys.argv[2]).write_text("\n".join(lines))
