"""Switches Cupola's launch hooks off and on within a running program, so that a loop can be timed
with and without them in turns, in one process: processes differ among each other by more than a
hook costs. For measurements only.

The CUDA runtime keeps the addresses of the driver's functions in variables. Those that hold an address of
Cupola's are found in the process's memory; switched off they hold what they would without it."""
import ctypes
import os
import struct
import tempfile

DRIVER = (b"cuLaunchKernel", b"cuLaunchKernelEx")
PER_THREAD_STREAM = (0, 2)  # CU_GET_PROC_ADDRESS_DEFAULT, ..._PER_THREAD_DEFAULT_STREAM
LARGEST_MAPPING = 1 << 28  # bytes; the variables lie in smaller ones
PAGE = 4096


def mappings():
    """(start, bytes, permissions, path) of the process's memory."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            start, end = (int(word, 16) for word in fields[0].split("-"))
            yield start, end - start, fields[1], fields[5].strip() if len(fields) > 5 else ""


def entry_points(library, version):
    found = {}
    for name in DRIVER:
        for flags in PER_THREAD_STREAM:
            address = ctypes.c_void_p()
            if library.cuGetProcAddress_v2(name, ctypes.byref(address), version,
                                           ctypes.c_uint64(flags), None) == 0:
                found[name, flags] = address.value
    return found


def driver_functions():
    """Hook -> the driver's function. Cupola stands in for libcuda.so.1, not for another name of it."""
    hooked, version = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    with tempfile.TemporaryDirectory() as folder:
        past = os.path.join(folder, "past_cupola.so")
        os.symlink(os.path.realpath(os.environ["CUPOLA_DRIVER"]), past)
        driver = ctypes.CDLL(past)
    driver.cuDriverGetVersion(ctypes.byref(version))
    own = entry_points(driver, version.value)
    return {hook: own[key] for key, hook in entry_points(hooked, version.value).items()
            if own.get(key) not in (None, hook)}


class HookSwitch:
    def __init__(self):
        functions = driver_functions()
        if not functions:
            raise RuntimeError("no launch function is hooked: not under Cupola")
        found = []
        for start, size, permissions, path in list(mappings()):
            readable = permissions[0] == "r" and permissions[2:] == "-p" and size <= LARGEST_MAPPING
            if not readable or path.startswith(("/dev", "[")) and path != "[heap]" or \
                    "libcupola" in path:
                continue
            memory = ctypes.string_at(start, size)
            for hook, function in functions.items():
                at = memory.find(struct.pack("<Q", hook))
                while at >= 0:
                    if (start + at) % 8 == 0:
                        found.append((start + at, hook, function))
                    at = memory.find(struct.pack("<Q", hook), at + 8)
        # Copies of the pattern that the search itself has made are gone by now.
        present = [(start, size) for start, size, permissions, _ in mappings()
                   if permissions[0] == "r"]
        self.variables = [
            (address, hook, function) for address, hook, function in found
            if any(start <= address < start + size for start, size in present)
            and ctypes.c_uint64.from_address(address).value == hook]
        if not self.variables:
            raise RuntimeError("no variable holds a launch hook")
        for address, _, _ in self.variables:  # a table may be read-only once it is filled
            if ctypes.CDLL(None).mprotect(ctypes.c_void_p(address & -PAGE), PAGE, 3) != 0:
                raise RuntimeError("a variable cannot be made writable")

    def set(self, on):
        for address, hook, function in self.variables:
            ctypes.c_uint64.from_address(address).value = hook if on else function
