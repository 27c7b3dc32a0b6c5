"""Tests that charts can be read, that the same data gives the same file, and that drawing those in docs/results anew
gives the same. Exit code 77 where there is no matplotlib (scripts/bootstrap --plots)."""
import os
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import charts
import flep_report
import pagoda_report

SVG = "{http://www.w3.org/2000/svg}"
RESULTS = charts.ROOT + "/tests/bench/results/h200"
REFERENCE = (1, "as fast")
EVERY = {
    "bars": charts.Bars("a & b", "time, us", "pair", ["x", "y"], {"one": [1, None], "two": [-2, 3]}, REFERENCE),
    "log": charts.Bars("faster or slower", "times", "app", ["x"], {"one": [0.2], "two": [70]}, REFERENCE, True),
    "lines": charts.Lines("shares", "%", "time", {"one": [(0, 1), (2, -3)]}, {"one": [(0, 2), (-4, 0)]}),
    "panels": charts.Panels("more tasks", "times", "tasks", {app: {"one": [(128, 2), (512, 4)]} for app in "abcd"}),
    "timeline": charts.Timeline("what ran", [("first", [(0, 5), (7, 2000)], 0), ("second", [(900, 1200)], 5)], 0, 1000),
}


def pinned_version():
    with open(charts.ROOT + "/tests/bench/plots_requirements.txt") as file:
        return re.search(r"^matplotlib==(.*)$", file.read(), re.MULTILINE)[1]


class Charts(unittest.TestCase):
    def drawn(self, every):
        with tempfile.TemporaryDirectory() as folder:
            charts.draw_all({name + ".svg": chart for name, chart in every.items()}, folder)
            found = {}
            for name in every:
                with open(f"{folder}/{name}.svg", encoding="utf-8") as file:
                    found[name] = file.read()
        return found

    def test_the_same_data_gives_the_same_file(self):
        first = self.drawn(EVERY)
        self.assertEqual(first, self.drawn(EVERY))
        for text in first.values():
            self.assertNotIn("date", text)

    def test_words_are_text(self):
        """Title, axes, labels and legend are there to be read, also by programs."""
        for name, text in self.drawn(EVERY).items():
            chart = EVERY[name]
            words = {each.text.strip() for each in xml.etree.ElementTree.fromstring(text).iter(SVG + "text")}
            wanted = {chart.title, *(getattr(chart, field) for field in ("unit", "across") if hasattr(chart, field))}
            if name in ("bars", "log"):
                wanted |= {*chart.labels, *chart.series, REFERENCE[1]}
            wanted |= {"panels": {*"abcd", "128", "512"}, "timeline": {"first", "second"}}.get(name, set())
            self.assertLessEqual(wanted, words, name)

    def test_pieces_of_a_timeline_end_with_it(self):
        root = xml.etree.ElementTree.fromstring(self.drawn({"timeline": EVERY["timeline"]})["timeline"])
        ends = {}
        for group in root.iter(SVG + "g"):
            if group.get("id") in ("first", "second"):
                ends[group.get("id")] = [max(map(float, re.findall(r"[ML] ([-0-9.]+)", path.get("d"))))
                                         for path in group.iter(SVG + "path")]
        self.assertEqual([len(found) for found in ends.values()], [2, 1])
        self.assertEqual(max(ends["first"]), max(ends["second"]))

    def test_what_is_no_longer_made_goes(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("old.svg", "page.md"):
                with open(f"{folder}/{name}", "w"):
                    pass
            charts.draw_all({"new.svg": EVERY["bars"]}, folder)
            self.assertEqual(sorted(os.listdir(folder)), ["new.svg", "page.md"])

    def test_charts_of_the_pages_are_fresh(self):
        import matplotlib
        if matplotlib.__version__ != pinned_version():
            self.skipTest(f"drawn with {matplotlib.__version__}, the pages' charts with {pinned_version()}")
        with tempfile.TemporaryDirectory() as folder:
            for report, name in ((flep_report, "flep"), (pagoda_report, "pagoda")):
                report.draw(RESULTS, folder)
                kept = f"{charts.ROOT}/docs/results/{name}"
                self.assertEqual(sorted(os.listdir(f"{folder}/{name}")), sorted(os.listdir(kept)))
                for file_name in os.listdir(kept):
                    with open(f"{folder}/{name}/{file_name}") as made, open(f"{kept}/{file_name}") as held:
                        self.assertTrue(made.read() == held.read(), f"{name}/{file_name}: run scripts/bench plots")


if __name__ == "__main__":
    if not charts.has_matplotlib():
        print(f"skipped: {charts.HOW_TO_GET_IT}")
        sys.exit(77)
    unittest.main()
