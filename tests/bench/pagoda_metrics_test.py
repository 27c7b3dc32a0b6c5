"""The figures of Pagoda's evaluation, by hand; the page and the charts are well-formed."""
import json
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../apps"))
import pagoda  # noqa: E402
import pagoda_metrics as m  # noqa: E402
import pagoda_report  # noqa: E402


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

    def test_page(self):
        series = {"streams": [[128, 2.0], [512, 8.0]], "tasks": [[128, 1.0], [512, 2.0]]}
        sizes = [{"form": form, "size": 32, "threads": 256, "blocks": 4, "ms": [ms]}
                 for form, ms in (("streams", 2), ("tasks", 1))]
        detail = {"apps": APPS, "scale": {"mb": series}, "threads": {"mb": series},
                  "sizes": {"mb": sizes}, "latency": {"mm": series}, "failures": ["apps bf: slow"],
                  "measured": {"apps mb": {"gpu": "NVIDIA H200, 1", "commit": "e" * 40,
                                           "date": "2026-01-01T", "seconds": 9}}}
        result = {"machine": dict.fromkeys(["gpu", "cuda_driver", "cpu", "cpus"]), "date": "d",
                  "commit": "c", "metrics": m.metrics(detail), "detail": detail}
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(pagoda_report.write(folder, folder), [])
            with open(folder + "/pagoda.json", "w") as file:
                json.dump(result, file)
            path, = pagoda_report.write(folder, folder)
            with open(path) as file:
                text = file.read()
            for name in ("fig5_apps", "fig6_scale_tasks_0", "fig7_threads_tasks_0",
                         "fig8_sizes_mb", "fig10_latency_mm", "fig11_batching"):
                self.assertIn(f"pagoda/{name}.svg", text)
                xml.etree.ElementTree.parse(f"{folder}/pagoda/{name}.svg")
            self.assertIn("| mb | 110.0 | 2.00 |", text)
        self.assertIn("110.00", pagoda.summary(detail))


if __name__ == "__main__":
    unittest.main()
