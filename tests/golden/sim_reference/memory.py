"""Memory: vectors, generic addresses, parameters, orderings, atomics [PTX ISA 8, 9.7.9, 9.7.13]."""
from conversion import signed
from registry import golden


def little(data):
    return int.from_bytes(bytes(data), "little")


@golden("vector_accesses")
def vector_accesses(kernel):
    given = kernel.args[0].values
    out, moved, sums = [], [], []
    for at in range(0, 512, 16):
        lane = given[at:at + 16]
        pairs = [lane[i:i + 2] for i in range(8, 16, 2)]
        out += lane[3::-1] + [lane[5], lane[4], lane[6], lane[6]] + sum(reversed(pairs), [])
        words = [lane[i:i + 4] for i in range(0, 16, 4)]
        words = [words[1], words[0], words[3], words[2]]      # st.shared.v4
        words = words[2:] + words[:2]                         # the two 64-bit halves change places
        low = words[0] + words[1]
        quarters = [low[i:i + 2] for i in range(0, 8, 2)]
        moved += sum(reversed(quarters), []) + words[3] + words[2]
        sums.append(sum(signed(b, 8) for b in lane[12:16]) & 0xFFFFFFFF)
    return {1: out, 2: moved, 3: sums}


@golden("generic_addresses")
def generic_addresses(kernel):
    given = kernel.args[0].values
    taps = [11, 22, 33, 0xFFFFFFF0]
    sums, windows, back, stored = [], [], [], []
    for t in range(32):
        word = given[t]
        four = [taps, given[:4], [t, word, 3, word], [word, t, word, 7]][t % 4]
        sums.append(sum(k * v for k, v in zip((1, 3, 5, 7), four)) & 0xFFFFFFFF)
        windows.append([0, 1, 2, 4][t % 4])
        back.append([0, four[3], four[1], four[2]][t % 4])
        stored.append((word + t) & 0xFFFFFFFF)
    return {1: sums + windows + back + stored}


@golden("parameter_space")
def parameter_space(kernel):
    byte, short, word, real, eight = [arg.values[0] for arg in kernel.args[:5]]
    assert real == 0xC004000000000000  # -2.5
    low, high = eight & 0xFFFFFFFF, eight >> 32
    return {5: [byte, signed(byte, 8) & 0xFFFFFFFF, signed(short, 16) & 0xFFFFFFFF, short,
                word, word >> 16, -2 & 0xFFFFFFFF, real >> 32, (high - low) & 0xFFFFFFFF,
                eight >> 24 & 0xFF]}


@golden("volatile_flags")
def volatile_flags(kernel):
    return {0: [41, 42, 1, 0], 1: [42, 0, 42, 1]}


@golden("release_acquire")
def release_acquire(kernel):
    data = [0] * 16
    data[0:10:2] = [100, 101, 102, 103, 104]
    return {0: [100, 101, 102, 103, 104, 0, 0, 0], 1: data, 2: [1, 1, 1, 1, 2, 0, 0, 0]}


@golden("fences_between_blocks")
def fences_between_blocks(kernel):
    data = [0] * 16
    data[0:12:2] = range(100, 106)
    return {0: [100, 101, 102, 103, 104, 105, 0, 0], 1: data, 2: [1] * 6 + [0, 0]}


@golden("fences_within_a_block")
def fences_within_a_block(kernel):
    return {0: [*range(200, 207), 0]}


@golden("store_buffering")
def store_buffering(kernel):
    return {0: [0, 100, 0, 0], 1: [1] * 200, 2: [0] * 200, 3: [200, 2]}


@golden("cache_operators")
def cache_operators(kernel):
    return {1: kernel.args[0].values * 12}


def apply(name, bits, word, b, c):
    """The word after an atom operation [9.7.13.6]."""
    operation, kind = name.split(".")
    order = (lambda v: signed(v, bits)) if kind[0] == "s" else (lambda v: v)
    results = {"add": lambda: (word + b) % (1 << bits), "exch": lambda: b,
               "min": lambda: min(word, b, key=order), "max": lambda: max(word, b, key=order),
               "and": lambda: word & b, "or": lambda: word | b, "xor": lambda: word ^ b,
               "inc": lambda: 0 if word >= b else word + 1,
               "dec": lambda: b if word == 0 or word > b else word - 1,
               "cas": lambda: c if word == b else word}
    return results[operation]()


def atomics(kernel, bits, names):
    a, b, c = [kernel.args[0].values[16 * i:16 * i + 16] for i in range(3)]
    old, left = [], []
    for name in names:
        for lane in zip(a, b, c):
            old.append(lane[0])
            word = apply(name, bits, *lane)
            if name.split(".")[0] not in ("cas", "exch"):  # red has neither
                word = apply(name, bits, word, lane[2], 0)
            left.append(word)
    return {1: old, 2: left}


B32 = ("add.u32", "exch.b32", "min.s32", "min.u32", "max.s32", "max.u32", "and.b32", "or.b32",
       "xor.b32", "inc.u32", "dec.u32", "cas.b32", "add.s32")
B64 = ("add.u64", "exch.b64", "min.s64", "min.u64", "max.s64", "max.u64", "and.b64", "or.b64",
       "xor.b64", "cas.b64")
for space in ("global", "shared", "generic"):
    golden(f"atomics_{space}_b32")(lambda kernel: atomics(kernel, 32, B32))
    golden(f"atomics_{space}_b64")(lambda kernel: atomics(kernel, 64, B64))


@golden("atomics_scopes")
def atomics_scopes(kernel):
    return {0: [3 * 96] * 16, 1: [sum(range(96))] * 16 + [96, 95] * 4}
