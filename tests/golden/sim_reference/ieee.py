"""IEEE 754 arithmetic on bits with fractions: every operation is exact and rounded once."""
import math
from fractions import Fraction

RN, RZ, RM, RP, RNA = "rn", "rz", "rm", "rp", "rna"


class Format:
    """A binary interchange format. `nan` is what operations give [PTX ISA 9.7.3, 9.7.4]."""

    def __init__(self, bits, mantissa, nan):
        self.bits, self.mantissa, self.nan = bits, mantissa, nan
        self.sign = 1 << (bits - 1)
        self.bias = (1 << (bits - mantissa - 2)) - 1
        self.inf = ((1 << (bits - mantissa - 1)) - 1) << mantissa
        self.one = self.bias << mantissa

    def is_nan(self, word):
        return word & (self.sign - 1) > self.inf

    def is_inf(self, word):
        return word & (self.sign - 1) == self.inf

    def negative(self, word):
        return bool(word & self.sign)

    def value(self, word):
        """The number of a finite word."""
        magnitude = word & (self.sign - 1)
        exponent, fraction = magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1)
        if exponent:
            fraction |= 1 << self.mantissa
        power = max(exponent, 1) - self.bias - self.mantissa
        number = Fraction(fraction) * Fraction(2) ** power
        return -number if word & self.sign else number

    def flush(self, word):
        """Subnormals to zeros of their sign (.ftz)."""
        return word & self.sign if word & (self.sign - 1) < (1 << self.mantissa) else word

    def round(self, number, mode=RN, zero_sign=0):
        """The word of a number; zero_sign is the sign bit of an exact zero."""
        if number == 0:
            return zero_sign
        sign, magnitude = (self.sign, -number) if number < 0 else (0, number)
        exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        if Fraction(2) ** exponent > magnitude:
            exponent -= 1
        exponent = max(exponent, 1 - self.bias)
        scaled = magnitude / Fraction(2) ** (exponent - self.mantissa)
        whole = math.floor(scaled)
        rest = scaled - whole
        half = Fraction(1, 2)
        up = {RN: rest > half or (rest == half and whole & 1), RNA: rest >= half, RZ: False,
              RM: rest > 0 and sign, RP: rest > 0 and not sign}[mode]
        # The integer of exponent and fraction: a carry out of the fraction moves the exponent.
        word = (exponent + self.bias - 1 << self.mantissa) + whole + bool(up)
        if word >= self.inf:
            away = mode in (RN, RNA) or (mode == RP and not sign) or (mode == RM and sign)
            word = self.inf if away else self.inf - 1
        return sign | word

    def saturate(self, word):
        """To [0, 1]; NaN to +0 (.sat)."""
        if self.is_nan(word) or word & self.sign:
            return 0
        return min(word, self.one)

    def fma(self, a, b, c, mode=RN):
        sign = (a ^ b) & self.sign
        infinite = self.is_inf(a) or self.is_inf(b)
        zero = not a & (self.sign - 1) or not b & (self.sign - 1)
        if any(map(self.is_nan, (a, b, c))) or (infinite and zero):
            return self.nan
        if infinite:
            return self.nan if self.is_inf(c) and (c & self.sign) != sign else sign | self.inf
        if self.is_inf(c):
            return c
        exact = self.value(a) * self.value(b) + self.value(c)
        # An exact zero: the common sign of both terms, else -0 only when rounding down.
        both = sign if zero and not c & (self.sign - 1) and (c & self.sign) == sign else None
        down = self.sign if mode == RM else 0
        return self.round(exact, mode, down if both is None else both)

    def add(self, a, b, mode=RN):
        return self.fma(self.one, a, b, mode)

    def sub(self, a, b, mode=RN):
        return self.nan if self.is_nan(b) else self.add(a, b ^ self.sign, mode)

    def mul(self, a, b, mode=RN):
        sign = (a ^ b) & self.sign
        return self.fma(a, b, sign, mode)

    def div(self, a, b, mode=RN):
        sign = (a ^ b) & self.sign
        if self.is_nan(a) or self.is_nan(b):
            return self.nan
        zero_a, zero_b = not a & (self.sign - 1), not b & (self.sign - 1)
        if (self.is_inf(a) and self.is_inf(b)) or (zero_a and zero_b):
            return self.nan
        if self.is_inf(a) or zero_b:
            return sign | self.inf
        if self.is_inf(b) or zero_a:
            return sign
        return self.round(self.value(a) / self.value(b), mode)

    def sqrt(self, a, mode=RN):
        if not a & (self.sign - 1):
            return a
        if self.is_nan(a) or a & self.sign:
            return self.nan
        if self.is_inf(a):
            return a
        number = self.value(a)
        scale = 4 ** 1200  # far more bits than any format has; what is cut off becomes a sticky bit
        scaled = number * scale
        assert scaled.denominator == 1
        root = math.isqrt(scaled.numerator)
        exact = Fraction(root) if root * root == scaled.numerator else Fraction(2 * root + 1, 2)
        return self.round(exact / 2 ** 1200, mode)

    def minmax(self, words, largest, nan_wins=False, xorsign=False):
        """min and max: -0 below +0, NaN loses unless .NaN; .xorsign.abs [9.7.3.11]."""
        sign = 0
        for word in words:
            sign ^= word & self.sign
        if xorsign:
            words = [w & (self.sign - 1) for w in words]
        numbers = [w for w in words if not self.is_nan(w)]
        if not numbers or (nan_wins and len(numbers) < len(words)):
            return self.nan
        order = lambda w: -(w & (self.sign - 1)) - 1 if w & self.sign else w
        best = max(numbers, key=order) if largest else min(numbers, key=order)
        return best | sign if xorsign else best


F16 = Format(16, 10, 0x7FFF)
BF16 = Format(16, 7, 0x7FFF)
F32 = Format(32, 23, 0x7FFFFFFF)
F64 = Format(64, 52, 0x7FF8 << 48)


def convert(source, target, word, mode=RN):
    """cvt between formats; a NaN becomes the target's."""
    if source.is_nan(word):
        return target.nan
    sign = target.sign if source.negative(word) else 0
    if source.is_inf(word):
        return sign | target.inf
    return target.round(source.value(word), mode, sign)


def pair(low, high):
    return high << 16 | low


def halves(word):
    return word & 0xFFFF, word >> 16
