"""Tests the figures of the evaluation against ones computed by hand, and what the charts show of them."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../apps"))
import flep  # noqa: E402
import flep_metrics as m  # noqa: E402
import flep_report  # noqa: E402
import flep_results  # noqa: E402
import flep_runs as runs  # noqa: E402
import sampling  # noqa: E402


def row(*turnarounds, makespan):
    return flep_results.summary_of_repeats([turnarounds], [makespan])


class Metrics(unittest.TestCase):
    def test_antt_is_the_mean_slowdown(self):
        self.assertEqual(m.antt([200, 30], [100, 10]), 2.5)

    def test_least_antt_runs_the_shortest_first(self):
        # The long one (1000) came first and is stopped at once: the short one (100) starts after
        # one switch and ends at 270; the long one after one more, and ends at 1000 + 100 + 2 * 170.
        self.assertAlmostEqual(m.least_antt([1000, 100]), (1.44 + 2.7) / 2)
        # What came first and is the shortest is not stopped: one switch, to the other.
        self.assertAlmostEqual(m.least_antt([100, 1000]), (1 + (1100 + 170) / 1000) / 2)
        # Three at once: 100, 200, 1000 after one, two and three switches.
        self.assertAlmostEqual(m.least_antt([1000, 200, 100]),
                               ((1300 + 510) / 1000 + (300 + 340) / 200 + 2.7) / 3)

    def test_least_antt_knows_when_each_comes(self):
        # 300 us later: the long one has run for 300 then, but its turnaround is the same.
        self.assertAlmostEqual(m.least_antt([1000, 100], 300), (1.44 + 2.7) / 2)
        # A kernel that ends before the next comes costs nobody anything but the switch.
        self.assertAlmostEqual(m.least_antt([200, 1000], 300), (1 + 1.17) / 2)
        # To stop it for the second would be worse: 100 of its 1000 us are left.
        self.assertAlmostEqual(m.least_antt([1000, 900], 900), (1 + (100 + 170 + 900) / 900) / 2)
        # The third finds the second running with 230 us to go, shorter than to switch twice more.
        self.assertAlmostEqual(m.least_antt([5000, 360, 350], 300),
                               ((5710 + 510) / 5000 + 530 / 360 + (230 + 170 + 350) / 350) / 3)

    def test_share_of_loops(self):
        launches = [runs.Launch(0, 1_000_000), runs.Launch(0, 2_000_000),
                    runs.Launch(1_000_000, 4_000_000)]
        self.assertAlmostEqual(m.busy_us(launches, 500, 0, 4_000_000), 1500)
        self.assertAlmostEqual(m.busy_us(launches, 500, 0, 3_000_000), 1250)
        self.assertAlmostEqual(m.busy_us(launches, 500, 1_500_000, 2_000_000), 250)

    def test_spatial_cut(self):
        def found(*rows):
            modes = ("plain", "unstopped", "temporal", "spatial")
            return flep_results.metrics({"spatial": {
                f"cfd_{number}": {mode: {"makespan": us} for mode, us in zip(modes, row)
                                  if us is not None} for number, row in enumerate(rows)}})
        self.assertEqual(found((90, 100, 110, 105))["spatial_overhead_cut_pct"], 50)
        plain = found((100, None, 110, 105))  # nothing to hold the variants against but the originals
        self.assertEqual(plain["spatial_overhead_cut_pct_of_plain"], 50)
        self.assertNotIn("spatial_overhead_cut_pct", plain)
        self.assertEqual(found((90, 100, 100, 90))["spatial_overhead_cut_pct"], 0)  # nothing to cut
        # Overheads of 10 % and 0, and of 5 % and 1 %: one without any does not decide.
        both = found((90, 100, 110, 105), (180, 200, 200, 202))
        self.assertAlmostEqual(both["spatial_overhead_cut_pct"], 40)
        self.assertAlmostEqual(both["temporal_overhead_pct"], 5)
        self.assertAlmostEqual(both["spatial_overhead_pct"], 3)

    def test_inputs_keep_their_ratios(self):
        inputs = {"cfd_large": {"us": 11000, "target_us": 10000},
                  "va_small": {"us": 500, "target_us": 500}}
        self.assertAlmostEqual(
            flep_results.metrics({"inputs": inputs})["table1_ratio_worst_pct"], 10)

    def test_pairs_from_detail(self):
        detail = {"alone": {"nomps": {"cfd_large": 11000, "va_small": 700},
                            "mps": {"cfd_large": 11000, "va_small": 700}},
                  "pairs": {"cfd_va": {"plain_mps": row(11000, 11700, makespan=11700),
                                       "cupola_mps": row(11750, 780, makespan=11750),
                                       "plain_nomps": row(11700, 2100, makespan=11700),
                                       "cupola_nomps": row(12000, 900, makespan=12000)}},
                  "equal": {"cfd_va": {"plain_mps": row(11000, 11700, makespan=10000),
                                       "cupola_mps": row(11750, 780, makespan=10200),
                                       "plain_nomps": row(11700, 2100, makespan=11700),
                                       "cupola_nomps": row(12000, 900, makespan=11700)}},
                  "ffs": {"cfd_va": {"plain_mps": {"whole": [0.5, 0.5], "bins": []},
                                     "cupola_mps": {"whole": [0.3, 0.6], "bins": [[0.3, 0.6]]}}},
                  "solo": {program: {label: sampling.summary([us]) for label, us in
                                     zip(("original", "solo", "sliced"), times)}
                           for program, times in (("va", (100, 101, 110)), ("nn", (100, 100, 106)))}}
        for times in detail["alone"].values():
            times["nn_small"] = 700
        detail["triplets"] = {"cfd_va_nn": {
            "plain_nomps": row(12000, 13000, 14000, makespan=14600),
            "cupola_nomps": row(13500, 1100, 2200, makespan=13500),
            "ffs_nomps": row(13500, 2200, 4400, makespan=13500)}}
        spatial = {"plain": 100, "temporal": 110, "spatial": 106}
        detail["spatial"] = {"cfd_va": {mode: {"makespan": us, "high": 50}
                                        for mode, us in spatial.items()},
                             "cfd_nn": {"plain": {"makespan": 100, "high": 50}}}
        detail["prediction"] = {"metrics": {"prediction_error_mean_pct": 3}}
        found = flep_results.metrics(detail)
        # va ends 700 + 170 us after its launch, cfd 700 + 2 * 170 later than alone.
        self.assertAlmostEqual(found["pairs_antt_ceiling_fraction"],
                               round((12040 / 11000 + 870 / 700) / (12000 / 11000 + 900 / 700), 4))
        # nn comes 300 us after va and starts when that has ended; then cfd goes on.
        self.assertAlmostEqual(found["triplets_antt_ceiling_fraction"], round(
            ((11000 + 1400 + 510) / 11000 + 870 / 700 + (870 - 300 + 870) / 700) /
            (13500 / 11000 + 1100 / 700 + 2200 / 700), 4))
        self.assertAlmostEqual(found["triplets_antt_improvement_mean_ffs_nomps"], round(
            (12000 / 11000 + 27000 / 700) / (13500 / 11000 + 6600 / 700), 4))
        self.assertAlmostEqual(found["spatial_overhead_cut_pct_of_plain"], 40)
        self.assertEqual(found["prediction_error_mean_pct"], 3)
        self.assertAlmostEqual(found["pairs_hp_speedup_mean_mps"], 15)
        self.assertAlmostEqual(found["pairs_hp_ceiling_fraction_timeslice"], 0.9667)
        self.assertAlmostEqual(found["stp_loss_pct"], 1.9608)
        self.assertEqual(found["stp_loss_pct_timeslice"], 0)
        self.assertAlmostEqual(found["ffs_share_high_pct_mps"], 66.6667)
        self.assertAlmostEqual(found["ffs_throughput_loss_pct_mps"], 10)
        self.assertEqual(found["solo_overhead_worst_pct"], 1)
        self.assertEqual(found["solo_overhead_mean_pct"], 0.5)
        self.assertEqual(found["slicing_overhead_mean_pct"], 8)
        charts = flep_report.charts(detail)
        self.assertEqual(charts["fig8_pairs_mps.svg"].series["under Cupola"], [15])
        solo = charts["fig17_solo.svg"]
        self.assertEqual((solo.labels, [round(value) for value in solo.series["sliced"]]), (["nn", "va"], [6, 10]))
        self.assertTrue(all(chart.title and chart.unit for chart in charts.values()))

    def test_parts_say_where_they_are_from(self):
        pair = {"plain_mps": row(2, 2, makespan=2), "cupola_mps": row(1, 1, makespan=1)}
        old = {"machine": {"gpu": "NVIDIA H200, 580"}, "commit": "a" * 40, "date": "monday",
               "detail": {"pairs": {"cfd_va": dict(pair)}, "solo": {"va": {}}, "alone": {},
                          "seconds": {"pairs": 30.0, "solo": 7.0, "alone": 9.0}}}
        detail = flep_results.adopt(old)
        self.assertEqual(sorted(detail["measured"]),
                         ["pairs cupola_mps", "pairs plain_mps", "solo"])
        self.assertEqual(len(list(flep_report.measured_rows(detail))), 2)
        # A later call takes one mode anew: the other's facts stay.
        later = {"gpu": "NVIDIA H200, 580", "commit": "b" * 40, "date": "friday", "seconds": 5}
        detail["measured"]["pairs cupola_mps"] = later
        old["commit"] = "b" * 40
        again = flep_results.adopt(old)
        self.assertEqual(again["measured"]["pairs plain_mps"]["commit"], "a" * 40)
        rows = list(flep_report.measured_rows(again))
        self.assertEqual([line[0] for line in rows], ["pairs: cupola_mps", "pairs: plain_mps",
                                                      "solo"])
        self.assertEqual([line[2][0] for line in rows], ["b", "a", "a"])

    def test_judgement(self):
        def rows(metrics, detail):
            return {row[0].strip("`"): (row[2], row[4])
                    for row in flep_report.metric_rows(metrics, detail)}
        infer = {"torch_infer_p99_us_alone": 440.0, "torch_infer_p99_us_cupola": 861.0,
                 "torch_infer_p99_us_alone_mps": 450.0, "torch_infer_p99_us_cupola_mps": 701.0}
        self.assertEqual(rows(infer, {}), {
            "torch_infer_p99_us_alone": ("", ""), "torch_infer_p99_us_alone_mps": ("", ""),
            "torch_infer_p99_us_cupola": ("<= 610 + a gate quantum, which is not stored",
                                          "not known"),
            "torch_infer_p99_us_cupola_mps": ("<= 450 + a gate quantum, which is not stored",
                                              "not known")})
        quantum = {"counts": {f"torch cupola_{sharing} low":
                              {"gates": 100, "launches preemptible": 0, "launches plain: no variant": 201,
                               "us between two gates": 190} for sharing in ("nomps", "mps")},
                   "torch": {"detail": {f"plain_{sharing}":
                                        {"train_kernels_us": [90.0, 51, 40.0, 110.0, 50.0]}
                                        for sharing in ("nomps", "mps")}}}
        # Three launches for a gate: the last two of a step and the first of the next are the longest.
        self.assertEqual(flep_report.gate_quantum_us(quantum, "mps"), 250)
        quantum["counts"]["torch cupola_mps low"]["gates"] = 201
        self.assertEqual(flep_report.gate_quantum_us(quantum, "mps"), 110)
        quantum["torch"]["detail"]["plain_mps"]["train_kernels_us"] = [251.0, 3.0]
        quantum["torch"]["detail"]["plain_nomps"]["train_kernels_us"] = [251.0, 0, 0]
        found = rows(infer, quantum)
        self.assertEqual(found["torch_infer_p99_us_cupola"], ("<= 861.0", "yes"))
        self.assertEqual(found["torch_infer_p99_us_cupola_mps"], ("<= 701.0", "yes"))
        late = {**infer, "torch_infer_p99_us_cupola": 861.2}
        self.assertEqual(rows(late, quantum)["torch_infer_p99_us_cupola"], ("<= 861.0", "**no**"))
        for loss, bound, reached in ((9.9, {}, "yes"), (10.1, {}, "**no**"),
                                     (5.0, {"ffs_max_overhead": 0.04}, "**no**")):
            wanted = f"<= {100 * bound.get('ffs_max_overhead', 0.10)}"
            for name in ("ffs_throughput_loss_pct", "ffs_throughput_loss_pct_mps"):
                self.assertEqual(rows({name: loss}, bound)[name], (wanted, reached))
        others = rows({"torch_train_rate_ratio_mps": 0.94, "ffs_share_high_pct_mps": 64.6,
                       "torch_train_rate_ratio": 0.95, "ffs_share_high_pct": 64.7}, {})
        self.assertEqual([reached for _, reached in others.values()],
                         ["**no**", "**no**", "yes", "yes"])

    def test_sections_bring_what_they_need(self):
        def brought(sections, has_alone=True, has_plan=True):
            return flep.with_what_they_need(sections, has_alone, has_plan)
        self.assertEqual(brought(["solo", "torch"]), ["solo", "torch"])
        self.assertEqual(brought(["torch"], has_alone=False, has_plan=False), ["torch"])
        self.assertEqual(brought(["spatial"], has_alone=False), ["alone", "spatial"])
        # PF's variant took 3.7 % longer than the original where nothing had told its L, not 1.5.
        self.assertEqual(brought(["prediction", "pairs", "solo"]),
                         ["prediction", "pairs", "tune", "solo"])
        self.assertEqual(brought(["prediction", "tune", "solo"]), ["prediction", "tune", "solo"])

    def test_groups_are_those_of_the_paper(self):
        self.assertEqual(len(runs.high_low_pairs().groups), 28)
        self.assertEqual(len(runs.equal_pairs().groups), 28)
        self.assertEqual(len(set(runs.triplets().groups)), 28)
        self.assertEqual(runs.triplets().groups, runs.triplets().groups)
        self.assertEqual(len(runs.spatial_pairs().groups), 56)

    def test_parts_are_the_same_groups_of_fewer(self):
        whole = runs.triplets()
        parts = whole.parts(runs.MOST_MEMBERS)
        self.assertGreater(len(whole.members), runs.MOST_MEMBERS)
        self.assertEqual([group for part in parts for group in part.groups], whole.groups)
        self.assertLessEqual(max(len(part.members) for part in parts), runs.MOST_MEMBERS)

    def test_page_without_results(self):
        with tempfile.TemporaryDirectory() as folder:
            path, = flep_report.write(folder, folder)
            with open(path) as file:
                self.assertIn("# FLEP's evaluation", file.read())


if __name__ == "__main__":
    unittest.main()
