#!/usr/bin/env python3
"""The report of what Cupola did for a program (`cupola run --report`, CUPOLA_REPORT), and `cupola why`, on the
simulated device. Run by ctest, a class at a time.

BUILD names the build folder. Exits 77 where a program that it needs is not built.
"""
import collections
import fcntl
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for part in ("tests/apps", "tests/preempt", "tests/tasks"):
    sys.path.insert(0, os.path.join(ROOT, part))
import pestered_board  # noqa: E402
import runner  # noqa: E402
import unmodified_bed  # noqa: E402

BUILD = os.environ["BUILD"]
CUPOLA = BUILD + "/bin/cupola"
NARROW = BUILD + "/apps/tasks/narrow_reasons_shared"
ADD, ENDS, FORKS = (f"{BUILD}/apps/shared/{name}" for name in ("vector_add", "exit_codes", "fork_exec"))
TIMEOUT = 100
LINE = re.compile(r"cupola (\d+): ")


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.store = tempfile.TemporaryDirectory(prefix="cupola-report-store-")
        if problem := runner.build_variants(BUILD, cls.store.name, NARROW):
            raise RuntimeError(problem)

    @classmethod
    def tearDownClass(cls):
        cls.store.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cupola-report-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.env = {**runner.environment(BUILD, "sim"), "CUPOLA_STORE": self.store.name,
                    "CUPOLA_PROFILES": self.folder + "/profiles"}

    def run_it(self, *command, report=None, **more):
        """`cupola run [--report...] -- COMMAND`, with its output as text."""
        options = [] if report is None else [report]
        return subprocess.run([CUPOLA, "run", "--device", "sim", *options, "--", *command], env={**self.env, **more},
                              capture_output=True, text=True, timeout=TIMEOUT)

    def why(self, *words):
        return subprocess.run([CUPOLA, "why", *words], env=self.env, capture_output=True, text=True, timeout=TIMEOUT)

    def processes(self, done):
        """Of a run with --report=json: its last line."""
        return json.loads(done.stderr.splitlines()[-1])["processes"]

    def kernels(self, process):
        """By the name of the function, such as Step."""
        return {re.search(r"(\w+)\(", kernel["demangled"])[1]: kernel for kernel in process["kernels"]}

    def against(self, kernel, better):
        return {use["reason"]: use["launches"] for use in kernel["reasons"] if use["better"] == better}

    def assert_adds_up(self, process):
        """Each launch is in one way, and has a reason against each better one."""
        for kernel in process["kernels"]:
            ways = collections.Counter({way: use["launches"] for way, use in kernel["ways"].items()})
            self.assertEqual(sum(ways.values()), kernel["launches"], kernel)
            self.assertEqual(sum(self.against(kernel, "task").values()), kernel["launches"] - ways["task"], kernel)
            self.assertEqual(sum(self.against(kernel, "preemptible").values()),
                             kernel["launches"] - ways["task"] - ways["preemptible"], kernel)
            for use in kernel["reasons"]:
                self.assertTrue(use["sentence"].endswith(".") and use["remedy"].endswith("."), use)


class Ways(ReportTest):
    """How launches went out, and why not better."""

    def test_tasks_and_preemptible_launches(self):
        board = pestered_board.Board(self.folder)
        done = self.run_it(NARROW, "body", report="--report=json", CUPOLA_TASKS="always",
                           **unmodified_bed.taking_part(BUILD, "gpu", board))
        self.assertEqual(done.returncode, 0, done.stderr)
        (process,) = self.processes(done)
        self.assertEqual(process["program"], os.path.realpath(NARROW))
        self.assert_adds_up(process)
        kernels = self.kernels(process)
        self.assertGreater(kernels["Step"]["ways"]["task"]["launches"], 0)
        many = kernels["AddMany"]
        self.assertEqual({way: use["launches"] for way, use in many["ways"].items()}, {"preemptible": 10})
        self.assertEqual(self.against(many, "task"), {"no body": 10})
        self.assertIn("bytes of parameters", many["reasons"][0]["detail"])
        self.assertEqual(many["gpu_time"], "measured")
        self.assertGreater(many["gpu_ns"], 0)

    def test_plain_for_a_named_reason(self):
        done = self.run_it(NARROW, "wide", report="--report=json", CUPOLA_TASKS="always")
        (process,) = self.processes(done)
        self.assert_adds_up(process)
        count = self.kernels(process)["Count"]
        self.assertEqual({way: use["launches"] for way, use in count["ways"].items()}, {"plain": 10})
        self.assertEqual(self.against(count, "task"), {"not narrow": 10})
        self.assertEqual(self.against(count, "preemptible"), {"no arbiter": 10})

    def test_each_reason_of_the_log(self):
        """What the report counts by reason is what the log counts by reason."""
        done = self.run_it(NARROW, "wide", report="--report=json", CUPOLA_TASKS="always", CUPOLA_LOG="info")
        (process,) = self.processes(done)
        said = {reason: int(count) for count, reason in re.findall(r"tasks: (\d+) launches plain: (.*)", done.stderr)}
        counted = collections.Counter()
        for kernel in process["kernels"]:
            counted.update(self.against(kernel, "task"))
        self.assertEqual(counted, said)

    def test_without_a_bundle(self):
        (process,) = self.processes(self.run_it(ADD, report="--report=json"))
        (kernel,) = process["kernels"]
        self.assertEqual(self.against(kernel, "task"), {"no bundle": 1})
        self.assertIn("cupola build", kernel["reasons"][0]["remedy"])

    def test_behind_gates(self):
        """A launch that nothing can stop waits at its stream's gate where there is an arbiter."""
        board = pestered_board.Board(self.folder)
        board.open_gate_for_anyone()
        done = self.run_it(ADD, report="--report=json", CUPOLA_TASKS="off",
                           **unmodified_bed.taking_part(BUILD, "gpu", board))
        (process,) = self.processes(done)
        self.assert_adds_up(process)
        (kernel,) = process["kernels"]
        self.assertEqual({way: use["launches"] for way, use in kernel["ways"].items()}, {"gated": 1})
        self.assertEqual(self.against(kernel, "preemptible"), {"no bundle": 1})

    def test_captured_launches(self):
        (process,) = self.processes(self.run_it(NARROW, "capturing", report="--report=json", CUPOLA_TASKS="always"))
        self.assert_adds_up(process)
        step = self.kernels(process)["Step"]
        self.assertEqual(step["ways"]["captured"], {"launches": 1, "gpu_ns": 0, "gpu_time": "unknown"})
        self.assertEqual(self.against(step, "task")["capturing"], 11)


class Output(ReportTest):
    """Where the report goes, in which form, and that there is none where none is asked for."""

    def test_no_word_without_it(self):
        """And the command still replaces itself by the program."""
        done = self.run_it("sh", "-c", f"echo $PPID; {ADD}")
        self.assertNotIn("cupola", done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], str(os.getpid()))
        done = self.run_it("sh", "-c", "echo $PPID", report="--report")
        self.assertNotEqual(done.stdout.splitlines()[0], str(os.getpid()))

    def test_text(self):
        done = self.run_it(NARROW, "wide", report="--report", CUPOLA_TASKS="always")
        self.assertTrue(all(LINE.match(line) for line in done.stderr.splitlines()), done.stderr)
        self.assertRegex(done.stderr, r"narrow_reasons_shared: 2 kernels, 210 launches\n")
        self.assertRegex(done.stderr, r"Count\(unsigned int\*\): 10 launches, .* of GPU time, measured\n")
        self.assertIn("10 no task: not narrow. ", done.stderr)
        self.assertIn("remedy: ", done.stderr)

    def test_the_variable_says_the_same(self):
        for value in ("1", "text"):
            done = self.run_it(NARROW, "wide", CUPOLA_REPORT=value, CUPOLA_TASKS="always")
            self.assertTrue(all(LINE.match(line) for line in done.stderr.splitlines()), done.stderr)
            self.assertIn("10 no task: not narrow. ", done.stderr)
        done = self.run_it(ADD, CUPOLA_REPORT="json")
        self.assertEqual(len(json.loads(done.stderr)["kernels"]), 1)
        for value in ("off", ""):
            self.assertEqual(self.run_it(ADD, CUPOLA_REPORT=value).stderr, "")

    def test_to_a_file(self):
        path = self.folder + "/out.json"
        done = self.run_it(ADD, report="--report=" + path)
        self.assertEqual(done.stderr, "")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(len(json.load(file)["processes"]), 1)

    def test_several_processes(self):
        """Each has its report; lines do not mix, and those of a process are together."""
        several = " & ".join([f"{NARROW} wide >/dev/null"] * 5) + " & wait"
        for settings in ({"report": "--report"}, {"CUPOLA_REPORT": "text"}):
            done = self.run_it("sh", "-c", several, CUPOLA_TASKS="always", **settings)
            pids = [LINE.match(line)[1] for line in done.stderr.splitlines()]
            changes = sum(a != b for a, b in zip(pids, pids[1:]))
            self.assertEqual((len(set(pids)), changes), (5, 4), done.stderr)
        path = self.folder + "/lines"
        self.run_it("sh", "-c", several, CUPOLA_REPORT=path)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(len({json.loads(line)["pid"] for line in file}), 5)

    def test_one_process_writes_at_a_time(self):
        """A process that ends waits while another one, here the test, has standard error locked."""
        reader, writer = os.pipe()
        with open(reader, "rb", buffering=0) as out, open(writer, "wb") as end:
            fcntl.lockf(end, fcntl.LOCK_EX)
            with subprocess.Popen([CUPOLA, "run", "--device", "sim", "--", ENDS, "exit", "0"], stderr=end,
                                  stdout=subprocess.DEVNULL, env={**self.env, "CUPOLA_REPORT": "1"}) as process:
                self.assertEqual(out.read(len(b"exit_codes: ends by exit\n")), b"exit_codes: ends by exit\n")
                self.assertEqual(select.select([out], [], [], 0.5)[0], [], "it did not wait")
                fcntl.lockf(end, fcntl.LOCK_UN)
                self.assertRegex(out.read(4096), rb"^cupola \d+: exit_codes: 1 kernel, 1 launch\n")
                self.assertEqual(process.wait(TIMEOUT), 0)

    def test_a_forked_child_has_its_own(self):
        processes = self.processes(self.run_it(FORKS, report="--report=json"))
        self.assertEqual(len({process["pid"] for process in processes}), 2)
        self.assertEqual(sorted(os.path.basename(process["program"]) for process in processes),
                         ["fork_exec", "vector_add"])

    def test_a_bad_value(self):
        done = self.run_it(ADD, CUPOLA_REPORT="jsn")
        self.assertEqual(done.stderr, "cupola: CUPOLA_REPORT=jsn is not off, 1, text or json, or an absolute path: using off\n")
        done = self.run_it(ADD, report="--report=jsn")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)

    def test_an_unwritable_place(self):
        done = self.run_it(ENDS, "exit", "7", CUPOLA_REPORT="/proc/none/report")
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"(?m)^cupola: the report cannot be written to /proc/none/report: .*\n$")
        done = self.run_it(ADD, report="--report=/proc/none/report")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (125, "", 1), done.stderr)

    def test_beside_records(self):
        done = self.run_it(ADD, report="--stats", CUPOLA_REPORT="1")
        self.assertIn("cupola: no report: launches are recorded", done.stderr)
        done = subprocess.run([CUPOLA, "run", "--report", "--stats", "--", "true"], env=self.env, capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 2)


class Ends(ReportTest):
    """However the program ends, its exit code is its own."""

    def test_by_exit_and_by_return(self):
        for words, code in ((("exit", "7"), 7), ((), 0)):
            done = self.run_it(ENDS, *words, report="--report")
            self.assertEqual(done.returncode, code)
            self.assertIn("Triple(unsigned int*): 1 launch, ", done.stderr)

    def test_by_a_signal(self):
        """The report is lost without a word of the process, and the command says that there is none."""
        for number in (9, 11):
            done = self.run_it(ENDS, "signal", str(number), report="--report")
            self.assertEqual(done.returncode, -number)
            said = [line for line in done.stderr.splitlines() if line.startswith("cupola")]
            self.assertEqual(len(said), 1, done.stderr)
            self.assertTrue(said[0].startswith("cupola: no report: "), said)

    def test_without_cuda(self):
        done = self.run_it("sh", "-c", "exit 3", report="--report")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1), done.stderr)


class Why(ReportTest):
    """`cupola why`."""

    def test_of_a_kernel(self):
        self.run_it(NARROW, "body", report="--report", CUPOLA_TASKS="always")
        done = self.why("AddMany")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("10 no task: no body. ", done.stdout)
        self.assertNotIn("Step(", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^bundle [0-9a-f]+: .*AddMany.*\n  task +no: more than 160 bytes of parameters: 200\n"
                                      r" +remedy: .*\.\n  preemptible yes\n")
        answer = json.loads(self.why("AddMany", "--json").stdout)
        (process,) = answer["processes"]
        self.assertEqual(self.against(process["kernels"][0], "task"), {"no body": 10})
        self.assertFalse(answer["kernels"][0]["forms"]["task"]["possible"])

    def test_of_a_kernel_in_a_named_report(self):
        for option, settings in (("--report=" + self.folder + "/one", {}), (None, {"CUPOLA_REPORT": self.folder + "/two"})):
            self.run_it(ADD, report=option, **settings)
        for name in ("one", "two"):
            done = self.why("VectorAdd", "--report", f"{self.folder}/{name}")
            self.assertIn("1 no task: no bundle. ", done.stdout, done.stderr)

    def test_of_a_binary(self):
        done = self.why(NARROW)
        self.assertRegex(done.stdout, r"AddMany\(.*\n  task +no: more than 160 bytes of parameters: 200\n +remedy: ")
        self.assertRegex(done.stdout, r"Step\(.*\n  task +yes\n  preemptible yes\n  sliced +yes\n")
        forms = {kernel["demangled"]: kernel["forms"] for kernel in json.loads(self.why(NARROW, "--json").stdout)["kernels"]}
        self.assertEqual(sum(not each["task"]["possible"] for each in forms.values()), 1)

    def test_of_what_is_not_known(self):
        for words in (("no_such_kernel",), ("./no_such_file",), ("x", "--report", "/proc/none/x"), ("x", "--report", CUPOLA)):
            done = self.why(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), (words, done.stderr))
        self.assertEqual(self.why().returncode, 2)

    def test_list(self):
        reasons = json.loads(self.why("--list", "--json").stdout)["reasons"]
        text = self.why("--list").stdout
        self.assertEqual(len({each["reason"] for each in reasons}), len(reasons))
        for each in reasons:
            self.assertIn(f"{each['reason']}\n  {each['sentence']}\n  remedy: {each['remedy']}\n", text)


if __name__ == "__main__":
    if missing := [path for path in (CUPOLA, NARROW, ADD, ENDS, FORKS) if not os.path.exists(path)]:
        print(f"build first: {missing}", file=sys.stderr)
        sys.exit(runner.NOT_POSSIBLE_HERE)
    unittest.main()
