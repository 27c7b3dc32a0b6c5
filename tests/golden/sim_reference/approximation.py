"""Approximate functions: the kernels compare their results with exact values, which are arguments, within the
errors of the PTX ISA [9.7.3, 9.7.4]. This file computes the exact values and the special cases."""
import math

from ieee import BF16, F16, F32, F64
from registry import golden


def power(x):
    return 2.0 ** x


def reciprocal(x):
    return 1 / x


def reciprocal_root(x):
    return 1 / math.sqrt(x)


def pi_over(x):
    return float(F32.value(0x40490FDB)) / x


def within_bounds(kernel, f, *functions):
    """The second argument must hold the functions of the first; then every comparison holds."""
    words, exact = kernel.args[0].values, kernel.args[1].values
    assert len(words) == len(exact) == 32 * len(functions)
    for index, (word, given) in enumerate(zip(words, exact)):
        want = functions[index // 32](float(f.value(word)))
        assert abs(float(F64.value(given)) - want) <= 1e-14 * abs(want), (index, want)
    return {2: [1] * len(words)}


@golden("approximate_f32")
def approximate_f32(kernel):
    return within_bounds(kernel, F32, power, power, math.log2, math.log2, math.sin, math.cos,
                         math.tanh, reciprocal, reciprocal, math.sqrt, reciprocal_root, pi_over,
                         pi_over)


@golden("approximate_f16")
def approximate_f16(kernel):
    return within_bounds(kernel, F16, power, math.tanh, power, math.tanh)


@golden("approximate_bf16")
def approximate_bf16(kernel):
    return within_bounds(kernel, BF16, power, math.tanh, power, math.tanh)


@golden("approximate_f64")
def approximate_f64(kernel):
    return within_bounds(kernel, F64, reciprocal, reciprocal_root)


@golden("approximate_specials")
def approximate_specials(kernel):
    inf, minus, nan, one, zero = 0x7F800000, 0xFF800000, 0x7FFFFFFF, 0x3F800000, 0x80000000
    operands = [minus, 0x807FFFFF, 0x80000001, zero, 0, 1, inf, 0x7FC00000]
    tables = [[0, one, one, one, one, one, inf, nan],                # ex2
              [nan, minus, minus, minus, minus, minus, inf, nan],    # lg2
              [nan, zero, zero, zero, 0, 0, nan, nan],               # sin
              [nan, one, one, one, one, one, nan, nan],              # cos
              [zero, minus, minus, minus, inf, inf, 0, nan],         # rcp
              [nan, zero, zero, zero, 0, 0, inf, nan],               # sqrt
              [nan, minus, minus, minus, inf, inf, 0, nan]]          # rsqrt
    return {1: [table[operands.index(word)] for table in tables for word in kernel.args[0].values]}
