"""Predication, calls and branches [PTX ISA 7, 9.3, 9.7.12]."""
import math

from registry import golden

ALL = 0xFFFFFFFF


@golden("predication")
def predication(kernel):
    rows = [[], [], [], [], [], []]
    for t, x in enumerate(kernel.args[0].values):
        odd = t % 2 == 1
        chosen = t >= 16 if odd else t < 16
        rows[0].append(5 if odd else x)
        rows[1].append(t if odd else x)
        rows[2].append(1 if odd else 2)
        rows[3].append(chosen + 8 * chosen)
        rows[4].append(3 * t if odd else 9)
        rows[5].append(0 if odd and chosen else 3 if odd != chosen else 4)
    return {1: sum(rows, []), 2: [sum(range(1, 32, 2))]}


def collatz_steps(n):
    steps = 0
    while n > 1:
        n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
    return steps


@golden("calls_direct")
def calls_direct(kernel):
    x = kernel.args[0].values
    return {1: [v & 0xFFFF for v in x] + [(v + (v & 0xFF)) & ALL for v in x] +
            [t * t for t in range(32)] + [1000 * collatz_steps(t) for t in range(32)]}


@golden("calls_indirect")
def calls_indirect(kernel):
    table = [lambda a, b: (a + b) & ALL, lambda a, b: (a - b) & ALL, lambda a, b: a * b & ALL,
             lambda a, b: a ^ b]
    rows = [[], [], []]
    for t, x in enumerate(kernel.args[0].values):
        f = table[t % 4]
        value = f(x, t)
        rows[0].append(value)
        value = table[1 if t < 13 else 0](x, value)
        rows[1].append(value)
        for _ in range(t % 3 + 1):
            value = f(12345, f(value, 3))
        rows[2].append(value)
    return {1: sum(rows, [])}


@golden("calls_recursive")
def calls_recursive(kernel):
    fibonacci = [0, 1]
    while len(fibonacci) < 11:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    return {0: [fibonacci[t % 11] for t in range(32)]}


@golden("branch_tables")
def branch_tables(kernel):
    values, counts = [], []
    for t, program in enumerate(kernel.args[0].values):
        value, steps = t, 0
        while steps < 10:
            code, program, steps = program & 7, program >> 3, steps + 1
            if code == 0:
                break
            if code == 5:
                program >>= 3
            value = {1: value + 1, 2: 2 * value, 3: value * value, 4: ~value, 5: value,
                     6: value + 1, 7: value // 3}[code] & ALL
        values.append(value)
        counts.append(steps)
    return {1: values + counts}


@golden("loops_that_differ")
def loops_that_differ(kernel):
    out = []
    for x in kernel.args[0].values:
        value = 0
        for k in range(1, 13):
            value = (31 * value + math.gcd(x, 30 * k)) & ALL
        out.append(value)
    return {1: out}
