"""Kernels that need the system: printf, assert, trap, faults, timers, the heap
[CUDA C++ Programming Guide; PTX ISA 9.7.19, 10]."""
from registry import Outcome, golden


@golden("print_formats")
def print_formats(kernel):
    printed = ["%d %d %d %x %X %o" % (-5, 42, 4000000000, 0xBEEF, 0xBEEF, 493),
               "%5d|%-5d|%05d|%+d|% d|%#x|010|%04d" % (-42, 42, 42, 42, 42, 255, 7),
               "%c%c %s|%10s|%-10s|%.3s" % (71, 33, "hello", "right", "left", "truncated"),
               "%d %d %x %d" % (-1234567890123, 2**64 - 1, 0xFEEDFACECAFE, -1),
               "%f %e %g %E %G" % (1 / 3, -12345.678, 1e-7, 6.02e23, 100000.0),
               "%.3f|%10.2f|%-10.1e|%+.0f|%08.3f" % (2 / 3, -3.14159, 123456.0, 2.5, -1.5),
               "100% of 1", "nothing to fill in", "warp 0", "warp 1", "warp 2"]
    return Outcome({}, "\n".join(printed))


@golden("assert_fails")
def assert_fails(kernel):
    return Outcome({}, fault="assert")


@golden("trap_ends")
def trap_ends(kernel):
    return Outcome({}, fault="trap")


@golden("fault_illegal_address")
def fault_illegal_address(kernel):
    return Outcome({}, fault="illegal_address")


@golden("fault_misaligned_address")
def fault_misaligned_address(kernel):
    return Outcome({}, fault="misaligned_address")


@golden("fault_two_barriers")
def fault_two_barriers(kernel):
    return Outcome({}, fault="illegal_instruction")


@golden("timers")
def timers(kernel):
    return {0: [1] * 192}


@golden("device_heap")
def device_heap(kernel):
    return {0: [sum(100 * (t ^ 63) + k for k in range(25)) for t in range(64)]}
