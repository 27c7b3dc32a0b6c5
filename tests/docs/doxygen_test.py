#!/usr/bin/env python3
"""Doxygen makes the pages of the API's headers without a warning, and fails where a parameter is not documented.

usage: doxygen_test.py [OUTPUT]      77: there is no doxygen

With OUTPUT the pages stay there, in html/, and no fault is planted.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A header, what is taken out of it, and words of the warning.
PLANTED = [("task_c.h", r" \* @param limit_ns .*\n", "limit_ns"),
           ("task.h", r"  /// @param arguments +the arguments of the function.*\n", "arguments"),
           ("task.h", r"  /// @return errors: kTimedOut\n  Error WaitAll\(\);", "WaitAll"),
           ("task.h", r"///< number of blocks, 1 to kMostBlocks", "blocks")]


def make(root, out):
    """Runs Doxygen on the headers below `root`. Returns (exit code, warnings)."""
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    settings = (ROOT / "docs/Doxyfile").read_text() + f"\nOUTPUT_DIRECTORY = {out}\n"
    ended = subprocess.run(["doxygen", "-"], input=settings, cwd=root, capture_output=True, text=True, timeout=200)
    return ended.returncode, ended.stderr


def main():
    if shutil.which("doxygen") is None:
        print("there is no doxygen (scripts/bootstrap --tests)")
        return 77
    if len(sys.argv) > 1:
        code, warnings = make(ROOT, sys.argv[1])
        print(warnings or f"{sys.argv[1]}/html/index.html")
        return code
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        code, warnings = make(ROOT, folder + "/out")
        pages = list(pathlib.Path(folder, "out/html").glob("*.html"))
        if code != 0 or warnings or len(pages) < 10:
            wrong.append(f"exit code {code}, {len(pages)} pages, {warnings}")
        headers = pathlib.Path(folder, "include/cupola")
        for name, pattern, words in PLANTED:
            shutil.rmtree(headers.parent, ignore_errors=True)
            shutil.copytree(ROOT / "include/cupola", headers)
            text, count = re.subn(pattern, lambda match: match.group(0).split("\n")[1] if "WaitAll" in words else "",
                                  (headers / name).read_text())
            (headers / name).write_text(text)
            code, warnings = make(folder, folder + "/planted")
            if count != 1 or code == 0 or words not in warnings:
                wrong.append(f"{name} without the words on {words}: {count} taken out, exit code {code}, {warnings}")
    print("\n".join(wrong) or f"{len(pages)} pages without a warning; {len(PLANTED)} planted faults found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
