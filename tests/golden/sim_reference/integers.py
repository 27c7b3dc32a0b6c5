"""Integer arithmetic and whole algorithms of bit operations [PTX ISA 9.7.1, 9.7.2, 9.7.8]."""
import hashlib
import zlib

from conversion import signed
from floating_point import rows
from registry import golden


@golden("crc32")
def crc32(kernel):
    data = bytes(kernel.args[0].values)
    return {1: 2 * [zlib.crc32(data[64 * t:64 * t + 2 * t + 1]) for t in range(32)]}


@golden("sha256")
def sha256(kernel):
    data, words = bytes(kernel.args[0].values), []
    for t in range(32):
        digest = hashlib.sha256(data[40 * t:40 * t + 40]).digest()
        words += [int.from_bytes(digest[i:i + 4], "big") for i in range(0, 32, 4)]
    return {1: words}


def divide(a, b):
    """Quotient and remainder, truncated towards zero."""
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient, a - quotient * b


@golden("integer_division")
def integer_division(kernel):
    def form(bits, is_signed, part):
        mask = (1 << bits) - 1

        def run(a, b):
            a, b = a & mask, b & mask
            assert b and not (is_signed and b == mask and a == (mask + 1) // 2)
            if is_signed:
                a, b = signed(a, bits), signed(b, bits)
            return divide(a, b)[part] & mask
        return run
    return rows(kernel, *[form(bits, is_signed, part) for bits in (64, 32, 16)
                          for is_signed in (False, True) for part in (0, 1)])


@golden("integers_of_16_bits")
def integers_of_16_bits(kernel):
    def parts(function):
        """function(h1, h2, h3, h4) gives both halves of the result."""
        def run(a, b):
            low, high = function(a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16)
            return (high & 0xFFFF) << 16 | low & 0xFFFF
        return run
    s = lambda v: signed(v, 16)

    def absolute(h1, h2, h3, h4):
        assert h1 != 0x8000
        return abs(s(h1)), -s(h4)
    return rows(
        kernel, parts(lambda h1, h2, h3, h4: (h1 + h3, h2 - h4)),
        parts(lambda h1, h2, h3, h4: (h1 * h3, h2 * h4 >> 16)),
        parts(lambda h1, h2, h3, h4: (s(h1) * s(h3) >> 16, h2 * h4 + h1)),
        parts(lambda h1, h2, h3, h4: (min(s(h1), s(h3)), max(h2, h4))),
        parts(lambda h1, h2, h3, h4: (h1 << (h3 & 31), s(h2) >> (h3 & 31))),
        parts(lambda h1, h2, h3, h4: (h1 >> (h4 & 31), ~h3)),
        parts(lambda h1, h2, h3, h4: (abs(s(h1) - s(h3)) + s(h2), abs(h2 - h4) + h1)),
        parts(absolute), parts(lambda h1, h2, h3, h4: (h1 ^ h4, h2 & h3)),
        parts(lambda h1, h2, h3, h4: (h1 + h3, h2 + h4)),
        parts(lambda h1, h2, h3, h4: (min(s(h1), s(h3)), min(s(h2), s(h4)))),
        parts(lambda h1, h2, h3, h4: (max(h1, h3), max(h2, h4))),
        lambda a, b: s(a & 0xFFFF) * s(b & 0xFFFF) & 0xFFFFFFFF,
        lambda a, b: (a >> 16) * (b >> 16) + a & 0xFFFFFFFF)
