"""Tests the figures of Pagoda's evaluation against ones computed by hand, and what the page and charts show of them."""
import contextlib
import io
import json
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder)
                for folder in ("../apps", "../tasks")]
import ends_test  # noqa: E402
import narrow  # noqa: E402
import narrow_beside  # noqa: E402
import narrow_idle  # noqa: E402
import pagoda  # noqa: E402
import pagoda_metrics as m  # noqa: E402
import pagoda_report  # noqa: E402
import pagoda_tables as t  # noqa: E402


def row(*ms, checksum="a"):
    return {"ms": list(ms), "checksum": checksum, "equal": True}


APPS = {"mb": {"plain": row(100, 120, 110), "unmodified": row(55), "graph": row(44),
               "tasks": row(11, 11, 90), "fused": row(5.5), "batched": row(22),
               "cpu": row(1100, checksum="c")},
        "mm": {"plain": row(90), "unmodified": row(100), "graph": row(40), "tasks": row(10)}}


class Metrics(unittest.TestCase):
    def test_speedups_are_of_medians(self):
        found = m.metrics({"apps": APPS})
        self.assertEqual(found["apps_geomean_vs_streams"], 9.487)  # of 10 and 9
        self.assertEqual(found["apps_geomean_vs_graph"], 4)
        self.assertEqual(found["apps_geomean_vs_fused"], 0.5)  # of mb alone
        self.assertEqual(found["apps_geomean_vs_cpu"], 100)
        self.assertEqual(found["unmodified_apps_geomean"], 1.342)  # of 2 and 0.9
        self.assertEqual(found["unmodified_apps_worst"], 0.9)
        self.assertEqual(found["graph_apps_geomean"], 2.372)  # of 2.5 and 2.25
        self.assertEqual(found["tasks_speedup_mm"], 9)
        self.assertNotIn("irregular_geomean_vs_fused", found)
        self.assertEqual(m.metrics({}), {})

    def test_irregular_and_shared(self):
        detail = {"irregular": {"mb": {"fused": row(30), "tasks": row(15), "streams": row(60)}},
                  "shared": {"mm": {"shared": {"streams": row(12), "tasks": row(6)},
                                    "no_shared": {"streams": row(20), "tasks": row(8)}}}}
        found = m.metrics(detail)
        self.assertEqual(found["irregular_geomean_vs_fused"], 2)
        self.assertEqual(found["shared_speedup_mm"], 2)
        self.assertEqual(found["no_shared_speedup_mm"], 1.5)  # over streams with shared memory

    def test_what_differs_is_found(self):
        self.assertEqual(m.differing(APPS), [])
        wrong = {"mb": {"plain": row(1), "tasks": row(1, checksum="b"),
                        "cpu": {**row(1, checksum="z"), "equal": False}}}
        self.assertEqual(m.differing(wrong), [("mb", "cpu"), ("mb", "tasks")])

    def test_narrow_has_the_keys_of_the_last_run(self):
        narrow = {"metrics": {"single_task_us_p50": 9, "apps_geomean_vs_graph": 7},
                  "detail": {"single": []}}
        found = m.merge_into_narrow(narrow, {"metrics": {"apps_geomean_vs_streams": 5, "other": 1},
                                             "commit": "c", "date": "d"})
        self.assertEqual(found["metrics"], {"single_task_us_p50": 9, "apps_geomean_vs_streams": 5})
        self.assertEqual(found["detail"], {"single": [], "apps_from": {"commit": "c", "date": "d"}})
        self.assertTrue(set(m.NARROW_KEYS) <= set(m.metrics({"apps": APPS})))

    def test_merge_needs_both_files(self):
        with tempfile.TemporaryDirectory() as folder:
            def write(name, value):
                with open(f"{folder}/{name}.json", "w") as file:
                    json.dump(value, file)
            write("narrow", {"metrics": {"one": 1}, "detail": {}})
            pagoda.merge(folder)
            self.assertEqual(pagoda.load(folder + "/narrow.json")["metrics"], {"one": 1})
            write("pagoda", {"metrics": m.metrics({"apps": APPS}), "commit": "c", "date": "d"})
            pagoda.merge(folder)
            self.assertEqual(pagoda.load(folder + "/narrow.json")["metrics"], {
                "one": 1, **{key: m.metrics({"apps": APPS})[key] for key in m.NARROW_KEYS}})

    def test_failures_stay_until_the_same_is_measured_again(self):
        """Of calls with other sections and applications; old results had a list."""
        detail, options, fails = {"failures": []}, types.SimpleNamespace(
            quick=True, repeats=1, tasks=8, seconds_left=lambda: 60), {("apps", "bf"), ("scale", "mb")}

        def section_of(name):
            def found(evaluation, app):
                if (name, app) in fails:
                    evaluation.fail("tasks: timeout\nand more")
                    raise pagoda.Failed("no time left")
                return {}
            return found

        def call(sections, apps):
            with (unittest.mock.patch.object(pagoda.Evaluation, "apps", section_of("apps")),
                  unittest.mock.patch.object(pagoda.Evaluation, "scale", section_of("scale")),
                  contextlib.redirect_stderr(io.StringIO())):
                return pagoda.measure("", "gpu", sections, apps, detail, options, {},
                                      lambda *found: None)["good"]

        both = ["tasks: timeout\nand more", "no time left"]
        self.assertFalse(call(["apps", "scale"], ["mb", "bf"]))
        self.assertEqual(detail["failures"], {"apps bf": both, "scale mb": both})
        self.assertIn("mb", detail["apps"])
        self.assertNotIn("bf", detail["apps"])
        self.assertTrue(call(["apps"], ["mb"]))
        self.assertEqual(detail["failures"], {"apps bf": both, "scale mb": both})
        fails.clear()
        self.assertTrue(call(["apps"], ["bf"]))
        self.assertEqual(detail["failures"], {"scale mb": both})
        self.assertEqual(pagoda_report.failure_line(detail, "scale"),
                         "Failed: mb: tasks: timeout; mb: no time left.")
        self.assertEqual(pagoda_report.failure_line(detail, "apps"), "")

    def test_failures_of_narrow_sections_stay_too(self):
        detail = {"failures": {"rates": ["slow"], "idle": ["gone"]}}

        def idle(bench):
            bench.fail("worse")

        with (unittest.mock.patch.object(narrow.Bench, "idle", idle),
              unittest.mock.patch.object(narrow.Bench, "single", lambda bench: None)):
            def call(*sections):
                return narrow.measure("", "gpu", True, "", lambda: 60, lambda *found: None, sections,
                                      {"metrics": {}, "detail": detail}, {})["good"]
            self.assertFalse(call("single", "idle"))
            self.assertEqual(detail["failures"], {"rates": ["slow"], "idle": ["worse"]})
            self.assertTrue(call("single"))
            self.assertEqual(detail["failures"], {"rates": ["slow"], "idle": ["worse"]})

    def test_what_ran(self):
        lines = [{"tasks": 8, "threads": 64, "blocks": 4}, {"tasks": 8, "threads": 256}]
        ran = m.what_ran(lines)
        self.assertEqual(ran, {"tasks": [8], "threads": [64, 256], "blocks": [1, 4]})
        self.assertEqual(t.ran_words(ran), "8 tasks of 1 or 4 blocks of 64 or 256 threads")
        section = {app: {"tasks": {"tasks": tasks, "threads": 128}}
                   for app, tasks in (("mb", 32768), ("slud", 32635), ("mm", 32768))}
        self.assertEqual(t.ran_line(t.ran_of_lines(section)), "Run: 32,768 tasks of 128 threads (mb, mm); "
                         "32,635 tasks of 128 threads (slud).")
        detail = {"scale": {"mb": {"tasks": [[128, 1.0], [512, 2.0]]}},
                  "ran": {"scale mb": {"tasks": [1], "threads": [128]}}}
        self.assertEqual(t.ran_line(t.ran_of_series(detail, "scale", "tasks")),
                         "Run: 128 or 512 tasks of 128 threads.")
        del detail["ran"]
        self.assertEqual(t.ran_line(t.ran_of_series(detail, "scale", "tasks")),
                         "Run: 128 or 512 tasks (of how many threads was not noted).")

    def test_slower_than_fusion(self):
        self.assertEqual(t.slower_line(APPS, ["fused"]),
                         "*tasks* are slower (so many times as fast) than *fused* in mb (0.50).")
        self.assertEqual(t.slower_line(APPS, ["batched"]), "*tasks* are slower than no fused form.")
        self.assertEqual(t.slower_line(APPS, ["persistent"]), "")

    def test_narrow_idle(self):
        lines = [{"p50_us": 40, "p99_us": 60, "task_us": 1},
                 {"p50_us": 1030, "p99_us": 1100, "task_us": 1000}]
        self.assertEqual(narrow_idle.leave_metrics(lines, {"p50_us": 500, "task_us": 100}),
                         {"leave_us_p50": 39, "leave_us_p99": 100, "leave_queued_us_p50": 400})
        self.assertEqual(narrow_idle.loss_pct([90, 95, 100], [100]), 5)
        self.assertEqual(narrow_idle.loss_pct([103], [100]), -3)
        self.assertIsNone(narrow_idle.loss_pct([1], [0]))
        # Of what ended while bursts came.
        bursts = {"start_ns": 1e9, "end_ns": 3e9, "burst_ns": [5] * 10}
        self.assertEqual(narrow_beside.rates_of([0.5e9, 1.5e9, 2e9, 2.9e9, 3.5e9, 4e9], bursts), (1.5, 5))

    def test_late_leaving_is_found(self):
        line = '{"mode": "leave", "rounds": 9, "tasks": 264, "task_us": 100, "p50_us": %s, "p99_us": 1000}'
        self.assertEqual(ends_test.too_late("said\n" + line % 150.0), "")
        self.assertIn("150.1 us p50, the limit is 150", ends_test.too_late(line % 150.1))

    def test_page(self):
        series = {"streams": [[128, 2.0], [512, 8.0]], "tasks": [[128, 1.0], [512, 2.0]]}
        sizes = [{"form": form, "size": 32, "tasks": 2, "threads": 256, "blocks": 4,
                  "ms": [ms]}
                 for form, ms in (("streams", 2), ("tasks", 1))]
        detail = {"apps": APPS, "scale": {"mb": series}, "threads": {"mb": series},
                  "sizes": {"mb": sizes}, "latency": {"mm": series}, 
                  "failures": {"apps bf": ["too\nslow"], "shared mm": ["not there"]},
                  "irregular": {"mb": {"fused": row(30), "tasks": row(15), "streams": row(60)}},
                  "measured": {"apps mb": {"gpu": "NVIDIA H200, 1", "commit": "e" * 40,
                                           "date": "2026-01-01T", "seconds": 9}}}
        result = {"machine": dict.fromkeys(["gpu", "cuda_driver", "cpu", "cpus"]), "date": "d",
                  "commit": "c", "metrics": m.metrics(detail), "detail": detail}
        narrow = {"metrics": {"tasks_per_s_api_1us": 9.6e6, "tasks_per_s_apix8_1us": 51.3e6,
                              "apix8_speedup_over_streams32_1us": 183.1, "leave_us_p50": 37.5},
                  "detail": {"1us": [{"mode": "api", "tasks": 32768, "threads": 128}],
                             "failures": {"unmodified": ["cupola build: bad\nluck"]}}}
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/narrow.json", "w") as file:
                json.dump(narrow, file)
            self.assertEqual(pagoda_report.write(folder, folder), [])
            with open(folder + "/pagoda.json", "w") as file:
                json.dump(result, file)
            path, = pagoda_report.write(folder, folder)
            with open(path) as file:
                text = file.read()
            for name in ("fig5_apps", "fig6_scale", "fig7_threads", "fig8_sizes", "fig10_latency", "fig11_batching"):
                self.assertIn(f"](pagoda/{name}.svg)", text)
            charts = pagoda_report.charts(detail)
            self.assertEqual(charts["fig6_scale.svg"].panels, {"mb": {"tasks": [(128, 2), (512, 4)]}})
            self.assertEqual(charts["fig8_sizes.svg"].panels, {"mb": {"32 x 32": [(1024, 2)]}})
            self.assertEqual(charts["fig5_apps.svg"].series["tasks"], [10, 9])
            for line in ("| mb | 110.0 | 2.00 |", "Failed: bf: too.", "Failed: mm: not there.",
                         "|  | tasks | 2.00 | 4.00 |", "| mb | 32 x 32 | 2.00 |",
                         "| mb | 60.00 | 2.00 | - | - | 4.00 | 2.00 |", "| mm | streams | 2 | 8 |",
                         "| mb | 5.00 | - | 10.00 |", "Run: 2 tasks of 4 blocks of 256 threads.",
                         "| `api` | tasks | 1 | 9.6 |", "| `apix8` | tasks | 8 | 51.3 |",
                         "tasks over 32 streams | 8 over 1 | 183.1 times |", "| `leave_us_p50` | 37.5 | 50 |",
                         "Failed: unmodified: cupola build: bad.",
                         "Run: 32,768 tasks of 128 threads, eight bodies by turns."):
                self.assertIn(line, text)
            # Failures are under the table of their section.
            self.assertLess(text.index("Failed: bf"), text.index("(figure 6)"))
        self.assertIn("110.00", pagoda.summary(detail))


if __name__ == "__main__":
    unittest.main()
