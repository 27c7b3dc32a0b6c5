"""Matrix products and moves [PTX ISA 9.7.14]. Operands are chosen so that every partial sum is exact in
the accumulator: so the order of summation, which the ISA leaves open, does not matter."""
from conversion import signed
from ieee import BF16, F16, F32
from registry import golden


class Matrix:
    """A view of a buffer: element (i, j) is at i * row + j * column."""

    def __init__(self, values, row, column, f=None):
        self.values, self.row, self.column, self.f = values, row, column, f

    def __getitem__(self, at):
        word = self.values[at[0] * self.row + at[1] * self.column]
        return self.f.value(word) if self.f else word


def product(shape, a, b, c=None):
    """The numbers of A B + C."""
    m, n, k = shape
    return [[sum(a[i, x] * b[x, j] for x in range(k)) + (c[i, j] if c else 0) for j in range(n)]
            for i in range(m)]


def exact(f, number):
    word = f.round(number)
    assert f.value(word) == number, "the sum is not exact"
    return word


def mma(kernel, f, accumulator, depth, times):
    a, b, c, d = [arg.values for arg in kernel.args]
    result = product((16, 8, depth), Matrix(a, depth, 1, f), Matrix(b, 1, depth, f),
                     Matrix(c, 8, 1, accumulator))
    return {3: times * [exact(accumulator, v) for row in result for v in row]}


@golden("mma_f16")
def mma_f16(kernel):
    return mma(kernel, F16, F32, 32, 2)


@golden("mma_bf16")
def mma_bf16(kernel):
    return mma(kernel, BF16, F32, 32, 2)


@golden("mma_f16_accumulators")
def mma_f16_accumulators(kernel):
    return mma(kernel, F16, F16, 16, 1)


@golden("mma_special_values")
def mma_special_values(kernel):
    """The left eight columns of A, but an infinity or NaN anywhere in a row meets zeros."""
    a, out = kernel.args[0].values, []
    for i in range(16):
        row = a[16 * i:16 * i + 16]
        for j in range(8):
            others = [w for k, w in enumerate(row) if k != j]
            if F16.is_nan(row[j]) or any(w & 0x7FFF >= F16.inf for w in others):
                out.append(F32.nan)
            elif F16.is_inf(row[j]):
                out.append(F32.inf | (F32.sign if row[j] & F16.sign else 0))
            else:
                out.append(F32.round(F16.value(row[j])))
    return {3: out}


@golden("mma_tf32")
def mma_tf32(kernel):
    a, b, c, d = [arg.values for arg in kernel.args]
    left, right = Matrix(a, 8, 1, F32), Matrix(b, 1, 8, F32)
    first = product((16, 8, 8), left, right, Matrix(c, 8, 1, F32))
    half = product((16, 8, 4), left, right)
    return {3: [exact(F32, v) for row in first for v in row] +
            [exact(F32, v + w) for x, y in zip(first, half) for v, w in zip(x, y)]}


@golden("mma_int8")
def mma_int8(kernel):
    a, b, c, d = [arg.values for arg in kernel.args]
    start, out = [signed(v, 32) for v in c], []
    for a_signed, b_signed, clamp in ((1, 1, 0), (0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1)):
        left = Matrix([signed(v, 8) if a_signed else v for v in a], 32, 1)
        right = Matrix([signed(v, 8) if b_signed else v for v in b], 1, 32)
        for row in product((16, 8, 32), left, right, Matrix(start, 8, 1)):
            for v in row:
                out.append((min(max(v, -2**31), 2**31 - 1) if clamp else v) & 0xFFFFFFFF)
    return {3: out}


def wmma(kernel, f, accumulator, products, size):
    """products: (shape, A by rows, B by rows, distance of lines in A and B, D by rows); lines of C
    and D are 32 apart, one D is `size` elements."""
    a, b, c, d = [arg.values for arg in kernel.args]
    out = []
    for shape, a_rows, b_rows, apart, d_rows in products:
        left = Matrix(a, *((apart, 1) if a_rows else (1, apart)), f)
        right = Matrix(b, *((apart, 1) if b_rows else (1, apart)), f)
        part = [0] * size
        for i, row in enumerate(product(shape, left, right, Matrix(c, 32, 1, accumulator))):
            for j, v in enumerate(row):
                part[32 * i + j if d_rows else 32 * j + i] = exact(accumulator, v)
        out += part
    return {3: out}


SHAPES = ((16, 16, 16), (32, 8, 16), (8, 32, 16))


@golden("wmma_f16")
def wmma_f16(kernel):
    return wmma(kernel, F16, F32, [((16, 16, 16), a, b, 24, b) for a in (True, False)
                                   for b in (True, False)], 512)


@golden("wmma_bf16")
def wmma_bf16(kernel):
    return wmma(kernel, BF16, F32, [(shape, True, False, 24, True) for shape in SHAPES], 1024)


@golden("wmma_f16_accumulators")
def wmma_f16_accumulators(kernel):
    return wmma(kernel, F16, F16, [(shape, False, True, 32, True) for shape in SHAPES], 1024)


@golden("wmma_shared_memory")
def wmma_shared_memory(kernel):
    tile = Matrix(kernel.args[0].values, 16, 1, F16)
    square = product((16, 16, 16), tile, tile)
    return {1: [exact(F32, 2 * square[i][j] + 1) for j in range(16) for i in range(16)]}


def register(tile, matrix, lane, transposed):
    """What ldmatrix gives a lane of one 8 by 8 matrix; rows are addressed in order."""
    rows = tile[64 * matrix:64 * matrix + 64]
    line, pair = lane // 4, 2 * (lane % 4)
    low, high = [(rows[8 * (pair + k) + line] if transposed else rows[8 * line + pair + k])
                 for k in range(2)]
    return high << 16 | low


@golden("matrix_moves")
def matrix_moves(kernel):
    tile, out = kernel.args[0].values, []
    for count in (1, 2, 4):
        for transposed in (False, True):
            registers = [[register(tile, m, t, transposed) for t in range(32)]
                         for m in range(count)]
            out += sum(registers, [])
    for count in (1, 2, 4):
        for transposed in (False, True):
            stored = [0] * 256
            for m in range(count):
                for t in range(32):
                    for k in range(2):
                        line, column = t // 4, 2 * (t % 4) + k
                        if transposed:
                            line, column = column, line
                        # The lowest bit of row addresses is inverted.
                        at = 8 * ((8 * m + line) ^ 1) + column
                        stored[at] = registers[m][t] >> 16 * k & 0xFFFF
            out += [stored[2 * w + 1] << 16 | stored[2 * w] for w in range(128)]
    return {1: out}
