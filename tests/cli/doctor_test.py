#!/usr/bin/env python3
"""Tests `cupola doctor`: each thing that it looks at, in order and out of order, and the remedy that it names."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

CUPOLA = os.environ["CUPOLA"]
DRIVER = os.environ["DOCTOR_DRIVER"]
OLDER_DRIVER = os.environ["DOCTOR_OLDER_DRIVER"]  # it lacks what came after CUDA 12.4


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cupola-doctor-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("CUPOLA")}
        self.environ.update(HOME=self.folder, XDG_CACHE_HOME=f"{self.folder}/cache", XDG_RUNTIME_DIR=self.folder,
                            CUPOLA_SOCKET=f"{self.folder}/none.sock")

    def doctor(self, *arguments, **environ):
        return subprocess.run([CUPOLA, "doctor", *arguments], capture_output=True, text=True, timeout=60,
                              env=self.environ | environ)

    def findings(self, code, **environ):
        ended = self.doctor("--json", **environ)
        self.assertEqual((ended.returncode, ended.stderr), (code, ""), ended.stdout)
        return {finding["name"]: finding for finding in json.loads(ended.stdout)["findings"]}

    def assert_state(self, finding, state, text="", remedy=""):
        self.assertEqual(finding["state"], state, finding)
        self.assertIn(text, finding["text"])
        self.assertIn(remedy, finding["remedy"])
        self.assertEqual(finding["remedy"] == "", state == "ok", finding)

    def test_a_good_driver(self):
        found = self.findings(0, CUPOLA_DRIVER=DRIVER)
        self.assert_state(found["driver"], "ok", "CUDA 13.0")
        self.assert_state(found["GPUs"], "ok", "2 of them")
        self.assertIn("compute capability 9.0", found["GPUs"]["text"])

    def test_an_old_driver(self):
        found = self.findings(1, CUPOLA_DRIVER=DRIVER, FAKE_VERSION="12030")
        self.assert_state(found["driver"], "trouble", "CUDA 12.3", "CUDA 12.4")

    def test_the_oldest_driver(self):
        found = self.findings(0, CUPOLA_DRIVER=OLDER_DRIVER, FAKE_VERSION="12040")["driver"]
        self.assert_state(found, "note", "CUDA 12.4; it lacks cuCtxRecordEvent: launches do not become tasks", "CUDA 12.5")

    def test_a_driver_that_has_all_calls(self):
        self.assert_state(self.findings(0, CUPOLA_DRIVER=DRIVER, FAKE_VERSION="12050")["driver"], "ok", "CUDA 12.5")

    def test_a_driver_that_does_not_start(self):
        found = self.findings(1, CUPOLA_DRIVER=DRIVER, FAKE_INIT="999")
        self.assert_state(found["driver"], "trouble", "cuInit returns 999", "nvidia-smi")

    def test_a_driver_that_ends_its_process(self):
        self.assert_state(self.findings(1, CUPOLA_DRIVER=DRIVER, FAKE_INIT="-1")["driver"], "trouble", "does not answer")

    def test_a_driver_that_is_none(self):
        found = self.findings(1, CUPOLA_DRIVER=f"{self.folder}/libcuda.so.1")
        self.assert_state(found["driver"], "trouble", "CUPOLA_DRIVER", "unset CUPOLA_DRIVER")

    def test_another_generation(self):
        self.assert_state(self.findings(0, CUPOLA_DRIVER=DRIVER, FAKE_MAJOR="8")["GPUs"], "note", "8.0", "without Cupola")

    def test_the_simulated_device(self):
        sim = self.findings(0)["simulated device"]
        self.assert_state(sim, "ok")
        named = self.findings(0, CUPOLA_DRIVER=os.path.join(sim["text"], "libcuda.so.1"))
        self.assert_state(named["driver"], "ok", "simulated device")

    def test_without_its_libraries(self):
        self.assert_state(self.findings(1, CUPOLA_HOME=self.folder)["cupola"], "trouble", "libcupola.so", "install")

    def test_the_store(self):
        self.assert_state(self.findings(0)["store"], "note", "no kernel has variants", "cupola build")
        store = os.path.join(self.folder, "cache", "cupola", "variants")
        os.makedirs(store, mode=0o700)
        self.assert_state(self.findings(0)["store"], "ok", store)
        os.chmod(store, 0o777)
        self.assert_state(self.findings(1)["store"], "trouble", "", "who may write")
        self.assert_state(self.findings(1, CUPOLA_STORE="here")["store"], "trouble", "CUPOLA_STORE", "absolute")

    def test_the_arbiter(self):
        self.assert_state(self.findings(0)["arbiter"], "note", "none is running", "cupola serve")
        socket = f"{self.folder}/arbiter.sock"
        serve = subprocess.Popen([CUPOLA, "serve", "--socket", socket], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 env=self.environ)
        self.addCleanup(serve.wait)
        self.addCleanup(serve.stdout.close)
        self.addCleanup(serve.terminate)
        self.assertIn(b"listening", serve.stdout.readline())
        self.assert_state(self.findings(0, CUPOLA_SOCKET=socket)["arbiter"], "ok", "0 programs")

    def test_without_a_compiler(self):
        if os.path.exists("/usr/local/cuda/bin/ptxas"):
            self.skipTest("the toolkit's usual place has a ptxas")
        found = self.findings(0, PATH="/usr/bin:/bin", CUDA_HOME=self.folder)
        self.assert_state(found["compiler"], "note", "cupola build", "CUDA_HOME")

    def test_mps(self):
        self.assert_state(self.findings(0, PATH=self.folder)["MPS"], "note", "not in PATH", "cupola serve --mps")
        with open(f"{self.folder}/nvidia-cuda-mps-control", "w", encoding="utf-8") as file:
            os.chmod(file.name, 0o755)
        path = {"PATH": self.folder, "CUDA_MPS_PIPE_DIRECTORY": f"{self.folder}/mps"}
        self.assert_state(self.findings(0, **path)["MPS"], "note", "does not run", "cupola serve --mps")
        os.makedirs(f"{self.folder}/mps/control")
        self.assert_state(self.findings(0, **path)["MPS"], "ok")

    def test_the_environment_is_shown_as_it_is_harmless(self):
        found = self.findings(0, CUPOLA_LOG="in\x1b[31mfo")
        self.assertIn(r"CUPOLA_LOG=in\x1b[31mfo", found["environment"]["text"])

    def test_settings_that_are_wrong_are_noted(self):
        found = self.findings(0, CUPOLA_PREMPT="off")
        self.assert_state(found["settings"], "note", "did you mean CUPOLA_PREEMPT?", "cupola settings")
        self.assertNotIn("settings", self.findings(0))

    def test_text(self):
        begun = time.monotonic()
        ended = self.doctor(CUPOLA_DRIVER=DRIVER, FAKE_VERSION="12000")
        self.assertEqual(ended.returncode, 1)
        lines = ended.stdout.splitlines()
        self.assertRegex(lines[0], r"^cupola \d+\.\d+\.\d+$")
        at = next(i for i, line in enumerate(lines) if line.startswith("TROUBLE"))
        self.assertIn("driver", lines[at])
        self.assertTrue(lines[at + 1].strip().startswith("-> "))
        self.assertLess(time.monotonic() - begun, 20)

    def test_wrong_usage(self):
        self.assertEqual(self.doctor("--all").returncode, 2)


if __name__ == "__main__":
    unittest.main()
