"""Atomics of floating point, of 16 and 128 bits, of vectors, and under contention [9.7.13.6-8]."""
from ieee import BF16, F16, F32, F64, halves, pair
from registry import golden


def added(kind, word, addend):
    """One step of add: a scalar of 16 bits leaves the upper half alone."""
    if kind == "f32":
        return F32.add(word, addend)
    f = BF16 if kind.startswith("bf16") else F16
    (low, high), (a, b) = halves(word), halves(addend)
    return pair(f.add(low, a), f.add(high, b) if kind.endswith("x2") else high)


@golden("atomics_float")
def atomics_float(kernel):
    rows = [kernel.args[0].values[16 * i:16 * i + 16] for i in range(6)]
    old, left = [], []
    for kind, at in 2 * [("f32", 0), ("f16", 2), ("f16x2", 2), ("bf16", 4), ("bf16x2", 4)]:
        for word, addend in zip(rows[at], rows[at + 1]):
            old.append(word & 0xFFFF if kind in ("f16", "bf16") else word)
            left.append(added(kind, added(kind, word, addend), addend))
    doubles = kernel.args[3].values
    pairs = list(zip(doubles[:16], doubles[16:]))
    once = [F64.add(a, b) for a, b in pairs]
    twice = [F64.add(s, b) for s, (a, b) in zip(once, pairs)]
    return {1: old, 2: left,
            4: doubles[:16] + twice + [F64.add(a, s) for s, (a, b) in zip(once, pairs)]}


@golden("atomics_b16_b128")
def atomics_b16_b128(kernel):
    return {0: [0x1111, 0x7777, 0x3333, 0x4444], 1: [100, 200, 100, 200, 5, 6, 7, 8],
            2: [0x2222, 0x3333, 0xAAAA, 0xCCCCBBBB],
            3: [1, 2, 3, 4, 5, 6, 5, 6, 100, 200, 5, 7]}


@golden("atomics_vectors")
def atomics_vectors(kernel):
    threads = sum(range(8))
    floats = [0 + threads, 1 + 4, 2 + 4, 3 + threads, 0 + 4, 1 + threads, 2, 3]
    up, down = F16.round(1 + 8), F16.round(1 - 4)
    ones = pair(BF16.round(8), BF16.round(8))
    mixed = pair(BF16.round(-8), BF16.round(16))
    return {0: [F32.round(v) for v in floats],
            1: [up, up, up, down, down, down, up, down, up, down] + [F16.one] * 6,
            2: [ones, mixed, mixed, ones], 3: [F32.one, F32.one, F32.round(5), F32.round(5)]}


@golden("atomics_contended")
def atomics_contended(kernel):
    threads = 8 * 128
    return {0: [sum(range(threads)), threads % 100, 0, threads - 1, 3 * threads, 0, 0, threads],
            1: [sum(range(threads)) << 32, 0], 2: [sum(range(threads)) + threads, 0]}
