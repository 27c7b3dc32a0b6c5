"""Profiles a program on the simulated device, trains, predicts, builds variants and tunes.

What is checked is that every step has the right data, not how fast anything is: durations of the
simulated device are those of a busy machine. The overhead of a preemption alone is measured, with blocks
that take the time that they were told. 77: the parts are not built.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SIZES = [1000, 2500, 5000, 9000, 14000, 20000]
KERNEL = "_Z9VectorAddPKfS0_Pfi"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    build = parser.parse_args().build.resolve()
    cupola, app = build / "bin/cupola", build / "apps/shared/vector_add"
    often = build / "apps/shared/flep_va"  # launches a kernel as often as is wished
    timed = build / "apps/shared/timed_blocks"
    parts = (cupola, app, often, timed, build / "lib/sim/libcuda.so.1")
    if not all(path.exists() for path in parts):
        return 77
    with tempfile.TemporaryDirectory(prefix="cupola-profile-") as folder:
        Check(cupola, app, often, timed, pathlib.Path(folder)).all()
    print("profile, train, merge and tune agree")
    return 0


class Check:
    def __init__(self, cupola, app, often, timed, folder):
        self.cupola, self.app, self.often, self.timed = cupola, app, often, timed
        self.folder = folder
        self.starts = folder / "starts"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("CUPOLA", "LD_"))}
        self.env.update(CUPOLA_PROFILES=str(folder / "profiles"),
                        CUPOLA_STORE=str(folder / "store"),
                        ASAN_OPTIONS="verify_asan_link_order=0")

    def run(self, *words, code=0):
        done = subprocess.run([self.cupola, *map(str, words)], env=self.env, timeout=120,
                              capture_output=True, text=True)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    def all(self):
        self.profile()
        self.merge()
        self.train()
        self.damaged()
        self.tune()
        self.preemptions()

    def profile(self):
        loop = 'for n in %s; do "$0" $n || exit 1; done' % " ".join(map(str, SIZES))
        simulated = dict(self.env, LD_LIBRARY_PATH=str(self.cupola.parent.parent / "lib/sim"))
        plain = subprocess.run(["sh", "-c", loop, self.app], capture_output=True, text=True,
                               env=simulated, timeout=120, check=True)
        done = self.run("profile", "--device", "sim", "--", "sh", "-c", loop, self.app)
        assert done.stdout == plain.stdout, (done.stdout, plain.stdout)
        # The exit code is the program's; a profile without launches is not written.
        self.run("profile", "--device", "sim", "--out", self.folder / "none.json", "--", "sh", "-c",
                 "exit 7", code=7)
        assert not (self.folder / "none.json").exists()
        (self.path,) = (self.folder / "profiles").glob("*.json")
        profile = json.loads(self.path.read_text())
        assert profile["cupola_profile"] == 2 and profile["gpu"]["sms"] > 0, profile["gpu"]
        (kernel,) = profile["kernels"]
        assert kernel["name"] == KERNEL, kernel["name"]
        assert [p.get("pointer", False) for p in kernel["parameters"]] == [True] * 3 + [False]
        seen = {launch["arguments"][3]: launch for launch in kernel["launches"]}
        assert sorted(seen) == SIZES, sorted(seen)
        for n, launch in seen.items():
            assert launch["grid"] == [(n + 255) // 256, 1, 1] and launch["block"] == [256, 1, 1]
            assert launch["input_bytes"] == 3 * 4 * n, launch
            assert launch["arguments"][:3] == [None] * 3 and launch["ns"] > 0, launch

    def merge(self):
        more = self.folder / "more.json"
        self.run("profile", "--device", "sim", "--out", more, "--", self.app, 7777)
        both = json.loads(self.run("profile", "merge", self.path, more).stdout)
        assert len(both["kernels"][0]["launches"]) == len(SIZES) + 1
        again = self.run("profile", "merge", more, self.path, self.path).stdout
        assert json.loads(again) == both
        assert "VectorAdd" in self.run("profile", "show", more).stdout

    def train(self):
        done = self.run("train", "--json")
        (kernel,) = json.loads(done.stdout)["kernels"]
        assert kernel["name"] == KERNEL and kernel["launches"] == len(SIZES), kernel
        assert kernel["integer_arguments"] == [3], kernel
        assert kernel["input_error_percent"] >= 0, kernel
        plan = self.path.with_suffix(".plan").read_bytes()
        assert plan.startswith(b"CUPPLAN1") and KERNEL.encode() in plan
        self.run("train")
        assert self.path.with_suffix(".plan").read_bytes() == plan  # the same plan

    def damaged(self):
        bad = self.folder / "bad.json"
        bad.write_text(self.path.read_text().replace('"ns"', '"nz"', 1))
        done = self.run("train", bad, code=1)
        assert 'bad.json: kernels[0].launches[0]: lacks "ns"' in done.stderr, done.stderr
        bad.write_text(self.path.read_text().replace('_profile": 2', '_profile": 9'))
        assert "version 9" in self.run("profile", "show", bad, code=1).stderr
        self.run("train", self.folder / "no.json", code=1)
        self.run("profile", code=2)

    def tune_words(self, *command):
        """The words of a `tune` command line; each start of the program then leaves a line in a file."""
        self.starts.write_text("")
        counted = f'echo >> {self.starts}; exec "$0" "$@"'
        return ("tune", "--device", "sim", "--rounds", 1, "--batches", "1,8", "--most-runs", 1,
                "--interrupt-every", 0.5, "--", "sh", "-c", counted, *command)

    def tune(self):
        words = self.tune_words(self.app, 60000)
        done = self.run(*words, code=1)
        assert "cupola build" in done.stderr, done.stderr
        self.run("build", "--quiet", self.app)
        words = self.tune_words(self.app, 60000)
        self.run(*words)
        # With one launch a run, each form runs once, and one run is interrupted.
        assert self.starts.read_text() == 6 * "\n", self.starts.read_text()
        kernel = json.loads(self.path.read_text())["kernels"][0]
        assert len(kernel["launches"]) == len(SIZES)  # those of `profile`, no others
        tuned = kernel["tuned"]
        assert tuned["batch"] in (1, 8) and tuned["bound_percent"] == 0.5, tuned
        assert tuned["met"] == (tuned["overhead_percent"] <= 0.5), tuned
        tried = [(one["batch"], one.get("in_grid_order", False), one.get("one_worker_less", False))
                 for one in tuned["tried"]]
        assert tried == [(1, False, False), (1, False, True), (8, False, False),
                         (8, True, False)], tuned
        (kernel,) = json.loads(self.run("train", "--json").stdout)["kernels"]
        assert kernel["tuned"] and kernel["batch"] == tuned["batch"], kernel
        for flag in ("in_grid_order", "one_worker_less"):
            assert kernel[flag] == tuned.get(flag, False), kernel
        self.tune_in_turns()

    def tune_in_turns(self):
        """With many launches in a run, one run has all forms, and another one is interrupted."""
        path = self.folder / "often.json"
        self.run("build", "--quiet", "--kernel", "VectorAdd", self.often)
        words = self.tune_words(self.often, "--scale", 0, "--repeat", 23, "--no-times")
        self.run(*words[:1], "--out", path, "--workers", 4, *words[1:])
        assert self.starts.read_text() == 2 * "\n", self.starts.read_text()
        (kernel,) = [each for each in json.loads(path.read_text())["kernels"] if "tuned" in each]
        tried = [(one["batch"], one.get("worker_eighths", 8)) for one in kernel["tuned"]["tried"]]
        assert tried == [(1, 4), (1, 8), (1, 8), (8, 4), (8, 4), (8, 8), (8, 8)], kernel["tuned"]
        assert len(kernel["launches"]) == 3, kernel["launches"]  # of 24 those that were plain

    def preemptions(self):
        """Measures 50 preemptions. Each costs what is lost while blocks of 2 to 10 ms drain: some milliseconds.
        If the machine was busier while nothing was interrupted, preemptions seem to cost less than they do, or
        nothing: then it is tried again. The median must be right, too, since rare bursts are no cost."""
        self.run("build", "--quiet", self.timed)
        self.env["CUPOLA_SIM_SMS"] = "1"  # five workers on one thread, which leaves the machine to others
        found = []
        for attempt in range(3):
            path = self.folder / f"preemptions{attempt}.json"
            self.run("tune", "--device", "sim", "--out", path, "--rounds", 5, "--batches", 1,
                     "--most-runs", 4, "--interrupt-every", 10, "--interrupt-for", 0.3, "--",
                     self.timed, 40, 2000, 30)
            (kernel,) = json.loads(path.read_text())["kernels"]
            samples = [(one["ns"], one.get("count", 1)) for one in kernel["preemptions"]]
            count = sum(count for _, count in samples)
            assert count >= 50, samples
            report = self.run("train", path, "--out", path.with_suffix(".plan"), "--json").stdout
            (trained,) = json.loads(report)["kernels"]
            assert 50 <= trained["preemptions"] <= count, (trained, samples)
            found.append((trained["preemption_ns"], statistics.median(ns for ns, _ in samples)))
            if min(found[-1]) > 1_500_000:
                break
        else:
            raise AssertionError(f"preemptions cost too little, each time: {found} ns; {samples}")
        del self.env["CUPOLA_SIM_SMS"]


if __name__ == "__main__":
    sys.exit(main())
