"""`cupola run` as a program and its caller see it. Run by ctest, a class at a time.

CUPOLA names the command, CUPOLA_TEST_FOLDER the folder with the fake libraries. Every wait is for
an event (a line, an end, a stop); time-outs only end a test that hangs.
"""
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

CUPOLA = os.environ["CUPOLA"]
FOLDER = os.environ["CUPOLA_TEST_FOLDER"]
TIMEOUT = 60
MODES = {"plain": [], "stats": ["--stats"]}


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cupola-run-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.runtime = os.path.join(self.folder, "runtime")
        os.mkdir(self.runtime, 0o700)
        self.trace = os.path.join(self.folder, "trace.json")
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("CUPOLA", "FAKE_", "LD_"))}
        self.env["CUPOLA_HOME"] = os.path.join(FOLDER, "home")
        self.env["XDG_RUNTIME_DIR"] = self.runtime
        # A sanitized command complains when it is itself run with a preloaded library.
        self.env["ASAN_OPTIONS"] = "verify_asan_link_order=0"

    def cupola(self, *options, env=None, device="sim", **more):
        return subprocess.run([CUPOLA, "run", "--device", device, *options],
                              env={**self.env, **(env or {})}, timeout=TIMEOUT,
                              capture_output="stderr" not in more and "stdout" not in more, **more)

    def start(self, *options, env=None, **more):
        process = subprocess.Popen([CUPOLA, "run", "--device", "sim", *options],
                                   env={**self.env, **(env or {})}, stdout=subprocess.PIPE, **more)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)  # does nothing where it was waited for
        return process

    def events(self):
        with open(self.trace, encoding="utf-8") as file:
            trace = json.load(file)
        self.assertEqual(trace["displayTimeUnit"], "ns")
        for event in trace["traceEvents"]:
            self.assertIn("ph", event)
            self.assertIn("pid", event)
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
                self.assertIn("tid", event)
        return trace["traceEvents"]

    def kernels(self):
        return [e for e in self.events() if e.get("cat") == "kernel"]


class ExitCodes(RunTest):
    def test_of_the_program(self):
        for name, mode in MODES.items():
            for code in (0, 1, 7, 255):
                with self.subTest(mode=name, code=code):
                    done = self.cupola(*mode, "--", "sh", "-c", f"exit {code}")
                    self.assertEqual(done.returncode, code)

    def test_missing_program(self):
        for mode in MODES.values():
            for program in ("no_such_program_anywhere", "./no_such_file", ""):
                done = self.cupola(*mode, "--", program)
                self.assertEqual(done.returncode, 127)
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    def test_not_executable(self):
        path = os.path.join(self.folder, "data")
        with open(path, "w", encoding="utf-8") as file:
            file.write("text")
        for mode in MODES.values():
            for program in (path, self.folder):
                done = self.cupola(*mode, "--", program)
                self.assertEqual(done.returncode, 126)
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    def test_damaged_program(self):
        path = os.path.join(self.folder, "damaged")
        shutil.copy("/bin/true", path)
        with open(path, "r+b") as file:
            file.truncate(100)
        plain = subprocess.run(["env", path], capture_output=True).returncode
        self.assertIn(plain, (126, 127))
        for mode in MODES.values():
            self.assertEqual(self.cupola(*mode, "--", path).returncode, plain)

    def test_usage(self):
        for words in ([], ["--trace"], ["--device", "tpu", "--", "true"], ["--nonsense", "true"],
                      ["--timing", "never", "true"]):
            done = subprocess.run([CUPOLA, "run", *words], env=self.env, capture_output=True,
                                  timeout=TIMEOUT)
            self.assertEqual(done.returncode, 2, words)
            self.assertTrue(done.stderr)
            self.assertFalse(done.stdout)
        self.assertEqual(subprocess.run([CUPOLA], capture_output=True).returncode, 2)
        for words in (["--help"], ["run", "--help"], ["--version"]):
            done = subprocess.run([CUPOLA, *words], capture_output=True, timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0, words)
            self.assertIn(b"cupola", done.stdout)

    def test_options_of_the_program_are_its_own(self):
        for words in (["--", "echo", "--trace", "x", "--"], ["echo", "--trace", "x", "--"]):
            self.assertEqual(self.cupola(*words).stdout, b"--trace x --\n")
        self.assertFalse(os.path.exists("x"))

    def test_script_without_interpreter_line(self):
        path = os.path.join(self.folder, "script")
        with open(path, "w", encoding="utf-8") as file:
            file.write("exit 5\n")
        os.chmod(path, 0o755)
        for mode in MODES.values():
            self.assertEqual(self.cupola(*mode, "--", path).returncode, 5)


class Signals(RunTest):
    def test_death_by_signal_is_passed_on(self):
        for name, mode in MODES.items():
            for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM, signal.SIGABRT,
                           signal.SIGPIPE, signal.SIGINT):
                with self.subTest(mode=name, signal=number):
                    done = self.cupola(*mode, "--", "sh", "-c", f"kill -{int(number)} $$")
                    self.assertEqual(done.returncode, -number)

    def forwards(self, number, mode):
        # A signal that comes right before pause() would not end that.
        program = ("import os, signal, sys, time\n"
                   f"signal.signal({int(number)}, lambda *_: os._exit(9))\n"
                   "print('ready', flush=True)\n"
                   "while True: time.sleep(0.02)\n")
        process = self.start(*mode, "--", sys.executable, "-c", program, stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.send_signal(number)
        self.assertEqual(process.wait(TIMEOUT), 9)

    def test_signals_to_cupola_reach_the_program(self):
        for name, mode in MODES.items():
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT,
                           signal.SIGUSR1, signal.SIGUSR2):
                with self.subTest(mode=name, signal=number):
                    self.forwards(number, mode)

    def test_terminated_program_terminates_cupola(self):
        process = self.start("--stats", "--", "sh", "-c", "echo ready; exec cat",
                             stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.terminate()
        self.assertEqual(process.wait(TIMEOUT), -signal.SIGTERM)
        process.stdin.close()

    def test_ignored_signals_stay_ignored(self):
        for mode in MODES.values():
            process = self.start(*mode, "--", "sh", "-c", "kill -HUP $$; exit 4",
                                 stderr=subprocess.DEVNULL,
                                 preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
            self.assertEqual(process.wait(TIMEOUT), 4)

    def test_caller_that_ignores_sigchld(self):
        for mode in MODES.values():
            program = "import signal; print(signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN)"
            process = self.start(*mode, "--", sys.executable, "-c", program,
                                 stderr=subprocess.DEVNULL,
                                 preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
            self.assertEqual(process.communicate(timeout=TIMEOUT)[0], b"True\n")
            self.assertEqual(process.returncode, 0)

    def test_signal_mask_is_the_callers(self):
        program = ("import signal; "
                   "print(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))))")
        for mode in MODES.values():
            done = self.cupola(*mode, "--", sys.executable, "-c", program)
            self.assertEqual(done.stdout, b"[]\n")

    def test_job_control(self):
        """A program that stops shows as a stopped job; continuing the job continues the program."""
        for name, mode in MODES.items():
            with self.subTest(mode=name):
                pid, terminal = pty.fork()
                if pid == 0:
                    program = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); os._exit(6)"
                    words = [CUPOLA, "run", "--device", "sim", *mode, "--", sys.executable, "-c",
                             program]
                    os.execve(CUPOLA, words, self.env)
                _, status = os.waitpid(pid, os.WUNTRACED)
                self.assertTrue(os.WIFSTOPPED(status))
                os.kill(pid, signal.SIGCONT)
                _, status = os.waitpid(pid, 0)
                os.close(terminal)
                self.assertEqual(os.waitstatus_to_exitcode(status), 6)

    def test_same_process_group(self):
        for mode in MODES.values():
            done = self.cupola(*mode, "--", sys.executable, "-c", "import os; print(os.getpgid(0))")
            self.assertEqual(int(done.stdout), os.getpgid(0))


class Streams(RunTest):
    def test_bytes_pass_untouched(self):
        data = bytes(range(256)) * 4096
        for mode in MODES.values():
            done = self.cupola(*mode, "--", "cat", input=data)
            self.assertEqual(done.stdout, data)

    def test_standard_error(self):
        done = self.cupola("--", "sh", "-c", "printf 'a\\0b' >&2")
        self.assertEqual((done.stdout, done.stderr), (b"", b"a\0b"))
        done = self.cupola("--trace", self.trace, "--", "sh", "-c", "printf 'a\\0b' >&2",
                           env={"FAKE_LAUNCHES": "1"})
        self.assertEqual((done.stdout, done.stderr), (b"", b"a\0b"))

    def test_closed_streams_stay_closed(self):
        program = ("import os\n"
                   "for fd in (0, 1, 2):\n"
                   "    try: os.fstat(fd)\n"
                   "    except OSError: continue\n"
                   "    os._exit(10 + fd)\n")
        for mode in ([], ["--trace", self.trace]):
            words = " ".join([CUPOLA, "run", "--device", "sim", *mode, "--", sys.executable, "-c",
                              '"$P"'])
            done = subprocess.run(["sh", "-c", f"exec {words} <&- >&- 2>&-"],
                                  env={**self.env, "P": program}, timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0)
        self.assertEqual(self.kernels(), [])

    def test_reader_of_messages_left(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = self.cupola("--stats", "--", "sh", "-c", "exit 8", stderr=writer)
        os.close(writer)
        self.assertEqual(done.returncode, 8)

    def test_no_descriptor_leaks(self):
        program = "import os; print(sorted(os.listdir('/proc/self/fd'))[:-1])"
        plain = subprocess.run([sys.executable, "-c", program], capture_output=True).stdout
        for mode in ([], ["--trace", self.trace]):
            self.assertEqual(self.cupola(*mode, "--", sys.executable, "-c", program).stdout, plain)


class Environment(RunTest):
    def read(self, *options, **more):
        done = self.cupola(*options, "--", "env", "-0", **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(e.split("=", 1) for e in done.stdout.decode().split("\0") if e)

    def test_simulated(self):
        home = os.path.join(FOLDER, "home")
        env = self.read()
        self.assertEqual(env["LD_PRELOAD"], f"{home}/lib/libcupola.so")
        self.assertEqual(env["CUPOLA_DRIVER"], f"{home}/lib/sim/libcuda.so.1")
        self.assertEqual(env["LD_LIBRARY_PATH"], f"{home}/lib/libcupola:{home}/lib/sim")
        self.assertNotIn("CUPOLA_RECORDS", env)
        self.assertNotIn("CUPOLA_TIMING", env)

    def test_what_was_there_stays_behind(self):
        library = os.path.join(FOLDER, "driver", "libcuda.so.1")
        env = self.read(env={"LD_PRELOAD": library, "LD_LIBRARY_PATH": "/a::/b"})
        self.assertTrue(env["LD_PRELOAD"].endswith("/libcupola.so:" + library))
        self.assertTrue(env["LD_LIBRARY_PATH"].endswith("/lib/sim:/a::/b"))

    def test_named_driver(self):
        driver = os.path.join(FOLDER, "driver", "libcuda.so.1")
        for device in ("gpu", "auto"):
            env = self.read(device=device, env={"CUPOLA_DRIVER": driver})
            self.assertEqual(env["CUPOLA_DRIVER"], driver)
            self.assertTrue(env["LD_LIBRARY_PATH"].endswith("/lib/libcupola"))

    def test_driver_found_as_the_loader_would(self):
        env = self.read(device="gpu", env={"LD_LIBRARY_PATH": os.path.join(FOLDER, "driver")})
        self.assertEqual(env["CUPOLA_DRIVER"], os.path.join(FOLDER, "driver", "libcuda.so.1"))

    def test_collecting(self):
        env = self.read("--trace", self.trace, "--timing", "host")
        self.assertEqual(env["CUPOLA_TIMING"], "host")
        self.assertTrue(env["CUPOLA_RECORDS"].startswith(self.runtime + "/"))
        done = self.cupola("--stats", "--", "sh", "-c", 'stat -c %a "$CUPOLA_RECORDS"')
        self.assertEqual(done.stdout, b"700\n")
        self.assertEqual(os.listdir(self.runtime), [], "nothing is left behind")

    def test_unknown_variables_are_named(self):
        done = self.cupola("--", "true", env={"CUPOLA_PREMPT": "off", "CUPOLA_TASKS": "off", "CUPOLA": "x"})
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        self.assertEqual(done.stderr, b"cupola: CUPOLA_PREMPT in the environment is no setting; did you mean "
                                      b"CUPOLA_PREEMPT?\n")

    def test_nested(self):
        done = self.cupola("--", CUPOLA, "run", "--device", "auto", "--", "env", "-0")
        env = dict(e.split("=", 1) for e in done.stdout.decode().split("\0") if e)
        self.assertEqual(env["LD_PRELOAD"].count("libcupola.so"), 1)
        self.assertTrue(env["CUPOLA_DRIVER"].endswith("/lib/sim/libcuda.so.1"))


class Processes(RunTest):
    def test_shell_python_and_children(self):
        commands = {
            "shell": (["sh", "-c", "env true; true & wait"], 2),
            "python": ([sys.executable, "-c",
                        "import subprocess; subprocess.run(['true'], check=True)"], 2),
            "fork and exec": ([sys.executable, "-c",
                               "import os\n"
                               "pid = os.fork()\n"
                               "if pid == 0: os.execvp('true', ['true'])\n"
                               "os.waitpid(pid, 0)"], 2),
        }
        for name, (command, at_least) in commands.items():
            with self.subTest(name):
                done = self.cupola("--trace", self.trace, "--", *command,
                                   env={"FAKE_LAUNCHES": "10"})
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                kernels = self.kernels()
                processes = {e["pid"] for e in kernels}
                self.assertGreaterEqual(len(processes), at_least)
                self.assertEqual(len(kernels), 10 * len(processes))

    def test_exec_keeps_both_programs(self):
        self.cupola("--trace", self.trace, "--", "sh", "-c", "exec true",
                    env={"FAKE_LAUNCHES": "10"})
        names = {e["args"]["name"] for e in self.events() if e["name"] == "process_name"}
        self.assertEqual(len(names), 2, names)
        self.assertEqual(len(self.kernels()), 20)

    def test_many_processes(self):
        done = self.cupola("--trace", self.trace, "--", "sh", "-c",
                           "for i in $(seq 50); do true_program=1 env true; done",
                           env={"FAKE_LAUNCHES": "3"})
        self.assertEqual(done.returncode, 0)
        self.assertGreaterEqual(len(self.kernels()), 3 * 51)


class Traces(RunTest):
    def test_rows_and_arguments(self):
        self.cupola("--trace", self.trace, "--", "true", env={"FAKE_LAUNCHES": "10"})
        events = self.events()
        rows = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertIn("default stream", rows)
        self.assertIn("stream 1", rows)
        self.assertTrue(any(name.startswith("CPU thread ") for name in rows))
        kernels = self.kernels()
        self.assertEqual(len(kernels), 10)
        self.assertEqual(kernels[0]["name"], "fake(float*, int)")
        self.assertEqual(kernels[0]["args"]["grid"], "4x1x1")
        self.assertEqual(kernels[0]["args"]["block"], "128x1x1")
        self.assertEqual(kernels[0]["args"]["timed"], "device")

    def test_more_launches_than_the_ring_holds(self):
        done = self.cupola("--trace", self.trace, "--", "true", env={"FAKE_LAUNCHES": "80000"})
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(len(self.kernels()), 80000)

    def test_killed_program_leaves_a_whole_trace(self):
        for hole in ({}, {"FAKE_HOLE": "1"}):
            done = self.cupola("--trace", self.trace, "--", "sh", "-c", "kill -9 $$",
                               env={"FAKE_LAUNCHES": "100", **hole})
            self.assertEqual(done.returncode, -signal.SIGKILL)
            self.assertEqual(len(self.kernels()), 100)

    def test_program_without_cuda(self):
        plain = subprocess.run(["sort"], input=b"b\na\n", capture_output=True)
        done = self.cupola("--trace", self.trace, "--", "sort", input=b"b\na\n")
        self.assertEqual(done.stdout, plain.stdout)
        self.assertEqual(done.stderr, b"cupola: no CUDA launches seen\n")
        self.assertEqual(self.events(), [])

    def test_unwritable_trace_stops_before_the_program(self):
        mark = os.path.join(self.folder, "started")
        for trace in (os.path.join(self.folder, "none", "t.json"), self.folder, "/dev/null"):
            done = self.cupola("--trace", trace, "--", "touch", mark)
            self.assertEqual(done.returncode, 125)
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
            self.assertIn(trace.encode(), done.stderr)
        self.assertFalse(os.path.exists(mark))
        self.assertEqual(os.listdir(self.runtime), [])

    def test_failed_start_leaves_no_trace(self):
        self.assertEqual(self.cupola("--trace", self.trace, "--", "./nothing").returncode, 127)
        path = os.path.join(self.folder, "broken")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/no/such/interpreter\n")
        os.chmod(path, 0o755)
        self.assertEqual(self.cupola("--trace", self.trace, "--", path).returncode, 127)
        self.assertEqual(sorted(os.listdir(self.folder)), ["broken", "runtime"])
        self.assertEqual(os.listdir(self.runtime), [])

    def test_damaged_records(self):
        done = self.cupola("--trace", self.trace, "--", "true", env={"FAKE_DAMAGED": "1"})
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"not a file of launch records", done.stderr)
        self.assertEqual(self.events(), [])

    def test_statistics(self):
        done = self.cupola("--stats", "--", "true", env={"FAKE_LAUNCHES": "10"})
        self.assertEqual(done.stdout, b"")
        lines = done.stderr.decode().splitlines()
        self.assertEqual(lines[1].split(),
                         ["10", "0.005", "0.50", "4", "128", "fake(float*,", "int)"])
        self.assertEqual(lines[-1], "10 kernel launches")


class Limits(RunTest):
    def test_set_uid_program_is_not_preloaded_and_said_once(self):
        if os.getuid() != 0:
            self.skipTest("only root can give a program to another user")
        path = os.path.join(self.folder, "other")
        shutil.copy("/usr/bin/env", path)
        os.chmod(self.folder, 0o755)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        if os.statvfs(path).f_flag & os.ST_NOSUID:
            self.skipTest(f"{self.folder} is mounted nosuid")
        for mode in ([], ["--trace", self.trace]):
            done = self.cupola(*mode, "--", path)
            self.assertEqual(done.returncode, 0)
            self.assertNotIn(b"LD_PRELOAD", done.stdout)
            self.assertEqual(done.stderr.count(b"other rights"), 1, done.stderr)

    def test_static_program(self):
        done = self.cupola("--", os.path.join(FOLDER, "static_program"))
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.count(b"statically linked"), 1)
        self.assertEqual(done.stderr.count(b"\n"), 1)

    def test_no_simulated_device(self):
        home = os.path.join(FOLDER, "home_without_sim")
        done = self.cupola("--", "true", env={"CUPOLA_HOME": home})
        self.assertEqual(done.returncode, 125)
        self.assertEqual(done.stderr.count(b"\n"), 1)
        self.assertIn(b"no simulated device", done.stderr)

    def test_no_device_at_all(self):
        if os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg"):
            self.skipTest("this machine has a GPU")
        done = self.cupola("--", "true", device="auto",
                           env={"CUPOLA_HOME": os.path.join(FOLDER, "home_without_sim")})
        self.assertEqual(done.returncode, 125)
        self.assertEqual(done.stderr.count(b"\n"), 1)
        self.assertIn(b"nothing to run CUDA on", done.stderr)

    def test_no_library(self):
        done = self.cupola("--", "true", env={"CUPOLA_HOME": self.folder})
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"libcupola.so", done.stderr)

    def test_wrong_named_driver(self):
        done = self.cupola("--", "true", device="gpu", env={"CUPOLA_DRIVER": "/etc/passwd"})
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"CUPOLA_DRIVER=/etc/passwd", done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1)

    def test_home_that_cannot_be_preloaded(self):
        home = os.path.join(self.folder, "with space")
        shutil.copytree(os.path.join(FOLDER, "home"), home)
        done = self.cupola("--", "true", env={"CUPOLA_HOME": home})
        self.assertEqual(done.returncode, 125)
        self.assertIn(b"space", done.stderr)


if __name__ == "__main__":
    unittest.main()
