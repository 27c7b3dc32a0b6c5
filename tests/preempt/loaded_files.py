#!/usr/bin/env python3
"""A program that takes its kernels from files, by their names and as data, under `cupola serve` on the
simulated device: they have the variants that `cupola build FILE` made.

  loaded_files.py --build DIR      77: something that it needs is not built
"""
import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("tests/bench", "tests/apps"):
    sys.path.insert(0, os.path.join(ROOT, folder))
import built_app  # noqa: E402
import corun  # noqa: E402

LIMIT = 60  # seconds of every wait
WAYS = ("module", "library", "data")


class LoadedFiles(built_app.AppTest):
    def launches(self, how, file):
        """What the log says about the form of the program's launch."""
        job = self.bed.start("cupola", "it", [self.folder + "loaded_app", how, file])
        self.addCleanup(job.kill)
        code, out = job.finish(LIMIT)
        self.assertEqual((code, out), (0, "3000 values\n"), job.err)
        return job.err

    def test_variants_of_files(self):
        for name in ("loaded.ptx", "loaded.fatbin"):
            file = os.path.join(self.bed.folder, name)  # a copy in another place than the file that was built
            shutil.copy(self.folder + name, file)
            with self.bed.arbiter(corun.config("hpf", {})):
                for how in WAYS:
                    with self.subTest(file=name, how=how):
                        self.assertIn("1 launches preemptible", self.launches(how, file))

    def test_none_of_a_file_that_was_not_built(self):
        file = os.path.join(self.bed.folder, "other.ptx")
        with open(self.folder + "loaded.ptx") as built, open(file, "w") as other:
            other.write("// another\n" + built.read())
        with self.bed.arbiter(corun.config("hpf", {})):
            for how in WAYS:
                with self.subTest(how=how):
                    self.assertIn("1 launches plain: no variant", self.launches(how, file))


if __name__ == "__main__":
    sys.exit(built_app.main(LoadedFiles, __doc__, "loaded.ptx", "loaded.fatbin"))
