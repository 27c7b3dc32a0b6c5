#!/usr/bin/env python3
"""Writes weak definitions, each returning CUDA_SUCCESS, of all driver calls: null_driver.cpp's own
win.

usage: other_exports.py calls.def out.S [call left out]...
"""
import pathlib
import re
import sys

names = re.findall(r"^CUPOLA_CALL\((\w+),", pathlib.Path(sys.argv[1]).read_text(), re.M)
lines = ["    .text"]
for name in names:
    if name not in sys.argv[3:]:
        lines += [f"    .weak {name}", f"    .type {name},@function", f"{name}:",
                  "    xorl %eax, %eax", "    ret", f"    .size {name},.-{name}"]
lines += ['    .section .note.GNU-stack,"",@progbits', ""]
pathlib.Path(sys.argv[2]).write_text("\n".join(lines))
