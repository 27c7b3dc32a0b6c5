#!/usr/bin/env python3
"""Tests `cmake --install`, the CMake package, the Debian package and the removal of a build of Cupola."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOBODY = 65534
OPTIONS = None


def run(*command, **more):
    """The output of a command, which must end well. Its variables have no word of Cupola."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CUPOLA")}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environ | more.pop("env", {}), **more)
    if ended.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {ended.returncode}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.stdout


def files_under(folder):
    return sorted(os.path.relpath(os.path.join(place, name), folder)
                  for place, _, names in os.walk(folder) for name in names)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # In /tmp, where an ordinary user may go.
        cls.folder = tempfile.mkdtemp(prefix="cupola-install-", dir="/tmp")
        os.chmod(cls.folder, 0o755)
        first = os.path.join(cls.folder, "first")
        run("cmake", "--install", OPTIONS.build, "--prefix", first)
        cls.prefix = os.path.join(cls.folder, "moved", "deeper")
        os.makedirs(os.path.dirname(cls.prefix))
        os.rename(first, cls.prefix)
        cls.cupola = os.path.join(cls.prefix, "bin", "cupola")
        cls.app = os.path.join(cls.folder, "app")
        source = os.path.join(OPTIONS.build, "apps", "shared", "vector_add")
        if os.path.exists(source):
            shutil.copy(source, cls.app)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def as_user(self, *command):
        """Runs a command as an ordinary user, with a home of its own."""
        home = os.path.join(self.folder, "home")
        os.makedirs(home, exist_ok=True)
        user = []
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
            user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return run(*user, *command, cwd=home, env={"HOME": home, "XDG_CACHE_HOME": f"{home}/.cache"})

    def test_the_layout(self):
        found = files_under(self.prefix)
        for name in ("bin/cupola", "lib/cupola/libcupola.so", "lib/cupola/libcupola/libcuda.so.1",
                     "lib/cupola/sim/libcuda.so.1", "lib/cupola/sim/libcudart.so", "include/cupola/cupola.h",
                     "lib/cupola/cmake/CupolaConfig.cmake", "lib/systemd/user/cupola.service",
                     "share/bash-completion/completions/cupola", "share/man/man1/cupola-run.1", "share/doc/cupola/LICENSE"):
            self.assertIn(name, found)

    def test_no_file_knows_the_build_folder(self):
        for name in files_under(self.prefix):
            if name.endswith((".cmake", ".h", ".cuh", ".service", "completions/cupola")):
                with open(os.path.join(self.prefix, name), encoding="utf-8") as file:
                    self.assertNotIn(OPTIONS.build, file.read(), name)

    def test_an_ordinary_user_runs_a_program(self):
        if not os.path.exists(self.app):
            self.skipTest("tests/apps is not built")
        plain = self.as_user(self.cupola, "run", "--device", "sim", "--", self.app)
        if OPTIONS.nvcc:
            self.as_user(self.cupola, "build", self.app)
        self.assertEqual(self.as_user(self.cupola, "run", "--device", "sim", "--", self.app), plain)

    def test_a_project_builds_against_it(self):
        if not OPTIONS.nvcc:
            self.skipTest("there is no nvcc")
        build = os.path.join(self.folder, "consumer")
        run("cmake", "-G", "Ninja", "-S", os.path.join(ROOT, "tests", "install", "consumer"), "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CUDA_COMPILER={OPTIONS.nvcc}", "-DCMAKE_CUDA_ARCHITECTURES=90")
        run("cmake", "--build", build)
        program = os.path.join(build, "consumer")
        self.assertEqual(run(self.cupola, "run", "--device", "sim", "--", program), "all doubled\n")

    def test_completion(self):
        script = os.path.join(self.prefix, "share", "bash-completion", "completions", "cupola")
        complete = ('source "$1"; COMP_WORDS=("$2" "${@:3}"); COMP_CWORD=$(($# - 2)); _cupola; '
                    'printf "%s\\n" "${COMPREPLY[@]}"')
        words = lambda *line: run("bash", "-c", complete, "-", script, self.cupola, *line).split()
        self.assertEqual(words("insp"), ["inspect"])
        self.assertIn("--device", words("run", "--dev"))

    def test_a_debian_package(self):
        if shutil.which("dpkg-deb") is None:
            self.skipTest("there is no dpkg-deb")
        out = os.path.join(self.folder, "package")
        run("cpack", "--config", os.path.join(OPTIONS.build, "CPackConfig.cmake"), "-G", "DEB", "-B", out,
            "-D", "CPACK_STRIP_FILES=OFF", "-D", "CPACK_DEBIAN_PACKAGE_SHLIBDEPS=OFF")
        packages = [name for name in os.listdir(out) if name.endswith(".deb")]
        self.assertEqual(len(packages), 1)
        package = os.path.join(out, packages[0])
        self.assertEqual(run("dpkg-deb", "--field", package, "Package").strip(), "cupola")
        root = os.path.join(self.folder, "root")
        run("dpkg-deb", "--extract", package, root)
        self.assertIn("usr/lib/cupola/libcupola.so", files_under(root))
        self.assertTrue(run(os.path.join(root, "usr", "bin", "cupola"), "--version").startswith("cupola "))

    def test_uninstalling_leaves_nothing(self):
        prefix = os.path.join(self.folder, "removed", "prefix")
        run("cmake", "--install", OPTIONS.build, "--prefix", prefix)
        manifest = os.path.join(OPTIONS.build, "install_manifest.txt")
        own = os.path.join(self.folder, "manifest.txt")
        shutil.copy(manifest, own)
        kept = os.path.join(prefix, "lib", "somebody-elses")
        open(kept, "w").close()
        run("cmake", f"-DMANIFEST={own}", "-P", os.path.join(ROOT, "packaging", "uninstall.cmake"))
        self.assertEqual(files_under(prefix), ["lib/somebody-elses"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--nvcc", default="")
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.build = os.path.abspath(OPTIONS.build)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
