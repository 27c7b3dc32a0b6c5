"""`cupola settings` as a command, and what other commands say of variables that are no settings. Run by ctest."""
import json
import os
import subprocess
import tempfile
import unittest

CUPOLA = os.environ["CUPOLA"]
SOURCE = os.environ["SOURCE"]
TIMEOUT = 60


class SettingsTest(unittest.TestCase):
    def setUp(self):
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CUPOLA")}

    def cupola(self, *words, **variables):
        return subprocess.run([CUPOLA, *words], env={**self.env, **variables}, timeout=TIMEOUT, capture_output=True,
                              encoding="utf-8", check=False)

    def rows(self, *words, code=0, **variables):
        done = self.cupola("settings", "--json", *words, **variables)
        self.assertEqual(done.returncode, code, done.stderr)
        answer = json.loads(done.stdout)
        return {row["name"]: row for row in answer["settings"]}, answer["unknown"]

    def config(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name


class Table(SettingsTest):
    def test_the_page_is_as_the_table(self):
        done = self.cupola("settings", "--markdown")
        with open(os.path.join(SOURCE, "docs/settings.md"), encoding="utf-8") as page:
            self.assertEqual(page.read(), done.stdout, "write it again: cupola settings --markdown > docs/settings.md")

    def test_lines_have_80_columns_at_most(self):
        for words in (["--help"], [], ["--all"]):
            done = self.cupola("settings", *words)
            self.assertEqual(done.returncode, 0)
            self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 80], [])

    def test_defaults(self):
        rows, unknown = self.rows()
        self.assertEqual(unknown, [])
        row = rows["CUPOLA_PREEMPT_ABOVE_US"]
        self.assertEqual((row["value"], row["unit"], row["from"], row["kind"]), ("150", "us", "default", "environment"))
        self.assertEqual({row["from"] for row in rows.values()}, {"default"})
        self.assertNotIn("CUPOLA_RECORDS", rows)
        self.assertIn("CUPOLA_RECORDS", self.rows("--all")[0])

    def test_only_these(self):
        done = self.cupola("settings", "CUPOLA_TASKS", "policy.name")
        self.assertIn("CUPOLA_TASKS                    auto (default)\n", done.stdout)
        self.assertIn("policy.name                     hpf (default)\n", done.stdout)
        self.assertNotIn("CUPOLA_LOG", done.stdout)
        done = self.cupola("settings", "CUPOLA_TASK")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "cupola: there is no setting CUPOLA_TASK; did you mean CUPOLA_TASKS?\n")

    def test_wrong_usage(self):
        for words in (["--json", "--markdown"], ["--nonsense"], ["--config"]):
            self.assertEqual(self.cupola("settings", *words).returncode, 2, words)


class Environment(SettingsTest):
    def test_what_is_set_is_in_force(self):
        rows, _ = self.rows(CUPOLA_TASK_WARPS="12", CUPOLA_PLAN="", CUPOLA_TASKS="")
        self.assertEqual((rows["CUPOLA_TASK_WARPS"]["value"], rows["CUPOLA_TASK_WARPS"]["from"]), ("12", "environment"))
        self.assertEqual((rows["CUPOLA_PLAN"]["value"], rows["CUPOLA_PLAN"]["from"]), ("", "environment"))
        self.assertEqual((rows["CUPOLA_TASKS"]["value"], rows["CUPOLA_TASKS"]["from"]), ("auto", "default"))

    def test_what_is_not_allowed_is_not(self):
        rows, _ = self.rows(code=1, CUPOLA_TASK_WARPS="12 warps")
        row = rows["CUPOLA_TASK_WARPS"]
        self.assertEqual((row["value"], row["from"]), ("31", "default"))
        self.assertEqual(row["problem"],
                         "CUPOLA_TASK_WARPS=12 warps is not a whole number from 0 to 4294967295: using 31")
        done = self.cupola("settings", CUPOLA_SEED="x")  # it is not for users, and named all the same
        self.assertEqual(done.returncode, 1)
        self.assertIn("    WRONG: CUPOLA_SEED=x is not", done.stdout)

    def test_unknown_variables_are_named(self):
        _, unknown = self.rows(code=1, CUPOLA_PREMPT="off")
        said = "CUPOLA_PREMPT in the environment is no setting; did you mean CUPOLA_PREEMPT?"
        self.assertEqual(unknown, [{"name": "CUPOLA_PREMPT", "problem": said}])
        done = self.cupola("settings", CUPOLA_PREMPT="off")
        self.assertEqual((done.returncode, done.stderr), (1, f"cupola: {said}\n"))


class Configuration(SettingsTest):
    def test_its_values_are_in_force(self):
        file = self.config('[policy]\nquantum_us = 700\n[[rule]]\nlabel = "a"\npriority = 3\n[[rule]]\npriority = 4\n')
        rows, _ = self.rows("--config", file)
        self.assertEqual((rows["policy.quantum_us"]["value"], rows["policy.quantum_us"]["from"]), ("700", f"{file}:2"))
        self.assertEqual((rows["rule.priority"]["value"], rows["rule.priority"]["from"]), ("3, 4", f"{file}:5,7"))
        self.assertEqual(rows["policy.epoch_us"]["from"], "default")

    def test_what_is_wrong_is_said_with_its_place(self):
        done = self.cupola("settings", "--config", self.config("[policy]\nquantum_ms = 700\n"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(':2:1: unknown key "quantum_ms" in [policy]', done.stderr)
        self.assertIn("did you mean policy.quantum_us?", done.stderr)
        wrong = self.config("[policy]\nquantum_ms = 700\n")
        done = self.cupola("serve", "--config", wrong, CUPOLA_LABLE="x", CUPOLA_LOG="loud")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("CUPOLA_LABLE in the environment is no setting; did you mean CUPOLA_LABEL?\n", done.stderr)
        self.assertIn("CUPOLA_LOG=loud is not off, critical, ", done.stderr)
        self.assertIn("did you mean policy.quantum_us?", done.stderr)
        done = self.cupola("settings", "--config", "/nowhere.toml")
        self.assertEqual((done.returncode, done.stdout), (1, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
