"""A base for tests of programs under `cupola serve` on the simulated device: the programs and their variants."""
import argparse
import os
import sys
import tempfile
import unittest

import corun
import runner


class AppTest(unittest.TestCase):
    """Gives each test a bed of its own, with the variants that main() made."""
    environ = {"CUPOLA_PREEMPT": "always"}

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cupola-app-")
        self.addCleanup(folder.cleanup)
        self.bed = corun.Bed(self.build, "sim", folder.name)
        self.addCleanup(self.bed.close)
        self.bed.environ.update(self.environ)
        self.bed.store = self.store


def main(case, doc, *more):
    """Runs the tests of the AppTest `case`, whose attributes `build`, `folder`, `app` and `store` are
    set: the build folder, that of the programs, preempt_app there, and a store with its variants and
    those of `more` files there. The exit code of the test; 77 = something that it needs is not built."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    options, rest = parser.parse_known_args()
    case.build = os.path.abspath(options.build)
    case.folder = case.build + "/tests/preempt/"
    case.app = case.folder + "preempt_app"
    files = [case.app, *(case.folder + name for name in more)]
    cupola = case.build + "/bin/cupola"
    for path in (*files, cupola):
        if not os.path.exists(path):
            print(f"{case.__name__}: no {path}: build it first", file=sys.stderr)
            return runner.NOT_POSSIBLE_HERE
    with tempfile.TemporaryDirectory() as case.store:
        if problem := runner.build_variants(case.build, case.store, *files):
            print(problem, file=sys.stderr)
            return 1
        done = unittest.main(module=case.__module__, argv=[sys.argv[0], *rest], verbosity=2,
                             exit=False)
        return 0 if done.result.wasSuccessful() else 1
