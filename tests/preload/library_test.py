#!/usr/bin/env python3
"""Checks the door, libcupola.so, and the library behind it as files, and classes.def against the toolkit's
stub library.

usage: library_test.py libcupola.so libcupola/libcuda.so.1 classes.def hooks.def [stub libcuda.so]
"""
import pathlib
import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"}
DOOR = {"dlopen", "dlsym", "cupola_door", "__asan_default_options"}
LIBRARY = {"cupola_handle_for"}
# What the door may need of the C library: each of these is in glibc and in musl since long. It is preloaded
# into every program, and musl's loader ends a program in which a symbol is not found. Newer functions (musl has
# statx from 1.2.5 on only) are called by syscall(), or by a weak reference that is looked at.
EVERYWHERE = {
    "__errno_location", "close", "dladdr", "dlclose", "dlerror", "fstat", "getenv", "memcmp", "memcpy", "memmem",
    "memmove", "memset", "mmap", "mprotect", "munmap", "open", "poll", "pthread_sigmask", "read", "realpath",
    "sched_yield", "sigaddset", "sigemptyset", "sigismember", "sigpending", "sigtimedwait", "snprintf", "stat", "strchr",
    "strcmp", "strcpy", "strcspn", "strlen", "strncmp", "strnlen", "strrchr", "syscall", "write"}
CLASSES = {"kPure", "kStreamOrdered", "kMayWait"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exports(library):
    return {line.split()[2].split("@")[0]
            for line in output("nm", "-D", "--defined-only", library).splitlines()}


def needed(library):
    return set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-dW", library)))


def faults_of_door(door):
    """Whatever would keep the door out of a program, or be seen by one that does without CUDA."""
    if exports(door) != DOOR:
        yield f"the door exports {sorted(exports(door) ^ DOOR)}"
    if needed(door) - ALLOWED:
        yield f"the door needs {sorted(needed(door) - ALLOWED)}"
    if "SONAME" in output("readelf", "-dW", door):
        yield "the door has a SONAME, by which it could be taken for another library"
    if re.search(r"^\s+TLS\s", output("readelf", "-lW", door), re.M):
        yield "the door has thread-local memory"
    if re.search(r"IRELATIV", output("readelf", "-rW", door)):
        yield "the door has relocations that musl does not know"
    strong = {line.split()[1].split("@")[0] for line in output("nm", "-D", "--undefined-only", door).splitlines()
              if line.split()[0] == "U"}
    if strong - EVERYWHERE:
        yield f"the door needs what not every C library has: {sorted(strong - EVERYWHERE)}"


def main():
    door, library, classes_path, hooks_path = sys.argv[1:5]
    wrong = list(faults_of_door(door))
    dynamic = output("readelf", "-dW", library)
    if needed(library) - ALLOWED - {"ld-linux-x86-64.so.2"}:
        wrong.append(f"needs more than libc's own: {sorted(needed(library) - ALLOWED)}")
    if re.findall(r"SONAME.*\[(.*)\]", dynamic) != ["libcuda.so.1"]:
        wrong.append("its SONAME is not libcuda.so.1")
    if "NODELETE" not in dynamic:
        wrong.append("it can be unloaded, under its own threads")

    pairs = re.findall(r"^CUPOLA_CALL\((\w+), (\w+)\)", pathlib.Path(classes_path).read_text(),
                       re.M)
    classes = dict(pairs)
    if len(pairs) != len(classes):
        wrong.append("a call is classified twice")
    wrong += [f"{name}: no class {kind}" for name, kind in pairs if kind not in CLASSES]
    exported = exports(library)
    if exported - set(classes) != LIBRARY:
        others = (exported - set(classes)) ^ LIBRARY
        wrong.append(f"exports besides the driver's calls: {sorted(others)}")
    if set(classes) - exported:
        wrong.append(f"classified, not exported: {sorted(set(classes) - exported)}")
    hooks = re.findall(r"^CUPOLA_(?:LAUNCH_)?HOOK\((\w+),", pathlib.Path(hooks_path).read_text(), re.M)
    if len(hooks) != len(set(hooks)):
        wrong.append("a hook is listed twice")
    if len(sys.argv) > 5:
        stub = exports(sys.argv[5])
        wrong += [f"{name}: exported by the toolkit's library, not classified"
                  for name in sorted(stub - set(classes))]
        wrong += [f"{name}: classified, but the toolkit's library does not export it"
                  for name in sorted(set(classes) - stub)]
    print("\n".join(wrong) or f"{len(classes)} calls, all classified and exported")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
