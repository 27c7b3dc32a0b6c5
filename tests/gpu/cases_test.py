"""Tests the runner of tests/cases on small cases: what a run that is killed leaves, and how runs are put together."""
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import case_cells
import cases
import result_file

SCRIPT = os.path.abspath(cases.__file__)
FACTS = {"gpu": "NVIDIA H100 80GB HBM3, 580.1, 81559 MiB", "commit": "c1"}
H100 = "NVIDIA H100 80GB HBM3"


def cell(case, verdict="right", commit="c1", gpu=H100, date="2026-01-01T00:00:00"):
    return {"case": case, "verdict": verdict, "commit": commit, "gpu": gpu, "date": date, "seconds": 1}


class CellsTest(unittest.TestCase):
    def merged(self, *cells):
        return case_cells.merged(cells, "c1", H100)

    def test_cells_of_another_commit_are_not_merged(self):
        self.assertEqual(list(self.merged(cell("a"), cell("b", commit="c2"))), ["a"])

    def test_cells_of_another_gpu_are_not_merged(self):
        self.assertEqual(list(self.merged(cell("a", gpu="NVIDIA H200"), cell("b"))), ["b"])

    def test_without_a_commit_nothing_is_merged(self):
        self.assertEqual(case_cells.merged([cell("a", commit=None)], None, H100), {})

    def test_the_last_cell_of_a_case_counts(self):
        late, early = cell("a", "wrong", date="2026-01-02T00:00:00"), cell("a")
        self.assertEqual(self.merged(late, early)["a"]["verdict"], "wrong")

    def test_another_driver_is_the_same_gpu(self):
        self.assertEqual(case_cells.model_of(FACTS), H100)
        self.assertEqual(case_cells.model_of({"gpu": None}), case_cells.SIMULATED)

    def test_cells_without_facts_have_those_of_their_document(self):
        document = {"cases_commit": "c1", "machine": FACTS, "cases": [{"case": "a", "verdict": "right"}]}
        self.assertEqual(list(self.merged(*case_cells.cells_of(document))), ["a"])

    def test_the_counts_follow_from_the_cells(self):
        found = self.merged(cell("a"), cell("b", "wrong"), cell("c", "skipped"), cell("x", commit="c2"))
        made = case_cells.document_of(found, ["a", "b", "c", "x"], FACTS, {"cases_total": 9, "startup_plain_ms": 3})
        self.assertEqual((made["cases_total"], made["cases_right"], made["cases_not_reached"]), (2, 1, ["x"]))
        self.assertEqual((made["cases_commit"], made["startup_plain_ms"]), ("c1", 3))

    def test_those_that_take_long_begin_first(self):
        self.assertEqual(case_cells.in_order(["a", "b", "new"], {"a": 1, "b": 5}), ["new", "b", "a"])

    def test_patterns(self):
        names = ["launch_checks", "launches_at_exit", "time_to_start"]
        self.assertEqual(case_cells.chosen(names, ["launch*", "launch_checks"]), names[:2])
        self.assertEqual(case_cells.chosen(names, []), names)
        self.assertRaises(ValueError, case_cells.chosen, names, ["lunch*"])

    def test_a_file_that_cannot_be_written_stays_as_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            result_file.write(folder + "/a.json", {"a": 1})
            self.assertRaises(TypeError, result_file.write, folder + "/a.json", {"a": 1, "b": object()})
            self.assertEqual((case_cells.read(folder + "/a.json"), os.listdir(folder)), ({"a": 1}, ["a.json"]))


class RunsTest(unittest.TestCase):
    def setUp(self):
        self.made = tempfile.TemporaryDirectory()
        self.addCleanup(self.made.cleanup)
        self.out = self.made.name + "/cases.json"

    def case(self, name, script):
        os.makedirs(f"{self.made.name}/cases/{name}")
        with open(f"{self.made.name}/cases/{name}/run.sh", "w") as file:
            file.write("#!/bin/bash\n" + script)
        os.chmod(file.name, 0o755)

    def run_all(self, *arguments, commit="c1"):
        options = cases.parse_arguments(
            ["--device", "sim", "--json", self.out, "--folder", self.made.name + "/cases", *arguments])
        runs = cases.Runs(options, {**FACTS, "commit": commit})
        runs.run()
        return runs

    def kept(self):
        return {row["case"]: row["verdict"] for row in case_cells.read(self.out).get("cases", [])}

    def wait_for(self, condition):
        end = time.monotonic() + 20
        while not condition() and time.monotonic() < end:
            time.sleep(0.02)
        return condition()

    def test_verdicts(self):
        self.case("good", "echo right: one\n")
        self.case("bad", "echo right: one; echo WRONG: two; exit 1\n")
        self.case("elsewhere", "echo not tried: no; exit 77\n")
        runs = self.run_all()
        self.assertEqual(self.kept(), {"good": "right", "bad": "wrong", "elsewhere": "skipped"})
        self.assertEqual([row["problem"] for row in runs.cells()], ["wrong; WRONG: two", "", ""])
        made = case_cells.read(self.out)
        self.assertEqual((made["cases_total"], made["cases_right"], made["cases_commit"]), (2, 1, "c1"))

    def test_a_run_that_is_killed_leaves_what_has_ended(self):
        """Several cases at a time: the kernel signals each child once for each thread of a parent that goes."""
        self.case("a", "echo right: one\n")
        others = [f"b{number}" for number in range(8)]
        for name in others:
            self.case(name, f"trap 'echo > {self.made.name}/{name}.cleaned' EXIT\n"
                            f"echo >{self.made.name}/{name}.begun; sleep 60 & wait\n")

        def all_have(what):
            return all(os.path.exists(f"{self.made.name}/{name}.{what}") for name in others)

        command = [sys.executable, SCRIPT, "--device", "sim", "--jobs", "9", "--json", self.out, "--folder",
                   self.made.name + "/cases"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "CUPOLA_COMMIT": "c1"})
        self.assertTrue(self.wait_for(lambda: self.kept() and all_have("begun")))
        time.sleep(0.2)  # until every script waits
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(self.kept(), {"a": "right"})
        self.assertTrue(self.wait_for(lambda: all_have("cleaned")))

    def test_a_second_run_goes_on(self):
        for name in ("a", "b", "c"):
            self.case(name, f"echo >>{self.made.name}/{name}.ran\n")
        self.run_all("a")
        self.assertEqual(self.run_all("--resume").not_reached(), [])
        self.assertEqual(list(self.kept()), ["a", "b", "c"])
        with open(self.made.name + "/a.ran") as file:
            self.assertEqual(file.read(), "\n")

    def test_nothing_goes_on_from_another_commit(self):
        self.case("a", f"echo >>{self.made.name}/ran\n")
        self.run_all()
        self.run_all("--resume", commit="c2")
        self.assertEqual([row["commit"] for row in case_cells.read(self.out)["cases"]], ["c2"])
        with open(self.made.name + "/ran") as file:
            self.assertEqual(file.read(), "\n\n")

    def test_a_second_run_goes_on_from_a_file_elsewhere(self):
        self.case("a", f"echo >>{self.made.name}/ran; exit 1\n")
        self.case("b", "exit 0\n")
        self.run_all("a")
        earlier, self.out = self.out, self.made.name + "/second.json"
        self.run_all("--resume", "--earlier", earlier)
        self.assertEqual(self.kept(), {"a": "wrong", "b": "right"})
        with open(self.made.name + "/ran") as file:
            self.assertEqual(file.read(), "\n")

    def test_what_the_time_does_not_reach_has_no_verdict(self):
        self.case("long", "sleep 60\n")
        runs = self.run_all("--within", str(cases.CLEANUP_SECONDS + 0.3))
        self.assertEqual((runs.not_reached(), self.kept()), (["long"], {}))

    def test_a_late_case_is_ended_with_all_that_it_has_started(self):
        self.case("long", f"trap 'rm {self.made.name}/work' EXIT; echo >{self.made.name}/work; echo right: one\n"
                          f"timeout 30 sleep 61.0{os.getpid()}\n")
        runs = self.run_all("--limit", "0.5")
        self.assertEqual([(row["verdict"], row["checks"]) for row in runs.cells()], [("late", 1)])
        self.assertFalse(os.path.exists(self.made.name + "/work"))
        left = subprocess.run(["pgrep", "-f", f"sleep 61.0{os.getpid()}"], stdout=subprocess.PIPE)
        self.assertEqual(left.stdout, b"")

    def test_processes_of_any_name_are_looked_at(self):
        name = self.made.name.encode() + b"/\xe9) \xff"
        shutil.copy(shutil.which("sleep"), name)
        with subprocess.Popen([name, "20"], start_new_session=True) as process:
            self.assertEqual(list(cases.session_members(process.pid)), [process.pid])
            process.kill()

    def test_so_many_side_by_side_and_those_alone_after_them(self):
        others = "mkdir -p {0}/now; echo >{0}/now/$$; sleep 0.3; ls {0}/now | wc -l; rm {0}/now/$$\n".format(self.made.name)
        for name in ("a", "b", "c", "d"):
            self.case(name, others)
        for name in ("e", "f"):
            self.case(name, "# Alone on a GPU: it measures.\n" + others)
        self.run_all("--jobs", "2")
        seen = {row["case"]: int(row["said"][0]) for row in case_cells.read(self.out)["cases"]}
        self.assertEqual((max(seen.values()), seen["e"], seen["f"]), (2, 1, 1))

    def test_the_suite_has_on_record_what_has_ended(self):
        loader = importlib.machinery.SourceFileLoader("gpu_suite", cases.ROOT + "/scripts/gpu-suite")
        suite = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_suite", loader))
        loader.exec_module(suite)
        self.case("a", "exit 1\n")
        self.case("b", f"cp {self.made.name}/gpu_suite.json {self.made.name}/meanwhile.json\n")
        arguments = ["gpu-suite", "--device", "sim", "--steps", "cases", "--jobs", "1", "--out", self.made.name]
        with mock.patch("sys.argv", arguments), mock.patch.object(cases, "CASES", self.made.name + "/cases"), \
                mock.patch.dict(os.environ, {"CUPOLA_COMMIT": "c1"}), mock.patch("builtins.print"):
            self.assertEqual(suite.main(), 1)
        meanwhile, ended = (case_cells.read(f"{self.made.name}/{name}.json")["steps"]["cases"]
                            for name in ("meanwhile", "gpu_suite"))
        self.assertEqual((meanwhile["verdict"], meanwhile["cases_total"], meanwhile["cases_not_reached"]), ("BAD", 1, ["b"]))
        self.assertEqual((ended["cases_total"], ended["cases_right"], ended["cases_not_reached"]), (2, 1, []))
        self.assertEqual(self.kept(), {"a": "wrong", "b": "right"})

    def test_files_of_several_runs_are_put_together(self):
        paths = []
        for number, (commit, case) in enumerate((("c1", "a"), ("c0", "b"), ("c1", "c"))):
            paths.append(f"{self.made.name}/{number}.json")
            result_file.write(paths[-1], case_cells.document_of({case: cell(case, commit=commit)}, [case],
                                                               {**FACTS, "commit": commit}))
        with open(self.out, "w") as file:
            json.dump({"narrow_programs_total": 23, "cases": [cell("z", commit="c0")]}, file)
        options = cases.parse_arguments(["--json", self.out, "--folder", self.made.name, "--merge", *paths])
        self.assertEqual(cases.merge(options), 0)
        self.assertEqual(list(self.kept()), ["a", "c"])
        self.assertEqual(case_cells.read(self.out)["narrow_programs_total"], 23)


if __name__ == "__main__":
    unittest.main()
