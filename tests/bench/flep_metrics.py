"""The figures of FLEP's evaluation from measured times. Pure functions; microseconds throughout."""
import statistics

SWITCH_US = 170  # what a preemption costs at least without MPS; docs/results/flep.md

mean = statistics.mean
median = statistics.median


def antt(turnarounds, alone):
    """Average normalised turnaround time (Eyerman, Eeckhout, IEEE Micro 2008): lower is better."""
    return mean(both / by_itself for both, by_itself in zip(turnarounds, alone, strict=True))


def least_antt(alone, switch_us=SWITCH_US):
    """The ANTT when the shortest runs first as soon as it is there, each start costing a switch and
    the first-launched, which was stopped, one more. `alone` in launch order."""
    turnarounds, elapsed = {}, 0.0
    order = sorted(range(len(alone)), key=lambda i: alone[i])
    for place, which in enumerate(order):
        elapsed += alone[which]
        switches = place + 1 if which != 0 or place > 0 else 0
        turnarounds[which] = elapsed + switches * switch_us
    return antt([turnarounds[i] for i in range(len(alone))], alone)


def ceiling_fraction(alone, together, switch_us=SWITCH_US):
    """How much of the speed-up that a preemption of `switch_us` allows was reached."""
    return (alone + switch_us) / together


def throughput_loss_pct(plain_makespan, makespan):
    """By how much less work per time was done: the same work took `makespan`."""
    return 100 * (1 - plain_makespan / makespan)


def share_pct(of, others):
    """Share of the GPU, of the time that any had it."""
    return 100 * of / (of + sum(others))


def busy_us(launches, alone, start_ns, stop_ns):
    """GPU time that back-to-back launches of `alone` us each had between two times: launches are
    spread evenly over the time from the end of the one before to their own end."""
    total, previous = 0.0, start_ns
    for launch in launches:
        begin = max(previous, launch.launch_ns)
        length = max(1, launch.done_ns - begin)
        inside = min(launch.done_ns, stop_ns) - max(begin, start_ns)
        total += alone * max(0, inside) / length
        previous = launch.done_ns
    return total


def overhead_cut_pct(original, temporal, spatial):
    """By how much yielding only some SMs cuts the preemption overhead (T - T_org) / T_org, section
    6.1. Aggregate times of both kernels."""
    before, after = temporal / original - 1, spatial / original - 1
    return 100 * (1 - after / before) if before > 0 else 0.0
