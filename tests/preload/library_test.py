#!/usr/bin/env python3
"""Checks the door, libcupola.so, and the library behind it as files, and calls.def against the toolkit's
stub library.

usage: library_test.py libcupola.so libcupola/libcuda.so.1 calls.def hooks.def [stub libcuda.so]
"""
import pathlib
import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"}
DOOR = {"dlopen", "dlsym", "nvrtcGetCUBIN", "cupola_door", "__asan_default_options"}
LIBRARY = {"cupola_handle_for"}
# What the door may need of the C library: each of these is in glibc and in musl since long. It is preloaded
# into every program, and musl's loader ends a program in which a symbol is not found. Newer functions (musl has
# statx from 1.2.5 on only) are called by syscall(), or by a weak reference that is looked at.
EVERYWHERE = {
    "__errno_location", "close", "dladdr", "dlclose", "dlerror", "flock", "fstat", "getenv", "geteuid", "getpid", "memcmp",
    "memcpy", "memmem", "memmove", "memset", "mmap", "mprotect", "munmap", "open", "poll", "pthread_sigmask", "read",
    "realpath", "rename", "sched_yield", "secure_getenv", "sigaddset", "sigemptyset", "sigismember", "sigpending", "sigtimedwait", "snprintf", "stat", "strchr",
    "strcmp", "strcpy", "strcspn", "strlen", "strncmp", "strnlen", "strrchr", "syscall", "unlink", "write"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exports(library):
    return {line.split()[2].split("@")[0]
            for line in output("nm", "-D", "--defined-only", library).splitlines()}


def needed(library):
    return set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-dW", library)))


def faults_of_door(door):
    """Faults of the door: whatever would keep it out of a program, or be noticed by a program without CUDA."""
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


def faults_of_rows(calls, exported, toolkit):
    """Where the rows of calls.def differ from what our library exports beside LIBRARY and, unless it is None,
    from what the toolkit's library exports."""
    rows = set(re.findall(r"^CUPOLA_CALL\((\w+),", calls, re.M))
    yield from (f"{name}: exported, and no row in calls.def" for name in sorted(exported - LIBRARY - rows))
    yield from (f"{name}: a row in calls.def, and not exported" for name in sorted(rows - exported))
    if toolkit is None:
        return
    yield from (f"{name}: exported by the toolkit's library, and no row in calls.def"
                for name in sorted(toolkit - rows))
    yield from (f"{name}: a row in calls.def, and not exported by the toolkit's library"
                for name in sorted(rows - toolkit))


def main():
    door, library, calls_path, hooks_path = sys.argv[1:5]
    wrong = list(faults_of_door(door))
    dynamic = output("readelf", "-dW", library)
    if needed(library) - ALLOWED - {"ld-linux-x86-64.so.2"}:
        wrong.append(f"needs more than libc's own: {sorted(needed(library) - ALLOWED)}")
    if re.findall(r"SONAME.*\[(.*)\]", dynamic) != ["libcuda.so.1"]:
        wrong.append("its SONAME is not libcuda.so.1")
    if "NODELETE" not in dynamic:
        wrong.append("it can be unloaded, under its own threads")

    calls = pathlib.Path(calls_path).read_text()
    exported = exports(library)
    wrong += [f"does not export {name}" for name in sorted(LIBRARY - exported)]
    wrong += faults_of_rows(calls, exported, exports(sys.argv[5]) if len(sys.argv) > 5 else None)
    hooks = re.findall(r"^CUPOLA_(?:LAUNCH_)?HOOK\((\w+),", pathlib.Path(hooks_path).read_text(), re.M)
    if len(hooks) != len(set(hooks)):
        wrong.append("a hook is listed twice")
    print("\n".join(wrong) or f"{len(exported - LIBRARY)} calls, all with a row and exported")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
