"""Operations of a warp and indices of threads [PTX ISA 9.7.9.6, 9.7.13, 10]."""
from functools import reduce

from conversion import signed
from registry import golden

LANES = range(32)
ALL = 0xFFFFFFFF


def mask_of(lanes):
    return sum(1 << lane for lane in lanes)


def shuffle(mode, values, lane, amount, c):
    """The value and the predicate, after the pseudocode of shfl.sync [9.7.9.6]."""
    clamp, segments = c & 31, c >> 8 & 31
    last = (lane & segments) | (clamp & ~segments & 31)
    source = {"up": lane - amount, "down": lane + amount, "bfly": lane ^ amount,
              "idx": (lane & segments) | (amount & ~segments & 31)}[mode]
    inside = source >= last if mode == "up" else source <= last
    return values[source if inside else lane], inside


@golden("shuffle_modes")
def shuffle_modes(kernel):
    values, out = kernel.args[0].values, []
    for mode in ("up", "down", "bfly", "idx"):
        for width in (32, 16, 8, 4, 2, 1):
            for amount in (0, 3, 30) if mode == "idx" else (0, 1, 5):
                if mode in ("down", "bfly") and width < 32 and amount == 5:
                    continue
                c = 32 - width << 8 | (0 if mode == "up" else 31)
                for lane in LANES:
                    value, inside = shuffle(mode, values, lane, amount, c)
                    out.append(value ^ inside)
    out += [values[v & 31] for v in values]
    for lane in LANES:
        value, inside = shuffle("down", values, lane, 2, 0x1803)
        out.append(value if inside else 0)
    return {1: out}


@golden("shuffle_member_masks")
def shuffle_member_masks(kernel):
    x = kernel.args[0].values
    first = [x[t + 3] if t + 3 < 8 else 77 for t in range(8)]
    second = [x[20]] * 13
    third = [0] + [x[t ^ 1] for t in range(22, 32)]
    return {1: first + second + third + [x[7]] * 8 + [5] + [x[t - 1] for t in range(9, 21)] +
            [x[52 - t] for t in range(21, 32)]}


@golden("vote_member_masks")
def vote_member_masks(kernel):
    odd = [bool(v & 1) for v in kernel.args[0].values]
    ballot = mask_of(t for t in LANES if odd[t])
    low, high = odd[:20], odd[20:]
    bits = [any(low) + 2 + 4 * (len(set(low)) == 1)] * 20 + [0 + 2 * all(high) + 4] * 12
    return {1: [ballot] * 32 + [ballot ^ ALL] * 32 + [ballot & 0xFFFFF] * 20 +
            [ballot & 0xFFF00000] * 12 + bits + [0xFFF00000] * 32}


@golden("match_member_masks")
def match_member_masks(kernel):
    x = kernel.args[0].values

    def same(members, key):
        return lambda t: mask_of(m for m in members if key(m) == key(t))
    everyone = same(LANES, lambda t: x[t])
    wide = same(LANES, lambda t: (x[t], t & 1))
    parts = [same(LANES[0::2], lambda t: x[t]), same(LANES[1::2], lambda t: x[t])]
    assert len(set(x)) > 1 and len(set(x[1::2])) > 1
    return {1: [everyone(t) for t in LANES] + [wide(t) for t in LANES] + [0] * 32 + [ALL] * 32 +
            [parts[t & 1](t) for t in LANES] + [0 if t & 1 else 0x55555555 for t in LANES]}


def reductions(values):
    as_signed = [signed(v, 32) for v in values]
    return [sum(values) & ALL, sum(values) & ALL, min(values), max(values), min(as_signed) & ALL,
            max(as_signed) & ALL, reduce(lambda a, b: a & b, values),
            reduce(lambda a, b: a | b, values), reduce(lambda a, b: a ^ b, values)]


@golden("redux_member_masks")
def redux_member_masks(kernel):
    x = kernel.args[0].values
    thirds = [reductions(x[k::3]) for k in range(3)]
    return {1: [value for value in reductions(x) for t in LANES] +
            [thirds[t % 3][k] for k in range(9) for t in LANES]}


@golden("warp_barrier_masks")
def warp_barrier_masks(kernel):
    words = list(kernel.args[0].values)
    seen = [0] * 32
    for _ in range(5):
        seen[:12] = [words[11 - t] for t in range(12)]
        words[:12] = [(seen[t] + t) & ALL for t in range(12)]
    seen[12:] = [words[12 if t == 31 else t + 1] for t in range(12, 32)]
    words[12:] = [(v + 1) & ALL for v in seen[12:]]
    return {1: seen + [words[t ^ 31] for t in LANES]}


@golden("activemask_in_branches")
def activemask_in_branches(kernel):
    return {1: [1] * 32 + [0x201] * 32}


@golden("special_registers")
def special_registers(kernel):
    out = []
    for cz, cy, cx in ((z, y, x) for z in range(2) for y in range(2) for x in range(2)):
        for n in range(60):
            z, y, x, lane = n // 12, n // 4 % 3, n % 4, n % 32
            below = (1 << lane) - 1
            out += [10000 * z + 100 * y + x, 10000 * cz + 100 * cy + cx, lane, 205]
            out += [below, 2 * below + 1, ~(2 * below + 1) & ALL, ~below & ALL]
    return {0: out}
