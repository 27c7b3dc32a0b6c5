"""Barriers of a block [PTX ISA 9.7.13.1]."""
from registry import golden


@golden("barrier_phases")
def barrier_phases(kernel):
    ring = [t * t for t in range(128)]
    for _ in range(20):
        ring = [(ring[(t + 1) % 128] * 3 + t) & 0xFFFFFFFF for t in range(128)]
    return {0: ring}


@golden("barrier_pipeline")
def barrier_pipeline(kernel):
    sums = [0] * 64
    for step in range(8):
        sums = [(3 * s + 1000 * step + (lane ^ 63)) & 0xFFFFFFFF for lane, s in enumerate(sums)]
    return {0: sums}


@golden("barrier_reductions")
def barrier_reductions(kernel):
    third = [t % 3 == 0 for t in range(128)]
    out = []
    for t in range(128):
        pair = t // 32 in (1, 2)
        out += [sum(third), 128 - sum(third), 1 | 0 | 4 | 0,
                sum(third[32:96]) if pair else 0xFFFF]
        out += [0, 0, 0, 0] if t < 32 else [int(pair), sum(third[32:]), 1, 1]
    return {0: out}


@golden("barrier_exited_threads")
def barrier_exited_threads(kernel):
    live = set(range(160))
    out, totals = [0] * 160, []
    leave = [lambda t: t < 32 and t % 2 == 1, lambda t: 32 <= t < 96, lambda t: 130 <= t < 159,
             lambda t: False]
    for gone in leave:
        for t in live:
            out[t] = len(live)
        totals.append(len(live))
        live -= {t for t in live if gone(t)}
    return {0: out, 1: totals}


@golden("barrier_all_names")
def barrier_all_names(kernel):
    # Its partner's word, and its own back from the partner.
    return {0: [7 * (t ^ 32) * 10000 + 7 * t for t in range(1024)]}


@golden("barrier_in_branches")
def barrier_in_branches(kernel):
    return {0: [(t ^ 16) * 3 if t & 16 else (t ^ 16) + 500 + 10000 for t in range(64)]}
