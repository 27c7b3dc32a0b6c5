"""For tests of preempt_app under `cupola serve` on the simulated device: the app and its variants."""
import argparse
import os
import sys
import tempfile
import unittest

import runner


def main(case, doc):
    """Runs the tests of the TestCase `case`, whose attributes `build`, `app` and `store` are set: the
    build folder, preempt_app in it, and a store with its variants. The exit code of the test; 77 =
    something that it needs is not built."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    options, rest = parser.parse_known_args()
    case.build = os.path.abspath(options.build)
    case.app = case.build + "/tests/preempt/preempt_app"
    cupola = case.build + "/bin/cupola"
    for path in (case.app, cupola):
        if not os.path.exists(path):
            print(f"{case.__name__}: no {path}: build it first", file=sys.stderr)
            return runner.NOT_POSSIBLE_HERE
    with tempfile.TemporaryDirectory() as case.store:
        environ = {**os.environ, "CUPOLA_STORE": case.store}
        built = runner.run([cupola, "build", "--quiet", case.app], environ, 120)
        if built["code"] != 0:
            print(built["stderr"].decode(), file=sys.stderr)
            return 1
        done = unittest.main(module=case.__module__, argv=[sys.argv[0], *rest], verbosity=2,
                             exit=False)
        return 0 if done.result.wasSuccessful() else 1
