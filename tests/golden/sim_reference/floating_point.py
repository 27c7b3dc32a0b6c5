"""Floating-point arithmetic and conversion [PTX ISA 9.7.3, 9.7.4, 9.7.9.21]."""
import math
import re

from ieee import BF16, F16, F32, F64, RM, RN, RNA, RP, RZ, Format, convert
from registry import golden

MODES = (RN, RZ, RM, RP)


def rows(kernel, *functions):
    """The output, which is the last argument: for each function a row with its result for every lane."""
    inputs = [arg.values for arg in kernel.args[:-1]]
    return {len(inputs): [f(*lane) for f in functions for lane in zip(*inputs)]}


@golden("fma_one_rounding")
def fma_one_rounding(kernel):
    return rows(kernel, F32.fma, lambda a, b, c: F32.add(F32.mul(a, b), c),
                lambda a, b, c: F32.fma(a ^ F32.sign, b, c))


@golden("fma_one_rounding_f64")
def fma_one_rounding_f64(kernel):
    return rows(kernel, *[lambda a, b, c, m=m: F64.fma(a, b, c, m) for m in MODES],
                lambda a, b, c: F64.add(F64.mul(a, b), c))


@golden("fma_saturate")
def fma_saturate(kernel):
    def fma(mode, flush):
        def run(*words):
            if flush:
                return F32.saturate(F32.flush(F32.fma(*map(F32.flush, words), mode)))
            return F32.saturate(F32.fma(*words, mode))
        return run
    return rows(kernel, *[fma(m, flush) for flush in (False, True) for m in MODES])


@golden("flush_to_zero")
def flush_to_zero(kernel):
    def flushed(operation):
        return lambda *words: F32.flush(operation(*map(F32.flush, words)))

    def less(a, b):
        return int(F32.minmax([a, b], True) == b != a and bool(a & ~F32.sign or b & ~F32.sign)
                   and not F32.is_nan(a))

    def ceiling(word):
        if F32.is_inf(word):
            return 0x80000000 if word & F32.sign else 0x7FFFFFFF
        return max(-2**31, min(2**31 - 1, math.ceil(F32.value(word)))) & 0xFFFFFFFF

    def truncated(word):
        if F32.is_inf(word):
            return 0x80000000 if word & F32.sign else 0x7FFFFFFF
        return max(-2**31, min(2**31 - 1, math.trunc(F32.value(word)))) & 0xFFFFFFFF
    return rows(
        kernel, flushed(F32.add), flushed(F32.sub), flushed(F32.mul), F32.mul,
        flushed(lambda a, b: F32.fma(a, b, b)), flushed(F32.div),
        flushed(lambda a, b: F32.sqrt(a)), flushed(lambda a, b: F32.div(F32.one, a)),
        flushed(lambda a, b: F32.minmax([a, b], False)),
        flushed(lambda a, b: F32.minmax([a, b], True)),
        lambda a, b: less(F32.flush(a), F32.flush(b)), less,
        lambda a, b: truncated(F32.flush(a)), lambda a, b: ceiling(F32.flush(a)),
        lambda a, b: ceiling(a))


@golden("divide_and_root_f32")
def divide_and_root_f32(kernel):
    return divide_and_root(kernel, F32)


@golden("divide_and_root_f64")
def divide_and_root_f64(kernel):
    return divide_and_root(kernel, F64)


def divide_and_root(kernel, f):
    return rows(kernel, *[lambda a, b, m=m: f.div(a, b, m) for m in MODES],
                *[lambda a, b, m=m: f.div(f.one, a, m) for m in MODES],
                *[lambda a, b, m=m: f.sqrt(a, m) for m in MODES])


@golden("min_max_f16")
def min_max_f16(kernel):
    return min_max(kernel, F16, True)


@golden("min_max_bf16")
def min_max_bf16(kernel):
    return min_max(kernel, BF16, False)


def min_max(kernel, f, has_ftz):
    functions = []
    for largest in (False, True):
        for nan_wins, xorsign in ((False, False), (True, False), (False, True), (True, True)):
            functions.append(lambda a, b, l=largest, n=nan_wins, x=xorsign:
                             f.minmax([a, b], l, n, x))
        if has_ftz:
            functions.append(lambda a, b, l=largest: f.minmax([f.flush(a), f.flush(b)], l))
    return rows(kernel, *functions)


@golden("min_max_f64")
def min_max_f64(kernel):
    return rows(kernel, *2 * [lambda a, b: F64.minmax([a, b], False),
                              lambda a, b: F64.minmax([a, b], True)])


def relu(f, word):
    return 0 if word & f.sign and not f.is_nan(word) else word


@golden("bf16_arithmetic")
def bf16_arithmetic(kernel):
    def unless_nan(word, changed):
        return BF16.nan if BF16.is_nan(word) else changed
    return rows(kernel, lambda a, b, c: BF16.add(a, b), lambda a, b, c: BF16.sub(a, b),
                lambda a, b, c: BF16.mul(a, b), BF16.fma,
                lambda a, b, c: relu(BF16, BF16.fma(a, b, c)),
                lambda a, b, c: unless_nan(a, a & 0x7FFF),
                lambda a, b, c: unless_nan(a, a ^ 0x8000))


@golden("f16_arithmetic")
def f16_arithmetic(kernel):
    def flushed(operation):
        return lambda *words: F16.flush(operation(*map(F16.flush, words)))

    def saturated(operation):
        return lambda *words: F16.saturate(operation(*words))

    def unless_nan(change):
        return lambda a, b, c: F16.nan if F16.is_nan(a) else change(a)
    functions = []
    for operation in (F16.add, F16.sub, F16.mul):
        two = lambda a, b, c, o=operation: o(a, b)
        functions += [two, flushed(two), saturated(two), saturated(flushed(two))]
    functions += [F16.fma, flushed(F16.fma), saturated(F16.fma),
                  lambda a, b, c: relu(F16, F16.fma(a, b, c)),
                  lambda a, b, c: relu(F16, flushed(F16.fma)(a, b, c)),
                  unless_nan(lambda a: a & 0x7FFF), unless_nan(lambda a: F16.flush(a) & 0x7FFF),
                  unless_nan(lambda a: a ^ 0x8000), unless_nan(lambda a: F16.flush(a) ^ 0x8000)]
    return rows(kernel, *functions)


@golden("convert_f32_to_f16")
def convert_f32_to_f16(kernel):
    to = lambda mode: lambda a: convert(F32, F16, a, mode)
    return rows(kernel, *map(to, MODES), lambda a: F16.saturate(to(RN)(a)),
                lambda a: F16.saturate(to(RZ)(a)), lambda a: to(RN)(F32.flush(a)),
                lambda a: relu(F16, to(RN)(a)), lambda a: relu(F16, to(RZ)(a)))


@golden("convert_f32_to_bf16")
def convert_f32_to_bf16(kernel):
    to = lambda mode: lambda a: convert(F32, BF16, a, mode)
    return rows(kernel, to(RN), to(RZ), lambda a: relu(BF16, to(RN)(a)),
                lambda a: relu(BF16, to(RZ)(a)))


TF32 = Format(19, 10, None)  # the upper bits of a register; which NaN is not said


@golden("convert_f32_to_tf32")
def convert_f32_to_tf32(kernel):
    to = lambda mode: lambda a: convert(F32, TF32, a, mode) << 13
    positive = lambda mode: lambda a: relu(TF32, convert(F32, TF32, a, mode)) << 13
    return rows(kernel, to(RNA), to(RN), to(RZ), positive(RN), positive(RZ))


def operation(opcode):
    """The function of an opcode such as add.rn.ftz.sat.f32; pairs work on each half."""
    base, *modifiers = opcode.split(".")
    if modifiers[-1].endswith("x2"):
        each = operation(opcode[:-2])
        return lambda *words: (each(*[w >> 16 for w in words]) << 16 |
                               each(*[w & 0xFFFF for w in words]))
    f = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}[modifiers[-1]]
    mode = next((m for m in modifiers if m in MODES), RN)
    sign = f.sign
    functions = {
        "add": lambda a, b: f.add(a, b, mode), "sub": lambda a, b: f.sub(a, b, mode),
        "mul": lambda a, b: f.mul(a, b, mode), "fma": lambda a, b, c: f.fma(a, b, c, mode),
        "div": lambda a, b: f.div(a, b, mode), "rcp": lambda a: f.div(f.one, a, mode),
        "sqrt": lambda a: f.sqrt(a, mode),
        "abs": lambda a: f.nan if f.is_nan(a) else a & (sign - 1),
        "neg": lambda a: f.nan if f.is_nan(a) else a ^ sign,
        "copysign": lambda a, b: a & sign | b & (sign - 1)}
    for name in ("min", "max"):
        functions[name] = lambda a, b, largest=name == "max": f.minmax(
            [a, b], largest, "NaN" in modifiers, "xorsign" in modifiers)

    def run(*words):
        if "ftz" in modifiers:
            words = [f.flush(w) for w in words]
        result = functions[base](*words)
        result = f.flush(result) if "ftz" in modifiers else result
        result = f.saturate(result) if "sat" in modifiers else result
        return relu(f, result) if "relu" in modifiers else result
    return run


def by_opcodes(kernel):
    """For kernels of one instruction a row: "opcode %o, %in0...;", then its store."""
    found = re.findall(r"^  (\S+) %o((?:, %in\d)+);\n  st\.global", kernel.head, flags=re.M)
    assert len(found) * 32 == len(kernel.args[-1].values)
    chosen = [(operation(opcode), [int(n) for n in re.findall(r"%in(\d)", operands)])
              for opcode, operands in found]
    return rows(kernel, *[lambda *lane, f=f, at=at: f(*[lane[n] for n in at]) for f, at in chosen])


for name in ("float_arithmetic", "float_min_max", "half_arithmetic"):
    golden(name)(by_opcodes)


@golden("double_arithmetic")
def double_arithmetic(kernel):
    """The ISA leaves open which NaN an operation on f64 gives [9.7.3]: there the file has the GPU's."""
    last = len(kernel.args) - 1
    given = [int(word, 16) for line in kernel.expected.splitlines()
             if line.startswith(f"// {last}[") for word in line.split()[2:]]
    (wanted,) = by_opcodes(kernel).values()
    assert len(given) == len(wanted)
    return {last: [g if F64.is_nan(w) and F64.is_nan(g) else w for w, g in zip(wanted, given)]}
