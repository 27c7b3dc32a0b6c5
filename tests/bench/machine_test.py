"""Tests the facts of the machine that are kept with results."""
import os
import tempfile
import unittest
from unittest import mock

import machine


class MachineTest(unittest.TestCase):
    def commit_of(self, build, said=""):
        with mock.patch.dict(os.environ, {"CUPOLA_COMMIT": said}):
            return machine.commit_of(build)

    def test_the_commit_is_that_of_the_build(self):
        """A staged build may lie in a tree of another commit."""
        head = machine.first_line(["git", "-C", machine.ROOT, "rev-parse", "HEAD"])
        with tempfile.TemporaryDirectory() as build:
            self.assertEqual(self.commit_of(build), head)
            with open(build + "/commit.txt", "w") as file:
                file.write("staged\n")
            self.assertEqual(self.commit_of(build), "staged")
            self.assertEqual(self.commit_of(build, "said"), "said")

    def test_folders_are_named_by_the_gpu(self):
        for name, folder in (("NVIDIA H200, 580.159.04, 143771 MiB", "h200"),
                             ("NVIDIA H100 80GB HBM3, 580.159.04, 81559 MiB", "h100-80gb-hbm3"),
                             (None, "sim")):
            self.assertEqual(machine.gpu_folder({"gpu": name}), folder)


if __name__ == "__main__":
    unittest.main()
