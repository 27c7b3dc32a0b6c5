#!/usr/bin/env python3
"""What `cupola report` says of bad input: one line that names the file, what is wrong and what to do. CUPOLA names the
command."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

CUPOLA = os.environ["CUPOLA"]
HEAD = '{"displayTimeUnit":"ns","cupola":{"writer":"cupola run","format":1,"base_ns":1000},"traceEvents":['
PROCESS = '{"ph":"M","name":"process_name","pid":7,"args":{"name":"app"}}'
KERNEL = ('{"ph":"X","cat":"kernel","name":"Kernel<1>()","pid":7,"tid":10000000,"ts":1.500,"dur":2.000,"args":{"way":"plain",'
          '"call_us":1.000,"timed":"device"}}')
TAIL = '\n],"otherData":{"writer":"cupola","launches":1,"dropped":0}}\n'
WHOLE = HEAD + "\n" + PROCESS + ",\n" + KERNEL + TAIL
ARBITER = ('{"displayTimeUnit":"ns","cupola":{"writer":"cupola serve","format":1,"base_ns":0},"traceEvents":[\n'
           '{"ph":"M","name":"process_name","pid":1,"args":{"name":"GPU-1"}},\n'
           '{"ph":"M","name":"thread_name","pid":1,"tid":7,"args":{"name":"app [label]"}},\n'
           '{"ph":"B","cat":"arbiter","name":"runs","pid":1,"tid":7,"ts":1.000}')


class Input(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cupola-report-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.page = os.path.join(self.folder, "page.html")

    def write(self, text, name="t.json"):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def report(self, *words):
        return subprocess.run([CUPOLA, "report", *words, "-o", self.page], capture_output=True, text=True, check=False)

    def refused(self, path, pattern, code=1):
        done = self.report(path)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Acupola: " + re.escape(path) + r"(:\d+)?: " + pattern + r"\n\Z")
        self.assertFalse(os.path.exists(self.page))

    def made(self, *paths):
        """The notes that a page is made with."""
        done = self.report(*paths)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.page, encoding="utf-8") as file:
            self.text = file.read()
        return done.stderr.splitlines()

    def test_no_such_file(self):
        self.refused(os.path.join(self.folder, "none"), "there is no such file; `cupola run --trace FILE -- CMD` writes one")

    def test_what_a_killed_run_left_is_named(self):
        left = self.write(WHOLE, "t.json.aB3dE6")
        self.refused(os.path.join(self.folder, "t.json"), f"there is no such file; name {re.escape(left)}, which .*")

    def test_no_file(self):
        self.refused(self.folder, "is not a regular file; .*")
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        self.refused(fifo, "is not a regular file; .*")

    def test_no_trace(self):
        for text in ("hello\n", "{}", '{"traceEvents": []}', "\0\1\2"):
            self.refused(self.write(text), "is not a trace of Cupola's; name what .* wrote")

    def test_empty_file(self):
        self.refused(self.write(""), "is empty; run the program again .*")

    def test_trace_of_another_version(self):
        self.refused(self.write('{"displayTimeUnit":"ns","traceEvents":[\n]}'), "is a trace of an older Cupola; .*")
        self.refused(self.write(WHOLE.replace('"format":1', '"format":9')), "is a trace of another version .*")

    def test_trace_without_launches(self):
        self.refused(self.write(HEAD + TAIL), "no launch is in it: the program made none, .*")
        self.refused(self.write(ARBITER.split("\n")[0] + "\n]}\n"), "no program has used the GPU in it; .*")

    def test_damaged_line(self):
        self.refused(self.write(WHOLE.replace('"dur":2.000', '"dur":2.0.0')), "is damaged in this line; .*")
        self.refused(self.write(WHOLE.replace('"way":"plain"', '"way":"odd"')), "is damaged in this line; .*")
        self.refused(self.write(WHOLE.replace('"pid":7,"tid"', '"pid":"7","tid"')), "is damaged in this line; .*")

    def test_cut_off_trace(self):
        self.refused(self.write(HEAD[:60]), "is cut off in its first line; .*")
        whole = len(HEAD + "\n" + PROCESS + ",\n" + KERNEL)
        notes = self.made(self.write(WHOLE[:whole + 2] + KERNEL[:30]))
        self.assertRegex(notes[0], r"^cupola: .*/t\.json: the trace breaks off in line \d, because its writer was killed or "
                                   "still runs; what came later is missing$")
        self.assertTrue("breaks off in line" in self.text)
        # Wherever it is cut, the answer is a page or one line, and never a crash.
        for length in range(0, len(WHOLE), 7):
            done = self.report(self.write(WHOLE[:length]))
            self.assertIn(done.returncode, (0, 1), done.stderr)
            self.assertLessEqual(len(done.stderr.splitlines()), 2)

    def test_trace_without_the_arbiter_says_so(self):
        notes = self.made(self.write(WHOLE))
        self.assertEqual(len(notes), 1)
        self.assertRegex(notes[0], "no trace of the arbiter is among the files: .* `cupola serve --trace FILE` writes .*")

    def test_trace_with_the_arbiter(self):
        # The arbiter's trace may be read while the daemon runs: its slices are open.
        notes = self.made(self.write(WHOLE), self.write(ARBITER, "a.json"))
        self.assertEqual(len(notes), 1)
        self.assertIn("a.json: the trace breaks off", notes[0])
        for part in ('"name":"app [label]"', '"phases":[[0,0,1,0,3500]]'):
            self.assertTrue(part in self.text, part)
        self.assertEqual(self.made(self.write(WHOLE), self.write(ARBITER + "\n]}\n", "a.json")), [])

    def test_missing_launches_and_times_are_told(self):
        notes = self.made(self.write(WHOLE.replace('"dropped":0', '"dropped":3').replace('"device"', '"host"')))
        self.assertRegex("\n".join(notes), "3 launches are missing: (.|\n)*1 launches have no device times")

    def test_names_cannot_end_the_data(self):
        self.made(self.write(WHOLE.replace("Kernel<1>()", "</script><script>alert(1)</script>")))
        self.assertFalse("<script>alert" in self.text)
        self.assertTrue("\\u003c/script>" in self.text)

    def test_the_page_does_not_replace_the_trace(self):
        path = self.write(WHOLE)
        done = subprocess.run([CUPOLA, "report", path, "-o", path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("would replace the trace", done.stderr)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), WHOLE)

    def test_page_that_cannot_be_written(self):
        done = subprocess.run([CUPOLA, "report", self.write(WHOLE), "-o", "/proc/none/page.html"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/proc/none", done.stderr)

    def test_wrong_usage(self):
        self.assertEqual(subprocess.run([CUPOLA, "report"], capture_output=True, check=False).returncode, 2)


class ArbiterTrace(unittest.TestCase):
    """The file of `cupola serve --trace`."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cupola-report-")
        self.addCleanup(shutil.rmtree, self.folder)

    def serve(self, trace):
        daemon = subprocess.Popen([CUPOLA, "serve", "--socket", os.path.join(self.folder, "a.sock"), "--trace", trace],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = daemon.stdout.readline()
        if line:
            daemon.terminate()
        _, errors = daemon.communicate()
        return daemon.returncode, line, errors

    def test_a_daemon_without_programs_leaves_an_empty_trace(self):
        path = os.path.join(self.folder, "arbiter.json")
        code, line, _ = self.serve(path)
        self.assertEqual(code, 0)
        self.assertTrue(line.startswith("listening on "))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        self.assertEqual((trace["cupola"]["writer"], trace["traceEvents"]), ("cupola serve", []))

    def test_what_is_no_file_is_refused(self):
        for path in ("/dev/null", self.folder, os.path.join(self.folder, "none", "t.json")):
            code, line, errors = self.serve(path)
            self.assertEqual((code, line), (1, ""))
            self.assertRegex(errors, f"cupola: {re.escape(path)}: .*")


if __name__ == "__main__":
    unittest.main()
