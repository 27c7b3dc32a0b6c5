"""Parts of the cases of faults.py: programs that obey commands (faults.cu), and for each case an
arbiter of its own. Every wait has a limit. Standard library only."""
import contextlib
import os
import subprocess
import time

from guarded_calls import LOOK_SECONDS, ask  # first: it makes the folders of what follows known
import corun
import runner

# Blocks of kernels, and nanoseconds of one block. A long one lasts a few tenths of a second.
KERNELS = {"gpu": {"long": 100_000, "longer": 200_000, "longest": 1_000_000, "short": 10_000,
                   "ns": 2_000_000},
           "sim": {"long": 250, "longer": 500, "longest": 20_000, "short": 20, "ns": 1_000_000}}
MOST_BLOCKS = 1 << 22  # faults.cu: kMostBlocks
CASE_SECONDS = {"gpu": 20, "sim": 40}
STATE_SECONDS = 5  # within this time the arbiter must show the state that was brought about
ANSWER_SECONDS = 15
END_SECONDS = 10
LOW, HIGH = "low", "high"


class Wrong(Exception):
    """Something went wrong: the message says what."""


class TooLate(Exception):
    """The kernel that was to be disturbed had ended before."""


class Program:
    """A faults.cu process under Cupola, which gets its commands line by line."""

    def __init__(self, case, name, label, *arguments):
        self.case, self.name = case, name
        command = [*(case.strict if label else []), case.bed.program("faults"), *arguments]
        self.job = case.bed.start("cupola" if label else "plain", label, command)
        case.programs.append(self)

    def until_ready(self):
        self.expect("ready", "starts")
        return self

    @property
    def pid(self):
        return self.job.process.pid

    def say(self, line):
        try:
            self.job.process.stdin.write(line.encode() + b"\n")
        except OSError as error:
            raise Wrong(f"the {self.name} has ended: {error.strerror}") from error

    def answer(self, what):
        line = self.job.await_line(self.case.at_most(ANSWER_SECONDS))
        if line is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.job.process.wait(1)  # its output ends a moment before itself
            code = self.job.process.poll()
            how = "hangs" if code is None else runner.describe_code(code)
            raise Wrong(f"the {self.name} {how}: {what}")
        return line

    def expect(self, expected, what):
        line = self.answer(what)
        if line != expected:
            raise Wrong(f"the {self.name}, {what}: {line}")

    def launch(self, length):
        blocks = min(self.case.kernels[length] * self.case.factor, MOST_BLOCKS)
        self.say(f"launch {blocks} {self.case.kernels['ns']}")
        self.expect(f"launched {self.success}", "launch")

    success = "cudaSuccess"

    def expect_results(self):
        self.expect("ran cudaSuccess wrong 0", "wait")

    def wait(self):
        self.say("wait")
        self.expect_results()

    def signal(self, number):
        os.kill(self.pid, number)  # its leader is the program: `cupola run` becomes it

    def end(self, code=0):
        """Waits for the program's end, which must come by itself because its input ends or it was told to end."""
        found, _ = self.job.finish(self.case.at_most(END_SECONDS))
        if found != code:
            described = found if found == "timeout" else runner.describe_code(found)
            raise Wrong(f"the {self.name} ends with {described} {self.job.err[-300:]}")


class Case:
    """One case: its arbiter and programs, and what became of them."""

    def __init__(self, options, store, end, factor, is_strict):
        self.device, self.kernels, self.factor = options.device, KERNELS[options.device], factor
        self.end = min(end, time.monotonic() + CASE_SECONDS[self.device])
        self.bed = corun.Bed(options.build, options.device, options.out)
        self.strict = ["env", f"CUPOLA_DRIVER={options.strict}",
                       f"STRICT_DRIVER={options.build}/lib/sim/libcuda.so.1"] if is_strict else []
        self.bed.store, self.programs, self.arbiter = store, [], None
        self.bed.environ["CUPOLA_PREEMPT"] = "always"
        self.bed.additions.update(options.additions)
        self.bed.additions["CUPOLA_SOCKET"] = os.path.join(self.bed.folder, "arbiter.sock")
        self.config = os.path.join(self.bed.folder, "arbiter.toml")
        with open(self.config, "w") as file:
            file.write(corun.config("hpf", {LOW: {"priority": 0}, HIGH: {"priority": 5}}))

    def at_most(self, seconds):
        """A time to wait that ends before the case must have ended."""
        return max(0.05, min(seconds, self.end - time.monotonic()))

    def serve(self):
        command = [self.bed.build + "/bin/cupola", "serve", "--config", self.config]
        environ = {**self.bed.environ, **self.bed.additions}
        self.arbiter = corun.Job(command, environ, self.bed.log)
        line = self.arbiter.await_line(self.at_most(ANSWER_SECONDS))
        if line is None or not line.startswith("listening"):
            raise Wrong(f"cupola serve: {line}")

    def kill_arbiter(self):
        self.arbiter.kill()
        self.arbiter.finish(self.at_most(END_SECONDS))

    def close(self):
        jobs = [program.job for program in self.programs] + [self.arbiter]
        for job in filter(None, jobs):
            with contextlib.suppress(ValueError, OSError):  # ValueError: was finished before
                job.kill()
                job.finish(2)
        self.bed.close()

    def client(self, program):
        """What the arbiter shows of a program; None if it does not know it."""
        for gpu in ask(self.bed, command="show")["gpus"]:
            for client in gpu["clients"]:
                if client["pid"] == program.pid:
                    return client
        return None

    def until(self, condition, what, otherwise=Wrong):
        deadline = time.monotonic() + self.at_most(STATE_SECONDS)
        while not condition():
            if time.monotonic() > deadline:
                raise otherwise(f"never: {what}")
            time.sleep(LOOK_SECONDS)

    def until_gone(self, program):
        self.until(lambda: self.client(program) is None, f"the {program.name} has left the board")

    def start(self, victim_label, kind="runtime", stream="non_blocking"):
        """Arbiter, victim and bystander, whose label is the other one; the victim's kernels go into a
        stream of that kind."""
        self.serve()
        other = HIGH if victim_label == LOW else LOW
        files = [f"{self.bed.build}/apps/faults.fatbin"] if kind != "runtime" else []
        victim = Program(self, "victim", victim_label, "--stream", stream, kind, *files)
        beside = Program(self, "bystander", other, "runtime")
        if kind != "runtime":
            victim.success = "CUDA_SUCCESS"
        return victim.until_ready(), beside.until_ready()

    def is_stopped(self, program):
        client = self.client(program)
        return client is not None and client["held"] and client["stopped"]

    def preempt(self, low, high):
        """Starts the low-priority program's kernel, and then the high-priority one's, which stops it half-way."""
        before = self.client(low)["preemptions"]
        low.launch("long")
        high.launch("longer")
        self.until(lambda: self.is_stopped(low) and self.client(low)["preemptions"] > before,
                   f"the {low.name} is preempted", TooLate)
        self.must_hold(low, high)

    def pause_while_running(self, program):
        program.launch("long")
        ask(self.bed, command="set", pid=program.pid, paused=True)
        self.until(lambda: self.is_stopped(program), f"the {program.name} is paused", TooLate)

    def must_hold(self, low, high):
        """Checks at a fault that the high-priority program's kernel runs and that the low-priority one's is held."""
        client = self.client(high)
        if not self.is_stopped(low) or not (client["active"] and client["granted"]):
            raise TooLate("a kernel has ended before the fault")

    def bring_about(self, state):
        """Brings the victim's kernel to `running`, `preempted` or `waiting`, and the bystander's to the reverse."""
        victim, beside = self.start(HIGH if state == "running" else LOW)
        if state == "preempted":
            self.preempt(victim, beside)
            return victim, beside
        first, second = (victim, beside) if state == "running" else (beside, victim)
        first.launch("longer")
        second.launch("long")
        self.until(lambda: self.is_stopped(second), f"the {second.name} waits", TooLate)
        self.must_hold(second, first)
        return victim, beside

    def go_on(self, program):
        """Checks that the program does more work, with right results."""
        for _ in range(3):
            program.launch("short")
            program.wait()

    def end_programs(self, *programs):
        for program in programs:
            program.end()
