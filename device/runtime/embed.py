#!/usr/bin/env python3
"""Writes a C++ source with the text of the MasterKernel's PTX in it: embed.py IN.ptx OUT.cpp"""
import pathlib
import sys

TEMPLATE = """#include "device/runtime/master_image.h"

namespace cupola::runtime {{

std::string_view MasterImage() {{
  static constexpr char kText[] = R"ptx({text})ptx";
  return {{kText, sizeof(kText) - 1}};
}}

}}  // namespace cupola::runtime
"""

if __name__ == "__main__":
    source, target = map(pathlib.Path, sys.argv[1:])
    target.write_text(TEMPLATE.format(text=source.read_text()))
