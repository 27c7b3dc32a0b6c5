#!/usr/bin/env python3
"""Looks at the page of `cupola report` in a browser.

CUPOLA names the command and PROGRAMS the folder with the programs of examples/priority. Ends with 77 where there is no
browser (scripts/bootstrap --tests installs one; TEST_BROWSER names another).
"""
import json
import os
import shutil
import sys
import tempfile
import time
import unittest

import browser
import scene

HERE = os.path.dirname(os.path.abspath(__file__))
CUPOLA, PROGRAMS = os.environ["CUPOLA"], os.environ["PROGRAMS"]
REQUESTS = 10
with open(os.path.join(HERE, "page_checks.js"), encoding="utf-8") as checks_file:
    CHECKS = checks_file.read()


def kernels_of(path):
    with open(path, encoding="utf-8") as file:
        return [event for event in json.load(file)["traceEvents"] if event.get("cat") == "kernel"]


class PageTest(unittest.TestCase):
    def check(self, name):
        return self.browser.run(f"checks.{name}()")

    def open(self, page):
        self.browser.open(page)
        self.browser.run("window.checks = " + CHECKS + "; true")

    @classmethod
    def begin(cls):
        cls.folder = tempfile.mkdtemp(prefix="cupola-report-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.browser = browser.Browser(browser.find())
        cls.addClassCleanup(cls.browser.__exit__)


class TwoPrograms(PageTest):
    """The page of a program that is stopped for another one, with the arbiter's trace."""

    @classmethod
    def setUpClass(cls):
        cls.begin()
        played = scene.Scene(CUPOLA, PROGRAMS, cls.folder)
        cls.files = played.play(REQUESTS)
        cls.page = os.path.join(cls.folder, "page.html")
        cls.done = played.report(cls.files, cls.page)

    def setUp(self):
        self.assertEqual((self.done.returncode, self.done.stderr), (0, ""))
        self.browser.set()
        self.open(self.page)

    def test_nothing_is_loaded_and_nothing_goes_wrong(self):
        self.assertEqual(self.browser.complaints(), [])
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        self.assertNotRegex(text, r"(?:src|href)=\"(?!data:)|@import|url\(")

    def test_each_launch_has_its_bar(self):
        batch, interactive = map(kernels_of, self.files[:2])
        self.assertEqual(len(interactive), REQUESTS)
        self.assertGreater(len(batch), 0)
        rows = self.browser.run("cupolaReport.data.rows.map((row, i) => [cupolaReport.data.processes[row.process].name,"
                                " cupolaReport.data.launches.first[i + 1] - cupolaReport.data.launches.first[i]])")
        self.assertEqual(rows, [["batch [batch]", len(batch)], ["interactive [interactive]", REQUESTS]])
        # All are apart from each other at this width, so each is drawn; a name stands in those of the batch.
        self.assertEqual(self.browser.run("cupolaReport.timeline.drawn"), len(batch) + REQUESTS)
        self.assertGreater(self.check("canvasColors"), 4)

    def test_ways_and_phases(self):
        ways = self.browser.run("cupolaReport.data.launches.way").values()
        names = self.browser.run("WAYS.map(way => way.key)")
        kernels = kernels_of(self.files[0]) + kernels_of(self.files[1])
        self.assertEqual([names[way] for way in ways], [kernel["args"]["way"] for kernel in kernels])
        self.assertIn("preemptible", [kernel["args"]["way"] for kernel in kernels])
        seen = self.browser.run("[...new Set(cupolaReport.data.phases.map(one => one[0] + PHASES[one[2]].key))]")
        self.assertLessEqual({"0runs", "0leaves", "1runs"}, set(seen))

    def test_shares_are_at_most_the_whole(self):
        self.assertLessEqual(self.check("mostShared"), 1 + 1e-9)
        self.assertGreater(self.check("mostShared"), 0.5)
        table = self.browser.run("document.querySelector('#shares table').innerText")
        for name in ("batch [batch]", "interactive [interactive]", "nobody"):
            self.assertIn(name, table)

    def test_who_waited_for_whom_names_both(self):
        first = self.browser.run("document.querySelector('#waits tbody').innerText")
        self.assertRegex(first, r"interactive \[interactive\] \(\d+\)\s+batch \[batch\] \(\d+\)\s+[\d.]+ (?:ms|\u00b5s)")

    def test_light_and_dark(self):
        shots = {}
        for scheme in ("light", "dark"):
            self.browser.set(scheme=scheme)
            shots[scheme] = self.browser.screenshot()
            self.assertEqual(self.check("faint"), [], scheme)
            self.assertGreater(self.check("canvasColors"), 4, scheme)
            self.assertGreater(len(shots[scheme]), 20_000, "an empty page of this size is a PNG of some kilobytes")
        self.assertNotEqual(shots["light"], shots["dark"])
        self.assertLess(self.browser.run("checks.luminance(checks.background(document.body))"), 0.1)

    def test_fits_into_wide_and_narrow_windows(self):
        for width, height in ((1280, 800), (390, 844)):
            self.browser.set(width, height)
            self.assertLessEqual(self.check("overflow"), 0, width)
            self.assertEqual(self.check("overlaps"), [], width)

    def test_keys_move_the_timeline_and_pick_launches(self):
        view = "[cupolaReport.timeline.from, cupolaReport.timeline.to]"
        whole = self.browser.run(view)
        self.browser.run("document.getElementById('rows').focus(); true")
        self.browser.press("+")
        near = self.browser.run(view)
        self.assertAlmostEqual(near[1] - near[0], whole[1] / 2, delta=1)
        self.browser.press("ArrowRight")
        self.assertGreater(self.browser.run(view)[0], near[0])
        self.browser.press("0")
        self.assertEqual(self.browser.run(view), whole)
        self.browser.press("ArrowDown")
        self.browser.press("p")
        picked = self.browser.run("document.getElementById('picked').textContent")
        self.assertRegex(picked, r"^Answer\(.*: [\d.]+ (ms|\u00b5s), at .*interactive \[interactive\]")
        self.browser.press("Escape")
        self.assertEqual(self.browser.run("document.getElementById('picked').textContent"), "No launch is picked.")

    def test_tab_reaches_every_control(self):
        self.browser.run("document.body.focus(); document.activeElement.blur(); true")
        seen = []
        for _ in range(6):
            self.browser.press("Tab")
            seen.append(self.browser.run("document.activeElement.id || document.activeElement.textContent"))
        self.assertEqual(seen, ["Zoom in", "Zoom out", "Earlier", "Later", "Show all", "rows"])


class ManyLaunches(PageTest):
    """A made-up trace of a hundred thousand launches on four streams."""

    COUNT, STREAMS = 100_000, 4

    @classmethod
    def setUpClass(cls):
        cls.begin()
        cls.trace = os.path.join(cls.folder, "many.json")
        with open(cls.trace, "w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit":"ns","cupola":{"writer":"cupola run","format":1,"base_ns":0},"traceEvents":[\n')
            file.write('{"ph":"M","name":"process_name","pid":7,"args":{"name":"many"}}')
            for i in range(cls.COUNT):
                file.write(
                    ',\n{"ph":"X","cat":"kernel","name":"Kernel%d(int)","pid":7,"tid":%d,"ts":%d.500,"dur":7.250,"args":'
                    '{"way":"%s","call_us":%d.000,"host_call_ns":5,"timed":"device","device_ns":7250}}'
                    % (i % 9, 10_000_000 + i % cls.STREAMS, 5 * i, ("plain", "preemptible")[i % 3 == 0], 5 * i))
            file.write('\n],"otherData":{"writer":"cupola","launches":%d,"dropped":0}}\n' % cls.COUNT)

    def test_is_drawn_at_once(self):
        page = os.path.join(self.folder, "many.html")
        begin = time.monotonic()
        done = scene.subprocess.run([CUPOLA, "report", self.trace], capture_output=True, text=True, check=False)
        took = time.monotonic() - begin
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(os.path.getsize(page), 8_000_000)
        self.browser.set()
        begin = time.monotonic()
        self.open(page)
        loaded = time.monotonic() - begin
        draw = self.browser.run("(() => { const t = performance.now(); cupolaReport.timeline.draw();"
                                " return performance.now() - t; })()")
        print(f"{self.COUNT} launches: page made in {took:.2f} s, {os.path.getsize(page) / 1e6:.1f} MB, "
              f"loaded in {loaded:.2f} s, drawn in {draw:.0f} ms")
        self.assertEqual(self.browser.run("cupolaReport.data.launches.count"), self.COUNT)
        self.assertLess(draw, 500)
        # No more bars than there are pixels, two ways in each.
        self.assertLess(self.browser.run("cupolaReport.timeline.drawn"), 2 * self.STREAMS * 1280)
        self.browser.run("cupolaReport.timeline.show(250e6, 250.2e6); true")
        self.assertEqual(self.browser.run("cupolaReport.timeline.drawn"), 41)
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.check("overlaps"), [])


if __name__ == "__main__":
    if browser.find() is None:
        print("skipped: there is no browser of the Chromium family (scripts/bootstrap --tests installs one)")
        sys.exit(77)
    unittest.main()
