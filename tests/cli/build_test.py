"""`cupola build` and `cupola store` as a user sees them. Run by ctest, a class at a time.

CUPOLA names the command, PTXAS the toolkit's, APPS the folder of tests/apps. Programs are made
here, by gcc around a fatbin container that is written by hand. Every wait is for an event;
time-outs only end a test that hangs.
"""
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

CUPOLA = os.environ["CUPOLA"]
PTXAS = os.environ["PTXAS"]
TIMEOUT = 120

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry {name}(.param .u64 p)
{{
.reg .b32 %r<3>; .reg .b64 %a<4>;
ld.param.u64 %a0, [p];
mov.u32 %r0, %ctaid.x;
mul.wide.u32 %a1, %r0, 4;
add.s64 %a2, %a0, %a1;
st.global.u32 [%a2], %r0;
ret;
}}
"""


def container(ptx, arch=80):
    """A fatbin container with one stored PTX image (docs/formats.md)."""
    payload = ptx.encode() + b"\0"
    payload += b"\0" * (-len(payload) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x0101, 64, len(payload), 0, 0, 0, 8, arch, 0, 0,
                        0x11, 0, 0) + payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry


class BuildTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cupola-build-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.store = self.path("store")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("CUPOLA", "LD_"))}
        self.env["CUPOLA_STORE"] = self.store

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return self.path(name)

    def script(self, name, text):
        path = self.write(name, "#!/bin/sh\n" + text)
        os.chmod(path, 0o700)
        return path

    def cupola(self, *arguments, code=0, env=None):
        done = subprocess.run([CUPOLA, *arguments], env={**self.env, **(env or {})},
                              timeout=TIMEOUT, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def build(self, *arguments, code=0, env=None):
        return json.loads(self.cupola("build", "--json", *arguments, code=code, env=env).stdout)

    def object_file(self, name, ptx, shared, *more):
        """A program or library with a fatbin container in it."""
        image = self.write(name + ".fatbin", container(ptx))
        source = self.write(name + ".c", "int main(void) { return 0; }\n" if not shared else
                            f"int {name}(void) {{ return 0; }}\n")
        section = self.write(name + ".s", '.section .nv_fatbin, "a"\n.balign 8\n'
                             f'.incbin "{image}"\n.section .note.GNU-stack\n')
        out = self.path(f"lib{name}.so" if shared else name)
        subprocess.run(["gcc", "-Wl,--build-id", *(["-shared", "-fPIC"] if shared else []), source,
                        section, "-o", out, *more], check=True, timeout=TIMEOUT)
        return out


class Programs(BuildTest):
    def test_second_run_builds_nothing(self):
        ptx = self.write("k.ptx", PTX.format(name="scale") + "")
        first = self.build(ptx)
        self.assertEqual(first["preemptible"], 1)
        self.assertEqual(first["preemptible_bit_exact"], 1)
        self.assertEqual([i["state"] for i in first["images"]], ["built"])
        self.assertGreater(first["images"][0]["compilations"], 0)
        second = self.build(ptx)
        self.assertEqual([i["state"] for i in second["images"]], ["in store"])
        self.assertEqual(second["images"][0]["compilations"], 0)
        self.assertEqual(second["images"][0]["kernels"], first["images"][0]["kernels"])
        self.assertEqual(self.build("--rebuild", ptx)["images"][0]["state"], "built")

    def test_follows_libraries_as_the_loader_does(self):
        # One library is needed by its name and a RUNPATH, one by its path.
        inner = self.object_file("inner", PTX.format(name="inner_kernel"), True,
                                 "-Wl,-soname,libinner.so")
        outer = self.object_file("outer", PTX.format(name="outer_kernel"), True,
                                 "-Wl,--no-as-needed", inner, "-Wl,-rpath,$ORIGIN")
        plugin = self.object_file("plugin", PTX.format(name="plugin_kernel"), True)
        program = self.object_file("program", PTX.format(name="own_kernel"), False,
                                   "-Wl,--no-as-needed", outer, "-Wl,-rpath,$ORIGIN",
                                   f"-Wl,-rpath-link,{self.folder}")
        names = lambda report: [k["name"] for i in report["images"] for k in i["kernels"]]
        self.assertEqual(names(self.build(program)), ["own_kernel", "outer_kernel", "inner_kernel"])
        self.assertEqual(names(self.build("--no-libraries", program)), ["own_kernel"])
        self.assertEqual(names(self.build(program, "--with", plugin))[:2],
                         ["own_kernel", "plugin_kernel"])
        self.assertEqual(names(self.build(program, "--kernel", "^own|inner")),
                         ["own_kernel", "inner_kernel"])
        listed = self.cupola("build", "--list", program).stdout
        self.assertIn("libinner.so: inner_kernel\n", listed)
        os.remove(inner)
        self.assertEqual(self.build(program)["missing_libraries"], ["libinner.so"])

    def test_links_by_place_and_by_contents(self):
        program = self.object_file("program", PTX.format(name="k"), False)
        self.build(program)
        places = [os.path.join(f, n) for f, _, ns in os.walk(self.path("store/places")) for n in ns]
        contents = [n for _, _, ns in os.walk(self.path("store/contents")) for n in ns]
        self.assertEqual((len(places), len(contents)), (1, 1))
        offset = int(os.path.basename(places[0]).split("-")[0], 16)
        with open(program, "rb") as file:
            file.seek(offset)
            self.assertEqual(file.read(4), struct.pack("<I", 0xBA55ED50))
        self.assertTrue(os.path.isfile(places[0]))

    def test_same_image_in_two_programs_is_built_once(self):
        one = self.object_file("one", PTX.format(name="k"), False)
        two = self.object_file("two", PTX.format(name="k"), False)
        states = sorted(i["state"] for i in self.build(one, two)["images"])
        self.assertEqual(states, ["built", "in store"])

    def compiled(self, folder, name, kernel, *more):
        """name.ptx and the name.cubin that is made of it, as Triton keeps them. Returns the cubin's path."""
        os.makedirs(self.path(folder), exist_ok=True)
        ptx = self.write(f"{folder}/{name}.ptx", PTX.format(name=kernel))
        cubin = ptx[:-4] + ".cubin"
        subprocess.run([PTXAS, "-arch=sm_90", *more, ptx, "-o", cubin], check=True, timeout=TIMEOUT)
        return cubin

    def test_cubins_with_their_ptx_beside_them(self):
        one = self.compiled("cache/A1", "first_kernel", "first")
        self.compiled("cache/B2/deeper", "second_kernel", "second", "-lineinfo")
        os.remove(self.compiled("cache/C3", "third_kernel", "third")[:-6] + ".ptx")
        found = self.build(self.path("cache"))
        self.assertEqual([(i["state"], [k["name"] for k in i["kernels"]]) for i in found["images"]],
                         [("built", ["first"]), ("built", ["second"])])
        self.assertEqual((found["preemptible"], found["preemptible_bit_exact"]), (2, 2))
        # A program hands the cubin to the driver, so by its bytes the bundle is found.
        contents = [os.path.relpath(os.path.join(f, n), self.path("store/contents"))
                    for f, _, ns in os.walk(self.path("store/contents")) for n in ns]
        with open(one, "rb") as file:
            code = file.read()
        self.assertEqual(len(contents), 2)
        digest = hashlib.sha256(code).hexdigest()
        own = [place for place in contents if place.startswith(f"{len(code)}/") and digest in place]
        self.assertEqual(len(own), 1, contents)
        self.assertEqual([i["state"] for i in self.build(self.path("cache"))["images"]], ["in store"] * 2)
        self.assertIn("first_kernel.cubin: first\n", self.cupola("build", "--list", self.path("cache")).stdout)
        # The same code, as if it had been made of other PTX.
        with open(one[:-6] + ".ptx", "a") as file:
            file.write("// once more\n")
        self.assertEqual([i["state"] for i in self.build(one, "--no-libraries")["images"]], ["built"])

    def test_ptx_for_exactly_one_architecture(self):
        """Triton's PTX is for sm_90a, and says so in its text only."""
        for name, target in (("with_a", "sm_90a"), ("without", "sm_90")):
            ptx = self.write(name + ".ptx", PTX.format(name="scale").replace("sm_80", target))
            found = self.build(ptx)
            self.assertEqual((name, found["preemptible"], found["preemptible_bit_exact"], found["sliced"]), (name, 1, 1, 1))

    def test_a_folder_without_such_cubins(self):
        os.makedirs(self.path("empty"))
        done = self.cupola("build", self.path("empty"), code=1)
        self.assertIn("no .cubin with its .ptx beside it", done.stderr)

    def test_other_compiler_other_bundle(self):
        ptx = self.write("k.ptx", PTX.format(name="k"))
        self.build(ptx)
        other = self.build("--compiler", "nvjitlink", ptx)
        if not other["compiler"].startswith("nvJitLink"):
            self.fail(other["compiler"])
        self.assertEqual(other["images"][0]["state"], "built")
        self.assertEqual(other["preemptible"], 1)
        self.assertEqual(self.build(ptx)["images"][0]["state"], "in store")

    def test_the_table(self):
        table = self.cupola("build", self.write("k.ptx", PTX.format(name="scale"))).stdout
        self.assertRegex(table, r"(?m)^preemptible sliced task +\d+ -> \d+ +100% +yes +scale$")
        self.assertIn("1 kernel, 1 with PTX: 1 preemptible (1 bit-exact), 1 sliced", table)


    def test_an_architecture_that_nothing_loads(self):
        ptx = self.write("k.ptx", PTX.format(name="scale"))
        self.assertTrue(self.build(ptx)["is_used"])
        self.assertNotIn("are not used", self.cupola("build", ptx).stdout)
        self.assertFalse(self.build(ptx, "--arch", "sm_80")["is_used"])
        self.assertIn("bundles for sm_80 are not used: `cupola run` uses those for sm_90",
                      self.cupola("build", ptx, "--arch", "sm_80").stdout)


class Trouble(BuildTest):
    def test_wrong_input(self):
        self.cupola("build", self.path("none"), code=1)
        self.cupola("build", code=2)
        ptx = self.write("k.ptx", PTX.format(name="k"))
        self.cupola("build", ptx, "--kernel", "(", code=2)
        self.cupola("build", ptx, "--arch", "sm_x", code=2)
        self.cupola("build", ptx, "--compiler", "/no/ptxas", code=1)
        self.cupola("build", self.write("broken.ptx", ".version 9.0\n.target }{"), code=1)

    def test_store_that_cannot_be_written(self):
        ptx = self.write("k.ptx", PTX.format(name="k"))
        self.assertIn("/proc", self.cupola("build", ptx, code=1,
                                           env={"CUPOLA_STORE": "/proc/no"}).stderr)
        os.makedirs(self.store)
        os.chmod(self.store, 0o777)
        self.assertIn("others may write", self.cupola("build", ptx, code=1).stderr)

    def test_full_store(self):
        ptx = self.write("k.ptx", PTX.format(name="k"))
        # All that the compiler writes fits, but the bundle does not (blocks of 512 bytes).
        size = self.build("--store", self.path("other"), ptx)["images"][0]["bundle_bytes"]
        command = (f'ulimit -f {size // 512}; trap "" XFSZ; exec "{CUPOLA}" build --json '
                   f'"{ptx}"')
        done = subprocess.run(["sh", "-c", command], env=self.env, timeout=TIMEOUT,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(os.listdir(self.path("store/bundles")), [])
        self.assertEqual(os.listdir(self.path("store/tmp")), [])
        self.assertEqual(self.build(ptx)["images"][0]["state"], "built")

    def test_damaged_entry_is_told_and_built_again(self):
        ptx = self.write("k.ptx", PTX.format(name="k"))
        self.build(ptx)
        bundles = self.path("store/bundles")
        victim = os.path.join(bundles, os.listdir(bundles)[0])
        with open(victim, "r+b") as file:
            file.seek(300)
            file.write(b"damage")
        done = self.cupola("build", "--json", ptx, code=1)
        self.assertIn(victim, done.stderr)
        self.assertEqual(json.loads(done.stdout)["images"][0]["state"], "built")
        self.assertEqual(self.build(ptx)["images"][0]["state"], "in store")

    def test_compiler_that_hangs(self):
        ptx = self.write("k.ptx", PTX.format(name="k"))
        hanging = self.script("ptxas",
                              'case "$1" in --version) echo cuda_1;; *) sleep 600;; esac\n')
        report = self.build("--compiler", hanging, "--timeout", "1", ptx)
        self.assertIn("took longer", report["images"][0]["kernels"][0]["refusal"])
        # It is tried again, not taken for an answer.
        again = self.build("--compiler", hanging, "--timeout", "1", ptx)
        self.assertEqual(again["images"][0]["state"], "built")


class Together(BuildTest):
    def setUp(self):
        super().setUp()
        self.started = self.path("started")
        self.go = self.path("go")
        os.mkfifo(self.started)
        os.mkfifo(self.go)

    def waiting_ptxas(self):
        """A ptxas that reports its first compilation and then waits until the test lets it go."""
        return self.script("ptxas", f"""case "$1" in --version) exec {PTXAS} --version;; esac
if mkdir {self.path('once')} 2>/dev/null; then echo x > {self.started}; cat {self.go}; fi
echo x >> {self.path('calls')}
exec {PTXAS} "$@"
""")

    def start(self, *arguments):
        process = subprocess.Popen([CUPOLA, "build", "--json", *arguments], env=self.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def calls(self):
        with open(self.path("calls"), encoding="ascii") as file:
            return len(file.readlines())

    def test_second_builder_waits_and_takes_the_first_ones(self):
        ptx = self.write("k.ptx", PTX.format(name="k"))
        ptxas = self.waiting_ptxas()
        first = self.start("--compiler", ptxas, ptx)
        with open(self.started, encoding="ascii") as started:
            started.read()
        others = [self.start("--compiler", ptxas, ptx) for _ in range(3)]
        with open(self.go, "w", encoding="ascii"):
            pass
        reports = [json.loads(p.communicate(timeout=TIMEOUT)[0]) for p in [first, *others]]
        self.assertEqual([r["images"][0]["state"] for r in reports], ["built"] + 3 * ["in store"])
        self.assertEqual(self.calls(), reports[0]["images"][0]["compilations"])

    def test_killed_builder_leaves_the_store_usable(self):
        ptx = self.write("k.ptx", PTX.format(name="k"))
        ptxas = self.waiting_ptxas()
        first = self.start("--compiler", ptxas, ptx)
        with open(self.started, encoding="ascii") as started:
            started.read()
        first.send_signal(signal.SIGKILL)
        first.wait(timeout=TIMEOUT)
        with open(self.go, "w", encoding="ascii"):
            pass  # its compiler ends by itself
        self.assertEqual(self.build("--compiler", ptxas, ptx)["images"][0]["state"], "built")
        self.assertEqual(os.listdir(self.path("store/tmp")), [])


class Used(BuildTest):
    def test_the_preloaded_library_finds_what_was_built(self):
        """By place for a program's own fatbin; results stay, and launches become preemptible."""
        program = os.path.join(os.environ["APPS"], "shared", "device_globals")
        if not os.path.exists(program):
            self.skipTest("tests/apps are not built")
        env = {**self.env, "XDG_RUNTIME_DIR": self.folder, "CUPOLA_PREEMPT": "always",
               "CUPOLA_LOG": "info", "ASAN_OPTIONS": "verify_asan_link_order=0"}
        daemon = subprocess.Popen([CUPOLA, "serve"], env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        self.addCleanup(daemon.stdout.close)
        self.addCleanup(daemon.wait, timeout=TIMEOUT)
        self.addCleanup(daemon.kill)
        self.assertIn("listening", daemon.stdout.readline())

        def run():
            return subprocess.run([CUPOLA, "run", "--device", "sim", "--", program], env=env,
                                  timeout=TIMEOUT, capture_output=True, text=True, check=True)

        before = run()
        self.assertNotRegex(before.stderr, r"[1-9]\d* launches preemptible")
        self.build(program)
        after = run()
        self.assertRegex(after.stderr, r"[1-9]\d* launches preemptible")
        self.assertEqual(before.stdout, after.stdout)


class Store(BuildTest):
    def test_list_evict_clear(self):
        for name in ("a", "b", "c"):
            self.build(self.write(name + ".ptx", PTX.format(name=name)))
        self.assertEqual(self.cupola("store", "path").stdout.strip(), self.store)
        self.assertIn("3 bundles", self.cupola("store", "list").stdout)
        bundles = self.path("store/bundles")
        size = os.path.getsize(os.path.join(bundles, os.listdir(bundles)[0]))
        self.cupola("store", "evict", "--limit", str(2 * size + 200))
        self.assertIn("2 bundles", self.cupola("store", "list").stdout)
        self.cupola("store", "clear")
        self.assertIn("0 bundles", self.cupola("store", "list").stdout)
        self.assertEqual(os.listdir(self.path("store/contents")), [])

    def test_limit_of_a_build(self):
        for name in ("a", "b", "c"):
            report = self.build("--store-limit", "1", self.write(name + ".ptx",
                                                                 PTX.format(name=name)))
            self.assertEqual(report["evicted_bundles"], 1)


if __name__ == "__main__":
    unittest.main(defaultTest=sys.argv[1] if sys.argv[1:] else None, argv=sys.argv[:1],
                  verbosity=2)
