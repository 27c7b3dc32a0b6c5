"""Statistics of interleaved measurements: medians, percentiles, confidence intervals by bootstrap.

A sample is a list of numbers. The same seed gives the same interval. Standard library only."""
import random
import statistics

median = statistics.median


def percentile(sample, share):
    """The value below which `share` (0..1) of the sample lies; linear between neighbours."""
    ordered = sorted(sample)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary(sample):
    """What a file of results keeps of a sample: the count, the median, the 99th percentile, the minimum and maximum."""
    if not sample:
        return {"samples": 0}
    return {"samples": len(sample), "p50": round(median(sample), 3), "p99": round(percentile(sample, 0.99), 3),
            "least": round(min(sample), 3), "most": round(max(sample), 3)}


def whole_periods(times, start, stop):
    """(periods, seconds) between the first and the last of `times`, in ns and ascending, that lie in
    start..stop: their rate is not rounded to whole events of start..stop. (0, 0.0) of fewer than two."""
    inside = [at for at in times if start <= at <= stop]
    if len(inside) < 2:
        return 0, 0.0
    return len(inside) - 1, (inside[-1] - inside[0]) / 1e9


def bootstrap(sample, statistic=median, confidence=0.95, resamples=4000, seed=1):
    """(low, high): the percentile interval of `statistic` over resamples with replacement (Efron).
    """
    return bootstrap_of([sample], statistic, confidence, resamples, seed)


def bootstrap_of(samples, statistic, confidence=0.95, resamples=4000, seed=1):
    """The same of a statistic of several samples, each drawn anew by itself."""
    prng = random.Random(seed)
    values = [statistic(*(prng.choices(sample, k=len(sample)) for sample in samples))
              for _ in range(resamples)]
    tail = (1 - confidence) / 2
    return percentile(values, tail), percentile(values, 1 - tail)


def paired_difference(plain, other, seed=1):
    """For measurements made in pairs: the median of the differences other - plain, and its interval."""
    differences = [b - a for a, b in zip(plain, other, strict=True)]
    low, high = bootstrap(differences, seed=seed)
    return median(differences), low, high


def orders(pairs, seed):
    """For each pair, which of its two runs goes first (0 or 1); each of them equally often."""
    first = [i % 2 for i in range(pairs)]
    random.Random(seed).shuffle(first)
    return first
