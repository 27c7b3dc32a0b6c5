"""Conversions between halves, integers and fp8, and comparisons [PTX ISA 9.7.6, 9.7.9.21]."""
import math
from fractions import Fraction

from floating_point import MODES, relu, rows
from ieee import BF16, F16, F32, RM, RN, RP, RZ, convert
from registry import golden

ROUND_TO_INTEGER = {RN: round, RZ: math.trunc, RM: math.floor, RP: math.ceil}  # round: ties to even


def signed(word, bits):
    return word - (1 << bits) if word >> (bits - 1) & 1 else word


def to_integer(f, word, mode, bits, is_signed, shown=32):
    """Rounded, then clamped to the type, then extended to `shown` bits."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if f.is_inf(word):
        value = low if word & f.sign else high
    else:
        value = min(max(ROUND_TO_INTEGER[mode](f.value(word)), low), high)
    return value & ((1 << shown) - 1)


@golden("convert_f16_to_integer")
def convert_f16_to_integer(kernel):
    forms = [(mode, 32, s) for s in (True, False) for mode in MODES]
    forms += [(mode, 16, s) for s in (True, False) for mode in (RN, RZ)]
    forms += [(RZ, 8, True), (RZ, 8, False), (RN, 64, True), (RN, 64, False)]
    return rows(kernel, *[lambda a, form=form: to_integer(F16, a, *form) for form in forms])


@golden("convert_bf16_to_integer")
def convert_bf16_to_integer(kernel):
    forms = [(mode, 32, s) for s in (True, False) for mode in MODES]
    return rows(kernel, *[lambda a, form=form: to_integer(BF16, a, *form) for form in forms])


@golden("convert_s32_to_halves")
def convert_s32_to_halves(kernel):
    return rows(kernel, *[lambda a, f=f, m=m: f.round(Fraction(signed(a, 32)), m)
                          for f in (F16, BF16) for m in MODES])


@golden("convert_u64_to_floats")
def convert_u64_to_floats(kernel):
    return rows(kernel, *[lambda a, f=f, m=m: f.round(Fraction(a), m)
                          for f, modes in ((BF16, MODES), (F32, MODES), (F16, (RN, RZ)))
                          for m in modes])


@golden("convert_between_halves")
def convert_between_halves(kernel):
    def integral(mode):
        def run(word):
            if F16.is_inf(word):
                return word
            return F16.round(Fraction(ROUND_TO_INTEGER[mode](F16.value(word))), RN, word & F16.sign)
        return run
    return rows(kernel, lambda a: convert(F16, F32, a), lambda a: convert(F16, F32, a),
                lambda a: convert(BF16, F32, a), lambda a: convert(F16, BF16, a),
                lambda a: convert(BF16, F16, a), *map(integral, MODES))


class Fp8:
    """e4m3 and e5m2 of the OCP's 8-bit floating point: codes to numbers and back."""

    def __init__(self, mantissa, bias, largest):
        self.mantissa, self.bias, self.largest = mantissa, bias, largest

    def value(self, code):
        exponent, fraction = (code & 0x7F) >> self.mantissa, code & ((1 << self.mantissa) - 1)
        if exponent == 0:
            return Fraction(fraction) * Fraction(2) ** (1 - self.bias - self.mantissa)
        return (Fraction(fraction, 1 << self.mantissa) + 1) * Fraction(2) ** (exponent - self.bias)

    def nearest(self, word):
        """rn.satfinite of an f32."""
        if F32.is_nan(word):
            return 0x7F
        sign = 0x80 if word & F32.sign else 0
        if F32.is_inf(word):
            return sign | self.largest
        target = abs(F32.value(word))
        return sign | min(range(self.largest + 1),
                          key=lambda c: (abs(self.value(c) - target), c & 1))

    def half(self, code):
        sign = F16.sign if code & 0x80 else 0
        magnitude = code & 0x7F
        if magnitude > self.largest:
            return sign | F16.inf if self.mantissa == 2 and magnitude == 0x7C else F16.nan
        return F16.round(self.value(code), RN) | sign


E4M3, E5M2 = Fp8(3, 7, 0x7E), Fp8(2, 15, 0x7B)


@golden("convert_fp8")
def convert_fp8(kernel):
    def positive(code):
        return 0 if code & 0x80 else code
    return rows(kernel, lambda a, b: E4M3.nearest(a) << 8 | 0x38,
                lambda a, b: 0x3C << 8 | E5M2.nearest(a),
                lambda a, b: positive(E4M3.nearest(a)) << 8 | 0x38,
                *[lambda a, b, f=f: f.half(b >> 8) << 16 | f.half(b & 0xFF) for f in (E4M3, E5M2)])


ORDERS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(f, name, a, b):
    unordered = f.is_nan(a) or f.is_nan(b)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    if unordered:
        return len(name) == 3
    key = lambda w: (w & f.sign - 1) * (-1 if w & f.sign else 1)
    order = "<" if key(a) < key(b) else ">" if key(a) > key(b) else "="
    return order in ORDERS[name[:2]]


COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num",
               "nan")


@golden("compare_f16")
def compare_f16(kernel):
    return rows(kernel, *[lambda a, b, c=c: int(compare(F16, c, a, b)) for c in COMPARISONS])


@golden("compare_bf16")
def compare_bf16(kernel):
    return rows(kernel, *[lambda a, b, c=c: int(compare(BF16, c, a, b)) for c in COMPARISONS])


@golden("compare_pairs")
def compare_pairs(kernel):
    def each(name, a, b):
        return compare(F16, name, a & 0xFFFF, b & 0xFFFF), compare(F16, name, a >> 16, b >> 16)

    def bits(name):
        return lambda a, b: each(name, a, b)[0] + 2 * each(name, a, b)[1]

    def ones(name):  # 1.0 where it holds
        return lambda a, b: 0x3C00 * each(name, a, b)[0] | 0x3C000000 * each(name, a, b)[1]
    # setp.cmp.op p|q: p = cmp op c, q = !cmp op c.
    positive = lambda a: signed(a, 32) > 0
    both = lambda a, b: (a < b and positive(a)) + 2 * (not a < b and positive(a))

    def either(a, b):
        less, c = signed(a, 32) < signed(b, 32), not positive(a)
        return (less != c) + 2 * ((not less) != c)
    return rows(kernel, bits("lt"), bits("geu"), ones("gt"), ones("ne"), both, either,
                lambda a, b: 0xFFFFFFFF if a != b or positive(a) else 0)
