"""Tests that the tables of measured figures within docs/, and the pages made of nothing else, are those that
tests/bench/results gives."""
import os
import tempfile
import unittest

import doc_tables
import flep_report
import pagoda_report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class DocTables(unittest.TestCase):
    def test_pages_say_what_was_measured(self):
        results, found = doc_tables.load(ROOT + "/tests/bench/results"), set()
        for path in doc_tables.pages(ROOT + "/docs"):
            with open(path) as file:
                text = file.read()
            found |= {place["name"] for place in doc_tables.PLACE.finditer(text)}
            self.assertEqual(doc_tables.filled(text, results), text,
                             f"{os.path.relpath(path, ROOT)}: run scripts/bench pages")
        self.assertEqual(found, set(doc_tables.TABLES))

    def test_generated_pages_are_fresh(self):
        with tempfile.TemporaryDirectory() as folder:
            for report in (flep_report, pagoda_report):
                for page in report.write(ROOT + "/tests/bench/results/h200", folder):
                    with open(page) as made, \
                            open(f"{ROOT}/docs/results/{os.path.basename(page)}") as kept:
                        self.assertEqual(made.read(), kept.read(),
                                         f"{os.path.basename(page)}: run scripts/bench pages")

    def test_a_table_is_filled_and_the_rest_left(self):
        with tempfile.TemporaryDirectory() as folder:
            page = folder + "/page.md"
            with open(page, "w") as file:
                file.write("before\n<!-- table preemption -->\n\n<!-- end of table -->\nafter\n")
            with open(folder + "/other.md", "w") as file:
                file.write("no table\n")
            os.makedirs(folder + "/results/h100-pcie")
            with open(folder + "/results/h100-pcie/preemption.json", "w") as file:
                file.write('{"metrics": {"hp_p50_us_alone": 25.04, "hp_p99_us_alone": 1092.6,'
                           ' "batch_rate_ratio_mps_20us": 0.98}, "commit": "0123456789ab",'
                           ' "date": "2026-01-02T03:04:05"}')
            for _ in range(2):  # what is there is replaced
                self.assertEqual(doc_tables.write(folder + "/results", folder), [page])
                with open(page) as file:
                    lines = file.read().splitlines()
                self.assertEqual(lines[0], "before")
                self.assertEqual(lines[4], "| H100 (012345678, 2026-01-02) | 25.0 / 1,093 | - / - "
                                 "| - / - | - / - | - / - | - / - | - / - | 0.9800 0.9800 |")
                self.assertEqual(lines[5:], ["<!-- end of table -->", "after"])

    def test_what_a_run_has_not_measured_is_a_dash(self):
        result = {"metrics": {"arbiter_added_ns_short": 250.0, "arbiter_added_ns_short_ci_low": 200.0,
                              "arbiter_added_ns_short_ci_high": 1300.0,
                              "arbiter_plain_ns_short": 3000.0}}
        rows = doc_tables.arbiter_cost({"H100": {"arbiter_cost": result}}).splitlines()
        cells = {row.split("|")[1].strip(): row.split("|")[-2].strip() for row in rows}
        self.assertEqual(cells["`short`"], "250 ns [200, 1,300]")
        self.assertEqual(cells["`long`"], "-")

    def test_a_table_that_there_is_not(self):
        with self.assertRaises(KeyError):
            doc_tables.filled("<!-- table nobody -->\n\n<!-- end of table -->", {})


if __name__ == "__main__":
    unittest.main()
