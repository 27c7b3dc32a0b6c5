#!/usr/bin/env python3
"""Writes strict_exports.S for the strict driver: strict_exports.py CALLS.def OUT OWN...

Every export forwards to the simulated driver; calls classed kMayWait pass strict_enter and
strict_leave (strict_driver.cpp). OWN are those that strict_driver.cpp defines itself.
"""
import pathlib
import re
import sys

table, out, own = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), set(sys.argv[3:])
calls = re.findall(r"^CUPOLA_CALL\((\w+), (\w+)", table.read_text(), re.M)
lines = ["    .text"]
for index, (name, kind) in enumerate(calls):
    if name in own:
        continue
    lines += [f"    .globl {name}", f"    .type {name},@function", f"{name}:", "    endbr64"]
    if kind == "kMayWait":
        lines += [f"    pushq ${index}", "    jmp strict_may_wait"]
    else:
        lines += [f"    jmp *strict_real+{8 * index}(%rip)"]
lines += [
    # The index and the return address are on the stack: check, call with a copy of 16 words, check.
    "    .type strict_may_wait,@function", "strict_may_wait:",
    "    pushq %rbp", "    movq %rsp, %rbp",
    "    pushq %rdi", "    pushq %rsi", "    pushq %rdx", "    pushq %rcx", "    pushq %r8",
    "    pushq %r9", "    subq $8, %rsp",
    "    movq 8(%rbp), %rdi", "    call strict_enter", "    movq %rax, %r11",
    "    movq -8(%rbp), %rdi", "    movq -16(%rbp), %rsi", "    movq -24(%rbp), %rdx",
    "    movq -32(%rbp), %rcx", "    movq -40(%rbp), %r8", "    movq -48(%rbp), %r9",
]
lines += [f"    pushq {24 + 8 * word}(%rbp)" for word in reversed(range(16))]
lines += [
    "    call *%r11", "    movq %rax, -8(%rbp)", "    movq 8(%rbp), %rdi", "    call strict_leave",
    "    movq -8(%rbp), %rax", "    movq %rbp, %rsp", "    popq %rbp", "    leaq 8(%rsp), %rsp",
    "    ret",
    "    .data", "    .globl strict_names", "strict_names:",
]
lines += [f"    .quad .Lname{index}" for index in range(len(calls))]
lines += ["    .quad 0", "    .globl strict_real", "    .hidden strict_real", "strict_real:",
          f"    .zero {8 * len(calls)}", "    .section .rodata"]
lines += [f'.Lname{index}: .asciz "{name}"' for index, (name, _) in enumerate(calls)]
lines += ['    .section .note.GNU-stack,"",@progbits', ""]
out.write_text("\n".join(lines))
