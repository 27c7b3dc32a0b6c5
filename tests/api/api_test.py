#!/usr/bin/env python3
"""Tests the headers of include/cupola as a program uses them: cupola/cupola.h is the only one that is included.

usage: api_test.py [Version | Faces | Errors]

In the environment: CUPOLA, the command; API_VERSION; CUPOLA_NVCC, or "" without nvcc.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUPOLA, NVCC = os.environ["CUPOLA"], os.environ.get("CUPOLA_NVCC", "")
VERSION = os.environ["API_VERSION"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
TABLE = str(ROOT / "device/runtime/task_table.cpp")

C_PROGRAM = r"""
#include <cupola/cupola.h>
#include <stdio.h>
#if CUPOLA_VERSION < CUPOLA_VERSION_NUMBER(0, 1, 0) || CUPOLA_VERSION >= CUPOLA_VERSION_NUMBER(1, 0, 0)
#error the version can be compared
#endif
int main(void) {
  printf("%u.%u.%u %u %s %u\n", (unsigned)CUPOLA_VERSION_MAJOR, (unsigned)CUPOLA_VERSION_MINOR,
         (unsigned)CUPOLA_VERSION_PATCH, (unsigned)CUPOLA_VERSION, CUPOLA_VERSION_TEXT, (unsigned)cupola_version());
  return 0;
}
"""
CUDA_PROGRAM = r"""
#include <cupola/cupola.h>
#include <cstdio>
namespace task = cupola::task;
__device__ void Set(unsigned* word) { *word = 7; }
extern "C" cupola_tasks* open_tasks(void) { return task::ForC(task::Named<Set>{"Set"}); }
int main() {
  unsigned* word = nullptr;
  if (cudaMallocHost(&word, sizeof *word) != cudaSuccess) return 2;
  task::TaskSystem<Set> tasks;
  task::TaskId id;
  task::Error error = tasks.Spawn<Set>({.threads = 1}, &id, word);
  if (error == task::Error::kNone) error = tasks.Wait(id);
  std::printf("%s\n", error == task::Error::kNone ? "set" : tasks.Describe(error).c_str());
  for (const task::TaskShape& shape : {task::TaskShape{.threads = 2000}, task::TaskShape{.threads = 1, .shared_bytes = 1 << 20}}) {
    error = tasks.Spawn<Set>(shape, &id, word);
    std::printf("%s: %s\n", task::Name(error), tasks.Describe(error).c_str());
  }
  cupola_tasks* const of_c = open_tasks();
  char text[300];
  unsigned body = 0;
  const cupola_tasks_error found = cupola_tasks_find(of_c, "Sit", &body);
  cupola_tasks_error_text(of_c, found, text, sizeof text);
  std::printf("%s: %s\n", cupola_tasks_error_name(found), text);
  cupola_tasks_destroy(of_c);
}
"""


def run(*command, **more):
    """The output of a command, which must end well."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, **more)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {ended.returncode}\n{ended.stdout[-1000:]}{ended.stderr[-2000:]}")
    return ended.stdout


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cupola-api-")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        pathlib.Path(path).write_text(text)
        return path

    def cuda_program(self, *flags, others=()):
        """Builds the program of CUDA C++, with other sources in its folder. Returns its path. Where there is ccache, it
        keeps the objects; it knows them again by names that are relative to the folder."""
        if not NVCC:
            self.skipTest("there is no nvcc")
        self.write("program.cu", CUDA_PROGRAM)
        cache = ["ccache"] if shutil.which("ccache") else []
        objects = []
        for source in ("program.cu", *others, TABLE):
            objects.append(f"{len(objects)}.o")
            run(*cache, NVCC, "-std=c++20", "-arch=compute_90", *flags, f"-I{ROOT}", f"-I{ROOT}/include", "-c", source,
                "-o", objects[-1], cwd=self.folder)
        run(NVCC, "-arch=compute_90", "-cudart", "shared", *objects, "-o", "program", cwd=self.folder)
        return os.path.join(self.folder, "program")

    def run_simulated(self, program):
        return run(CUPOLA, "run", "--device", "sim", "--", program)


class Version(Case):
    def test_headers_library_and_command_have_that_of_the_project(self):
        source = self.write("program.c", C_PROGRAM)
        run("gcc", "-std=c11", f"-I{ROOT}/include", "-c", source, "-o", f"{self.folder}/program.o")
        run("g++", "-std=c++20", f"-I{ROOT}", f"{self.folder}/program.o", TABLE, "-o", f"{self.folder}/program")
        major, minor, patch = (int(part) for part in VERSION.split("."))
        number = 10000 * major + 100 * minor + patch
        self.assertEqual(run(f"{self.folder}/program"), f"{VERSION} {number} {VERSION} {number}\n")
        self.assertEqual(run(CUPOLA, "--version"), f"cupola {VERSION}\n")

    def changed_headers(self, **parts):
        """The name of a folder with the headers of another version."""
        text = (ROOT / "include/cupola/version.h").read_text()
        for name, value in parts.items():
            text, count = re.subn(rf"(#define CUPOLA_VERSION_{name}) .*", rf"\1 {value}", text)
            assert count == 1, name
        folder = os.path.join(self.folder, "other")
        self.write("other/cupola/version.h", text)
        for header in (ROOT / "include/cupola").glob("*.h"):
            if header.name != "version.h":
                shutil.copy(header, f"{folder}/cupola")
        return "other"

    def test_a_mismatch_is_told_in_one_line(self):
        headers = self.changed_headers(MINOR=7, TEXT='"0.7.0"')
        program = self.cuda_program(f"-I{headers}")
        self.assertEqual(self.run_simulated(program).splitlines()[0],
                         f"compiled with the headers of Cupola 0.7.0, linked with the library of {VERSION}: "
                         "compile the program again, or link it with the library of its headers")

    def test_patches_go_together(self):
        program = self.cuda_program(f"-I{self.changed_headers(PATCH=9)}")
        self.assertEqual(self.run_simulated(program).splitlines()[0], "set")


# CUDA C++ is compiled by the other tests.
class Faces(Case):
    def test_c_and_cpp_without_a_warning(self):
        compiled = 0
        for compilers, suffix, standards in ((("gcc", "clang"), ".c", ("c11", "c17")),
                                             (("g++", "clang++"), ".cpp", ("c++17", "c++20"))):
            source = self.write("program" + suffix, C_PROGRAM)
            for compiler in filter(shutil.which, compilers):
                for standard in standards:
                    run(compiler, f"-std={standard}", *WARNINGS, f"-I{ROOT}/include", "-c", source, "-o",
                        f"{self.folder}/program.o")
                    compiled += 1
        self.assertGreaterEqual(compiled, 4)

    def test_each_header_can_be_the_first(self):
        for name in ("task_c.h", "version.h", "cupola.h"):
            for compiler, suffix in (("gcc", ".c"), ("g++", ".cpp")):
                source = self.write("one" + suffix, f'#include "cupola/{name}"\n#include "cupola/{name}"\n')
                run(compiler, *WARNINGS, f"-I{ROOT}/include", "-c", source, "-o", f"{self.folder}/one.o")


class Errors(Case):
    def test_errors_say_what_where_and_what_to_do(self):
        # Several sources of a program may include the header.
        self.write("other.cu", '#include "cupola/cupola.h"\nunsigned Version() { return cupola_version(); }\n')
        program = self.cuda_program("-Xcompiler", "-Wall,-Wextra,-Werror", others=["other.cu"])
        lines = self.run_simulated(program).splitlines()
        self.assertEqual(lines, [
            "set",
            "kTooManyThreads: a block has 1 to 992 threads, and Spawn asked for 2000: use more blocks of fewer threads",
            "kTooMuchShared: a block has at most 32768 bytes of shared memory, and Spawn asked for 1048576: use less, or launch "
            "this kernel",
            "CUPOLA_TASKS_UNKNOWN_BODY: no body has that name or number: use one of those that the system was made with: Set"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
