"""Shared by the checks of unmodified programs: the programs, bundles of their kernels, and runs of them with
their narrow launches as tasks. Standard library only."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/apps"))
import runner  # noqa: E402

COUNTED = re.compile(r"tasks: (\d+) launches, (\d+) copies, (\d+) starts")


class Bed:
    """The bed of one check. `folder` belongs to the caller and gets a store of bundles."""

    def __init__(self, build, device, folder):
        self.build, self.device, self.folder = build, device, folder
        self.environ = runner.environment(build, device)
        self.store = os.path.join(folder, "store")
        self.form = "static" if device == "gpu" else "shared"

    def program(self, name):
        """Builds the bundles of the program <build>/apps/<name>. Returns its path."""
        path = f"{self.build}/apps/{name}"
        if not os.path.exists(path):
            raise runner.NotPossible(f"no {path}: build it first")
        if problem := runner.build_variants(self.build, self.store, path):
            raise RuntimeError(problem)
        return path

    def narrow(self, name):
        return self.program(f"tasks/{name}_{self.form}")

    def settings(self, **more):
        """The environment of a run with tasks."""
        return {**self.environ, "CUPOLA_STORE": self.store, "CUPOLA_TASKS": "always",
                "CUPOLA_LOG": "info", "CUDA_DEVICE_MAX_CONNECTIONS": "32", **more}

    def run(self, *command, limit=100, **more):
        """Runs a program as runner.run does, with its narrow launches as tasks and its output as text."""
        environ = self.settings(**more)
        result = runner.run([*under_cupola(self.build, self.device, environ), *command], environ, limit)
        return {**result, "said": result["stderr"].decode(errors="replace")}

    def plain(self, *command, limit=60, **more):
        return runner.run(command, {**self.environ, **more}, limit)


def counts(said):
    """How many launches, copies and starts of the MasterKernel a run reports at its end; zeros if it reports none."""
    found = COUNTED.search(said)
    return [int(word) for word in found.groups()] if found else [0, 0, 0]


def strict(build, device, **more):
    """The environment of a run over a strict driver, which the simulated device has (strict_driver.cpp)."""
    return {"STRICT_DRIVER": f"{build}/lib/sim/libcuda.so.1", **more} if device == "sim" else {}


def under_cupola(build, device, environ):
    """`cupola run` with what goes before the program, which gets the driver that its environment asks for."""
    driver = [f"CUPOLA_DRIVER={build}/tests/preempt/strict/libcuda.so.1"]
    return [*runner.cupola_command(build, device), *(["env", *driver] if "STRICT_DRIVER" in environ else [])]


def taking_part(build, device, board):
    """The environment of a process of that board; on the simulated device over a strict driver."""
    return {"CUPOLA_BOARD": board.path, "CUPOLA_BOARD_SLOT": "0", "CUPOLA_PREEMPT": "always",
            **strict(build, device)}
