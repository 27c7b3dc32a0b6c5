#!/usr/bin/env python3
"""`cupola profile` of a program that is linked with CUPTI: Cupola says so, and measures by events.

The driver is a copy of the simulated one, which Cupola takes for a GPU's. 77: the parts are not built.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def profile(build, folder, app, *options):
    """Exit code and standard error."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CUPOLA", "LD_"))}
    env.update(CUPOLA_DRIVER=str(folder / "libcuda.so.1"), LD_LIBRARY_PATH=str(build / "lib/sim"),
               CUPOLA_PROFILES=str(folder / "profiles"), ASAN_OPTIONS="verify_asan_link_order=0")
    done = subprocess.run([build / "bin/cupola", "profile", "--device", "gpu", *options, "--", app],
                          env=env, timeout=60, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def check(build, folder):
    says = "the program uses CUPTI itself"
    code, text = profile(build, folder, build / "tests/preempt/cupti_app")
    assert code == 0 and f"{says}; measured by events" in text, (code, text)
    assert "4 launches of 1 kernels, measured with events" in text, text
    code, text = profile(build, folder, build / "tests/preempt/cupti_app", "--with", "cupti")
    assert code != 0 and f"cannot measure with CUPTI: {says}" in text, (code, text)
    # The same program, not linked with CUPTI.
    code, text = profile(build, folder, build / "tests/preempt/tool_app")
    assert code == 0 and says not in text and "measured with events" in text, (code, text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    build = parser.parse_args().build.resolve()
    driver = build / "lib/sim/libcuda.so.1"
    parts = (build / "bin/cupola", build / "lib/libcupola_cupti.so", driver,
             build / "tests/preempt/cupti_app", build / "tests/preempt/tool_app")
    if not all(path.exists() for path in parts):
        return 77
    with tempfile.TemporaryDirectory(prefix="cupola-cupti-profile-") as name:
        folder = pathlib.Path(name)
        shutil.copy(driver, folder)
        check(build, folder)
    print("told so, measured by events")
    return 0


if __name__ == "__main__":
    sys.exit(main())
