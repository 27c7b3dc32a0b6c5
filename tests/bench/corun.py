"""Programs that share a GPU: plain or under Cupola with an arbiter, with MPS or without.

A `Bed` knows the build, the device and the folder for logs; `bed.mps()` and `bed.arbiter(...)` are
context managers for the two daemons; a `Job` is one running program. Everything has a time limit,
and ends only what it has started. Standard library only."""
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

import machine
import runner

SUMS = re.compile(r"^\d+ (?:kernels?|built), .*", re.MULTILINE)  # of what `cupola build` says: the lines on all kernels


class Failed(Exception):
    """A program or a daemon did not do what it must; the message says which and how."""


class Job:
    """A program that runs beside others, in a session of its own; it ends with the thread that has
    started it."""

    def __init__(self, command, environ, log=None, output=None):
        """Standard output goes to the file `output`, else to a pipe."""
        self.command, self.log, self.err = command, log, ""
        with open(output, "wb") if output else contextlib.nullcontext(subprocess.PIPE) as out:
            self.process = subprocess.Popen(
                command, env=environ, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE,
                bufsize=0, start_new_session=True, preexec_fn=runner.prepare_child_to_end)

    def await_line(self, seconds):
        """The next line of standard output, without its end; None when there is none in time."""
        line, deadline = bytearray(), time.monotonic() + seconds
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self.process.stdout], [], [], left)[0]
            byte = self.process.stdout.read(1) if ready else b""
            if not byte:
                return None
            line += byte
        return line[:-1].decode(errors="replace")

    def end_input(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.stdin = None

    def finish(self, seconds):
        """Waits for the end, then kills; (exit code or "timeout", standard output)."""
        try:
            out, err = self.process.communicate(timeout=seconds)
            code = self.process.returncode
        except subprocess.TimeoutExpired:
            self.kill()
            out, err = self.process.communicate()
            code = "timeout"
        out = out or b""
        if self.log and (err or code != 0):
            with open(self.log, "ab") as file:
                file.write(f"$ {' '.join(self.command)}\n".encode() + err[-4000:] +
                           f"-> {runner.describe_code(code)}\n".encode())
        self.err = err.decode(errors="replace")
        return code, out.decode(errors="replace")

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def result(self, seconds):
        """The JSON object in the last line that the program prints."""
        code, out = self.finish(seconds)
        try:
            if code == 0:
                return json.loads(out.splitlines()[-1])
        except (ValueError, IndexError):
            pass
        raise Failed(f"{' '.join(self.command)}: {runner.describe_code(code)} {self.err[-400:]}")


class Bed:
    """Where co-runs take place. `systems` are "plain" and "cupola"."""

    def __init__(self, build, device, out, verbose=False):
        self.build, self.device = os.path.abspath(build), device
        self.folder = tempfile.mkdtemp(prefix="cupola-bench-")
        self.out = out
        self.log = os.path.join(out, "corun.log")
        self.store = os.path.join(self.folder, "store")
        self.verbose = verbose
        self.profile, self.plan_file = out + "/flep-profile.json", out + "/flep.plan"
        self.plan = None  # a file of `cupola train`, for the programs under Cupola
        self.phase = ""  # what is being measured now
        self.counts = {}  # by phase and label: what the launch path says that it has done
        self.additions = {}  # to the environment, of the daemons that run now
        self.environ = runner.environment(self.build, device)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def program(self, name):
        return f"{self.build}/apps/{'static' if self.device == 'gpu' else 'shared'}/{name}"

    def start(self, system, label, command, output=None, environ=None):
        """Starts a program, `label` being its name in the arbiter's rules. `environ`: additions for it alone."""
        environ = {**self.environ, **self.additions, **(environ or {})}
        if system == "cupola":
            environ.update({"CUPOLA_LABEL": label, "CUPOLA_STORE": self.store,
                            "CUPOLA_LOG": "info"})
            environ.update({"CUPOLA_PLAN": self.plan} if self.plan else {})
            command = runner.cupola_command(self.build, self.device) + command
        else:
            environ.pop("CUPOLA_SOCKET", None)
        if self.verbose:
            print(f"  {system}: {' '.join(command)}", flush=True)
        return Job(command, environ, self.log, output)

    def ran_seconds(self):
        """By label, the GPU time that the arbiter which runs now has charged to each program; empty where it does not say."""
        done = subprocess.run([self.build + "/bin/cupola", "ctl", "--json", "show"], env={**self.environ, **self.additions},
                              capture_output=True, timeout=60, check=False)
        if done.returncode != 0:
            return {}
        return {client["label"]: client["ran_ns"] / 1e9 for gpu in json.loads(done.stdout)["gpus"] for client in gpu["clients"]}

    def count(self, job, label):
        """Adds up the launches that a finished program under Cupola reports, by phase and label."""
        for line in job.err.splitlines():
            if "preemption: " not in line:
                continue
            for number, what in re.findall(r"(\d+) ([a-z][^,]*)", line.split("preemption: ", 1)[1]):
                row = self.counts.setdefault(f"{self.phase} {label}".strip(), {})
                row[what.strip()] = row.get(what.strip(), 0) + int(number)

    def run_tool(self, arguments, seconds):
        """Runs `cupola` with arguments to its end. Returns (exit code, output)."""
        environ = {**self.environ, **self.additions, "CUPOLA_STORE": self.store}
        result = runner.run([self.build + "/bin/cupola", *arguments], environ, seconds)
        text = (result["stdout"] + result["stderr"]).decode(errors="replace")
        with open(self.log, "a") as file:
            file.write(f"$ cupola {' '.join(arguments)}\n{text}"
                       f"-> {runner.describe_code(result['code'])}, {result['seconds']:.1f} s\n")
        return result["code"], text

    def build_variants(self, programs):
        """Runs `cupola build` once for programs by name. Returns its last lines, on all kernels; raises Failed."""
        return self.build_files(map(self.program, programs))

    def build_files(self, files):
        """The same for files."""
        code, text = self.run_tool(["build", *files], runner.BUILD_SECONDS)
        if code != 0:
            raise Failed(f"cupola build: {runner.describe_code(code)} {text[-400:]}")
        return SUMS.findall(text)

    def has_mps(self):
        return self.device == "gpu" and shutil.which("nvidia-cuda-mps-control") is not None

    @contextlib.contextmanager
    def mps(self, by_arbiter=False):
        """MPS for the programs started within; the simulated device needs no daemon for that. With
        `by_arbiter` the control daemon is left to a `cupola serve --mps` that runs within, which must
        have stopped it by the end."""
        if self.device == "sim":
            self.additions["CUPOLA_SIM_MPS"] = "1"
            try:
                yield
            finally:
                del self.additions["CUPOLA_SIM_MPS"]
            return
        if not self.has_mps():
            raise Failed("no nvidia-cuda-mps-control here")
        pipe = tempfile.mkdtemp(prefix="mps-", dir=self.folder)
        mine = {"CUDA_MPS_PIPE_DIRECTORY": pipe, "CUDA_MPS_LOG_DIRECTORY": pipe}
        control = "nvidia-cuda-mps-control"
        quiet = {"env": {**os.environ, **mine}, "stdout": subprocess.DEVNULL,
                 "stderr": subprocess.DEVNULL, "timeout": 20}  # the daemon keeps what it is given
        if not by_arbiter:
            try:
                started = subprocess.run([control, "-d"], stdin=subprocess.DEVNULL, **quiet)
            except subprocess.TimeoutExpired as error:
                raise Failed(f"{control} -d: did not return") from error
            if started.returncode != 0:
                raise Failed(f"{control} -d: {runner.describe_code(started.returncode)}")
        self.additions.update(mine)
        try:
            yield
            if by_arbiter and mps_answers(quiet):
                raise Failed(f"{control} runs on behind cupola serve --mps")
        finally:
            for key in mine:
                del self.additions[key]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run([control], input=b"quit -t 5\n", **quiet)

    @contextlib.contextmanager
    def arbiter(self, config, *options):
        """`cupola serve` with a configuration (TOML text), for the programs started within."""
        self.serves = getattr(self, "serves", 0) + 1
        path = os.path.join(self.folder, f"arbiter{self.serves}.sock")
        config_file = os.path.join(self.folder, f"arbiter{self.serves}.toml")
        with open(config_file, "w") as file:
            file.write(config)
        environ = {**self.environ, **self.additions, "CUPOLA_SOCKET": path,
                   "CUPOLA_STORE": self.store}
        job = Job([self.build + "/bin/cupola", "serve", "--config", config_file, *options], environ,
                  self.log)
        outer = self.additions.get("CUPOLA_SOCKET")  # of an arbiter within which this one runs
        self.additions["CUPOLA_SOCKET"] = path
        try:
            line = job.await_line(15)
            if line is None or not line.startswith("listening"):
                job.kill()
                code, _ = job.finish(5)
                raise Failed(f"cupola serve: {runner.describe_code(code)} {job.err[-400:]}")
            yield job
            if job.process.poll() is not None:  # what ran meanwhile had no arbiter
                code, _ = job.finish(5)
                raise Failed(f"cupola serve ended by itself: {runner.describe_code(code)} "
                             f"{job.err[-400:]}")
        finally:
            del self.additions["CUPOLA_SOCKET"]
            if outer:
                self.additions["CUPOLA_SOCKET"] = outer
            with contextlib.suppress(ProcessLookupError, ValueError):  # ValueError: finished before
                job.process.terminate()
                job.finish(10)


def mps_answers(how):
    """Whether an MPS control daemon answers; `how`: keywords of subprocess.run, with the daemon's folders."""
    try:
        done = subprocess.run(["nvidia-cuda-mps-control"], input=b"get_server_list\n", **how)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def require(device, paths):
    """Raises runner.NotPossible where there is no such device, or something is not built; None among
    the paths is passed over."""
    if device == "gpu" and not machine.has_gpu():
        raise runner.NotPossible("no NVIDIA driver with a GPU here (cuInit fails)")
    for path in filter(None, paths):
        if not os.path.exists(path):
            raise runner.NotPossible(f"no {path}: build it first")


def config(policy, labels, **settings):
    """The arbiter's configuration: `labels` is {label: {"priority": .., "weight": ..}}; `settings`
    are keys of [policy]."""
    lines = ["[policy]", f'name = "{policy}"']
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    for label, rule in labels.items():
        lines += ["", "[[rule]]", f'label = "{label}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in rule.items()]
    return "\n".join(lines) + "\n"
