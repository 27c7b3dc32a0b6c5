"""Tests the statistics of the benchmarks with samples whose answers are known."""
import random
import unittest

import sampling


class SamplingTest(unittest.TestCase):
    def test_percentiles_lie_between_neighbours(self):
        self.assertEqual(sampling.percentile([3, 1, 2], 0), 1)
        self.assertEqual(sampling.percentile([3, 1, 2], 0.5), 2)
        self.assertEqual(sampling.percentile([0, 10], 0.99), 9.9)
        self.assertEqual(sampling.percentile([7], 0.3), 7)

    def test_a_summary_says_how_many_and_how_far_apart(self):
        self.assertEqual(sampling.summary([1, 2, 4.00049, 3]),
                         {"samples": 4, "p50": 2.5, "p99": 3.97, "least": 1, "most": 4.0})
        self.assertEqual(sampling.summary([]), {"samples": 0})

    def test_periods_are_whole(self):
        """What lies before the first event of the window and behind its last one does not count."""
        times = [second * 1_000_000_000 for second in range(10)]
        self.assertEqual(sampling.whole_periods(times, 1_500_000_000, 6_900_000_000), (4, 4.0))
        self.assertEqual(sampling.whole_periods(times, 2_000_000_000, 2_999_999_999), (0, 0.0))

    def test_the_interval_holds_what_it_promises(self):
        """Of 95 % intervals over samples of a known median, about 95 % must contain it."""
        prng = random.Random(7)
        rounds, hits = 200, 0
        for seed in range(rounds):
            sample = [prng.gauss(100, 15) for _ in range(25)]
            low, high = sampling.bootstrap(sample, resamples=400, seed=seed)
            hits += low <= 100 <= high
        self.assertGreaterEqual(hits / rounds, 0.88)
        self.assertLess(hits / rounds, 1.0)

    def test_the_interval_of_a_ratio_holds_what_it_promises(self):
        prng = random.Random(11)
        rounds, hits = 200, 0
        for seed in range(rounds):
            plain, other = ([prng.gauss(middle, 10) for _ in range(25)] for middle in (100, 90))
            low, high = sampling.bootstrap_of(
                [plain, other], lambda a, b: sampling.median(b) / sampling.median(a), resamples=400,
                seed=seed)
            hits += low <= 0.9 <= high
        self.assertGreaterEqual(hits / rounds, 0.88)
        self.assertLess(hits / rounds, 1.0)

    def test_same_seed_same_interval(self):
        sample = [1, 4, 9, 16, 25, 36]
        self.assertEqual(sampling.bootstrap(sample, seed=3), sampling.bootstrap(sample, seed=3))

    def test_pairs_cancel_what_they_share(self):
        prng = random.Random(5)
        plain = [1000 + 300 * prng.random() for _ in range(20)]  # the machine's moods
        other = [value + 7 for value in plain]
        middle, low, high = sampling.paired_difference(plain, other)
        for value in (middle, low, high):
            self.assertAlmostEqual(value, 7, places=6)

    def test_unpaired_runs_are_refused(self):
        with self.assertRaises(ValueError):
            sampling.paired_difference([1, 2], [1])

    def test_each_goes_first_as_often(self):
        for seed in range(5):
            self.assertEqual(sum(sampling.orders(10, seed)), 5)
        self.assertNotEqual(sampling.orders(20, 1), sampling.orders(20, 2))


if __name__ == "__main__":
    unittest.main()
