"""The figures of FLEP's evaluation from measured times. Pure functions; microseconds throughout."""
import statistics

# The least cost of a preemption without MPS that is assumed: the change of context takes 147 us, and a launch
# behind it 159 to 169 us in all (docs/results/preemption.md).
SWITCH_US = 170

mean = statistics.mean
median = statistics.median


def antt(turnarounds, alone):
    """Average normalised turnaround time (Eyerman, Eeckhout, IEEE Micro 2008): lower is better."""
    return mean(both / by_itself for both, by_itself in zip(turnarounds, alone, strict=True))


def least_antt(alone, apart_us=0.0, switch_us=SWITCH_US):
    """The least ANTT that any schedule reaches, found by trying all of them. Kernels come in this order,
    `apart_us` after each other, one runs at a time, and going from one to another takes a switch."""
    def best(now, running, left, done):
        """The least sum of normalised turnarounds from here on; `left`: what each has still to run."""
        if len(done) == len(alone):
            return sum((done[i] - i * apart_us) / alone[i] for i in done)
        here = [i for i in left if i not in done and i * apart_us <= now]
        if not here:
            return best(min(i * apart_us for i in left if i not in done), running, left, done)
        sums = []
        for i in here:
            start = now + (0 if running in (None, i) else switch_us)
            end = start + left[i]
            # Until the next one comes; what comes during a switch has to wait for its end.
            comes = [at for at in (k * apart_us for k in left) if now < at < end]
            if comes:
                until = max(start, min(comes))
                sums.append(best(until, i, {**left, i: end - until}, done))
            else:
                sums.append(best(end, i, left, {**done, i: end}))
        return min(sums)
    # Where all come at once the first runs already.
    return best(0.0, 0, dict(enumerate(alone)), {}) / len(alone)


def ceiling_fraction(alone, together, switch_us=SWITCH_US):
    """How much of the speed-up that a preemption of `switch_us` allows was reached."""
    return (alone + switch_us) / together


def throughput_loss_pct(plain_makespan, makespan):
    """By how many percent less work per time was done, when the same work took `makespan`."""
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
