#!/usr/bin/env python3
"""Faults of programs and of the arbiter while kernels are preempted: the others go on, with right
results, and nobody hangs.

In each case an arbiter of its own, and two programs (faults.cu): the victim, to which something
happens while its kernel runs, is preempted or waits, and the bystander, whose demand preempts it or
which it preempts. Every result is compared. Prints a table; exit code 0 = all went so, 1 = not,
77 = nothing could be run here (said why).

  faults.py --build build/gpu --device gpu --json results.json
  faults.py --build build/gpu --mps
  faults.py --device sim --cases fork,device_reset
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

from guarded_calls import ask  # first: it makes the folders of what follows known
import corun
import machine
import runner

# Blocks of kernels, and nanoseconds of one block. A long one lasts a few tenths of a second.
KERNELS = {"gpu": {"long": 100_000, "longer": 200_000, "short": 10_000, "ns": 2_000_000},
           "sim": {"long": 250, "longer": 500, "short": 20, "ns": 1_000_000}}
# Where a kernel had ended before the fault was made: once more, with kernels so many times longer.
FACTORS = (1, 4, 8)
CASE_SECONDS = {"gpu": 20, "sim": 40}
STATE_SECONDS = 5  # until the arbiter must show what was brought about
ANSWER_SECONDS = 15
EXIT_SECONDS = 5  # that an exiting program waits for its kernels
END_SECONDS = 10
LEASE_SECONDS = 0.02  # intercept/preempt/demand.cpp: kLeaseNs
# Cases in which a guard is never reached, which the strict driver cannot know.
NOT_STRICT = ("sticky_error_", "exit_while_held")
LOW, HIGH = "low", "high"


class Wrong(Exception):
    """Something went wrong: the message says what."""


class TooLate(Exception):
    """What was to be disturbed had ended before."""


class Program:
    """faults.cu under Cupola, told what to do a line at a time."""

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
        blocks = self.case.kernels[length] * self.case.factor
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
        """It must end by itself, now that its input does or that it was told to."""
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
        """What the arbiter says of it; None where it does not know it."""
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
            time.sleep(0.001)  # between two looks

    def until_gone(self, program):
        self.until(lambda: self.client(program) is None, f"the {program.name} has left the board")

    def start(self, victim_label, kind="runtime"):
        """Arbiter, victim and bystander, whose label is the other one."""
        self.serve()
        other = HIGH if victim_label == LOW else LOW
        files = [f"{self.bed.build}/apps/faults.fatbin"] if kind != "runtime" else []
        victim = Program(self, "victim", victim_label, kind, *files)
        beside = Program(self, "bystander", other, "runtime")
        if kind != "runtime":
            victim.success = "CUDA_SUCCESS"
        return victim.until_ready(), beside.until_ready()

    def is_stopped(self, program):
        client = self.client(program)
        return client is not None and client["held"] and client["stopped"]

    def preempt(self, low, high):
        """The low one's kernel runs, then the high one's stops it half-way."""
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
        """At a fault: the high one's kernel runs, and the low one's is held."""
        client = self.client(high)
        if not self.is_stopped(low) or not (client["active"] and client["granted"]):
            raise TooLate("a kernel has ended before the fault")

    def bring_about(self, state):
        """The victim's kernel `running`, `preempted` or `waiting`; the bystander's the reverse."""
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
        """More work of it, with right results."""
        for _ in range(3):
            program.launch("short")
            program.wait()

    def end_programs(self, *programs):
        for program in programs:
            program.end()


def answers(program, commands):
    """What it says to each; where it ends, how instead."""
    lines = []
    for command in commands:
        try:
            program.say(command)
            lines.append(program.answer(command))
        except Wrong as ended:
            return lines + [str(ended).split(":", maxsplit=1)[0].replace(program.name, "program")]
    return lines


def killed(case, state):
    victim, beside = case.bring_about(state)
    if state != "running":
        victim.say("wait")  # a thread of it is in the driver
    victim.signal(signal.SIGKILL)
    victim.end(-signal.SIGKILL)
    beside.wait()
    case.until_gone(victim)
    case.go_on(beside)
    case.end_programs(beside)


def stopped(case, state):
    victim, beside = case.bring_about(state)
    victim.say("wait")
    victim.signal(signal.SIGSTOP)
    beside.wait()  # the victim's demand ends with its lease
    case.go_on(beside)
    victim.signal(signal.SIGCONT)
    victim.expect_results()
    case.go_on(victim)
    case.end_programs(victim, beside)


def exits(case, state):
    victim, beside = case.bring_about(state)
    begun = time.monotonic()
    victim.say("exit 3")
    beside.wait()
    victim.end(3)
    if time.monotonic() - begun > EXIT_SECONDS - 0.1:
        raise Wrong("the victim's kernel was not resumed, it gave up waiting")
    case.until_gone(victim)
    case.go_on(beside)
    case.end_programs(beside)


def exits_while_held(case, kind):
    """Nobody lets it go on: it ends all the same, after the time that an exit waits for kernels."""
    victim, beside = case.start(LOW, kind)
    case.pause_while_running(victim)
    victim.say("exit 3")
    case.go_on(beside)
    victim.end(3)
    case.until_gone(victim)
    case.go_on(beside)
    case.end_programs(beside)


def both_go_on(case, victim, beside):
    """Once more one preempts the other, and both end well."""
    case.preempt(victim, beside)
    beside.wait()
    victim.wait()
    case.go_on(victim)
    case.end_programs(victim, beside)


def until_rejoined(case, *programs):
    """A new arbiter has come: they find it, and it knows their labels."""
    priorities = {program.pid: 5 if program is programs[-1] else 0 for program in programs}

    def known():
        clients = [case.client(program) for program in programs]
        return all(c is not None and c["priority"] == priorities[c["pid"]] for c in clients)
    case.until(known, "the new arbiter knows both programs")


def arbiter_killed(case):
    victim, beside = case.bring_about("preempted")
    case.kill_arbiter()
    beside.wait()
    victim.wait()
    case.go_on(beside)
    case.serve()
    until_rejoined(case, victim, beside)
    both_go_on(case, victim, beside)


def arbiter_killed_while_paused(case):
    victim, beside = case.start(LOW)
    case.pause_while_running(victim)
    case.kill_arbiter()
    victim.wait()  # the arbiter's hold ends with it
    case.go_on(beside)
    case.serve()
    until_rejoined(case, victim, beside)
    both_go_on(case, victim, beside)


def arbiter_killed_at_random(case):
    """Again and again, at any moment of a preemption; the next comes before or after its end."""
    seed = int(os.environ.get("CUPOLA_TEST_SEED", "7"))
    chance = random.Random(seed)
    victim, beside = case.start(LOW)
    try:
        for round_ in range(6):
            victim.launch("long")
            beside.launch("long")
            time.sleep(chance.uniform(0, 0.1))  # any moment will do
            case.kill_arbiter()
            if round_ % 2 == 0:
                case.serve()
            beside.wait()
            victim.wait()
            if round_ % 2 == 1:
                case.serve()
    except Wrong as wrong:
        raise Wrong(f"{wrong} (seed {seed}, round {round_})") from wrong
    until_rejoined(case, victim, beside)
    both_go_on(case, victim, beside)


def ended_while_preempted(what, kind):
    """The device, the context or the code ends while its kernel is preempted."""
    def run(case):
        victim, beside = case.start(LOW, kind)
        case.preempt(victim, beside)
        victim.say(what)
        beside.wait()
        victim.expect(f"done {'cudaSuccess' if what == 'reset' else 'CUDA_SUCCESS'}", what)
        victim.wait()  # after an unload: the kernel had run before
        both_go_on(case, victim, beside)
    return run


def forks(case):
    plain = Program(case, "plain program", None, "runtime").until_ready()
    plain.launch("long")
    expected = answers(plain, ["fork"])[0]
    plain.wait()
    plain.end()
    victim, beside = case.bring_about("preempted")
    victim.say("fork")
    victim.expect(expected, "fork")
    beside.wait()
    victim.wait()
    both_go_on(case, victim, beside)


def long_demand(case):
    """A demand that outlives its lease many times is renewed in time: who is held stays so."""
    victim, beside = case.start(LOW)
    before, begun = case.client(victim)["preemptions"], time.monotonic()
    case.preempt(victim, beside)
    beside.wait()
    leases = (time.monotonic() - begun) / LEASE_SECONDS
    victim.wait()
    preemptions = case.client(victim)["preemptions"] - before
    if preemptions > 1 + leases / 3:  # a late agent may miss some
        raise Wrong(f"the victim was let go {preemptions - 1} times during {leases:.0f} leases")
    case.end_programs(victim, beside)


# What a program can do after a kernel of it has faulted, and after it has put up with that.
AFTERMATH = ("errors", "reset", "launch 500 1000", "wait")


def plain_aftermath(case):
    """What a program without Cupola gets from its calls after a fault."""
    plain = Program(case, "plain program", None, "runtime").until_ready()
    lines = answers(plain, ("fault", *AFTERMATH))
    if lines[0] != "launched cudaSuccess" or "wait=cudaErrorIllegalAddress" not in lines[1]:
        raise Wrong(f"the plain program: {lines}")
    return lines[1:]


def expect_aftermath(case, victim, expected):
    """Of a victim that has been told `errors`."""
    victim.expect(expected[0], "errors")
    rest = answers(victim, AFTERMATH[1:])
    if rest != expected[1:]:
        raise Wrong(f"after the fault {rest}, without Cupola {expected[1:]}")
    if not rest[-1].startswith("the program"):  # which has ended
        case.end_programs(victim)


def sticky_error(case, state):
    """A kernel that faults, held by the bystander's demand or while it holds the bystander."""
    expected = plain_aftermath(case)
    victim, beside = case.start(HIGH if state == "running" else LOW)
    first, second = (victim, beside) if state == "running" else (beside, victim)
    first.launch("longer")
    if second is beside:
        beside.launch("long")
        case.until(lambda: case.is_stopped(beside), "the bystander waits", TooLate)
    victim.say("fault")
    victim.expect("launched cudaSuccess", "fault")
    if state == "waiting":
        case.until(lambda: case.is_stopped(victim), "the victim waits", TooLate)
        case.must_hold(victim, beside)
    victim.say("errors")
    beside.wait()
    case.go_on(beside)  # also while the victim lives, with a context that is beyond repair
    expect_aftermath(case, victim, expected)
    case.go_on(beside)
    case.end_programs(beside)


def sticky_error_unnoticed(case):
    """A program whose kernel has faulted and that calls nothing any more holds nobody."""
    expected = plain_aftermath(case)
    victim, beside = case.start(HIGH)
    victim.say("fault")
    victim.expect("launched cudaSuccess", "fault")
    case.go_on(beside)
    victim.say("errors")
    expect_aftermath(case, victim, expected)
    case.go_on(beside)
    case.end_programs(beside)


def all_cases():
    cases = {}
    for state in ("running", "preempted", "waiting"):
        for name, run in (("kill9", killed), ("sigstop", stopped), ("exit", exits)):
            cases[f"{name}_{state}"] = lambda case, run=run, state=state: run(case, state)
    cases["arbiter_killed"] = arbiter_killed
    cases["arbiter_killed_while_paused"] = arbiter_killed_while_paused
    cases["arbiter_killed_at_random"] = arbiter_killed_at_random
    cases["device_reset"] = ended_while_preempted("reset", "runtime")
    cases["context_destroy"] = ended_while_preempted("destroy", "context")
    cases["module_unload"] = ended_while_preempted("unload", "module")
    cases["library_unload"] = ended_while_preempted("unload", "library")
    cases["fork"] = forks
    cases["long_demand"] = long_demand
    for kind, name in (("runtime", "exit_while_held"), ("library", "exit_unloads_while_held")):
        cases[name] = lambda case, kind=kind: exits_while_held(case, kind)
    cases["sticky_error_unnoticed"] = sticky_error_unnoticed
    for state in ("running", "waiting"):
        cases[f"sticky_error_{state}"] = lambda case, state=state: sticky_error(case, state)
    return cases


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    parser.add_argument("--device", choices=["sim", "gpu"], default="gpu")
    parser.add_argument("--cases", help="names of cases, separated by commas (default: all)")
    parser.add_argument("--strict", metavar="DRIVER",
                        help="a driver over the simulated one that ends programs where a GPU would "
                             "hang (tests/preempt/strict_driver.cpp)")
    parser.add_argument("--mps", action="store_true",
                        help="with an MPS daemon of its own beneath, without the cases in which a "
                             "kernel faults: MPS tells all its clients")
    parser.add_argument("--jobs", type=int, help="cases at a time (default: gpu 5, sim 2)")
    parser.add_argument("--limit", type=float, default=240,
                        help="seconds for everything: what runs then is ended (default 240)")
    parser.add_argument("--out", default=".", help="folder for corun.log (default: this one)")
    parser.add_argument("--json", help="write the results to this file")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.strict = options.strict and os.path.abspath(options.strict)
    if options.strict and options.device == "gpu":
        parser.error("--strict is for the simulated device")
    options.jobs = options.jobs or (5 if options.device == "gpu" else 2)
    wanted = options.cases.split(",") if options.cases else list(all_cases())
    unknown = set(wanted) - set(all_cases())
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; "
                     f"there are {', '.join(all_cases())}")
    options.cases = [name for name in wanted if not (options.mps and name.startswith("sticky_"))]
    options.additions = {}
    return options


def run_case(options, store, end, name):
    row = {"case": name, "problem": "not begun: no time left", "seconds": 0.0, "attempts": 0}
    while row["attempts"] < len(FACTORS) and end - time.monotonic() > 3:
        begun, row["problem"], again = time.monotonic(), "", False
        is_strict = options.strict and not name.startswith(NOT_STRICT)
        case = Case(options, store, end, FACTORS[row["attempts"]], is_strict)
        row["attempts"] += 1
        try:
            all_cases()[name](case)
        except TooLate as late:
            row["problem"], again = str(late), True
        except (Wrong, corun.Failed, OSError) as error:
            row["problem"] = str(error)
        except Exception as error:  # one broken case must not cost the others
            row["problem"] = f"{type(error).__name__}: {error}"
        finally:
            case.close()
        row["seconds"] = round(time.monotonic() - begun, 2)
        row["errors"] = {program.name: program.job.err[-1500:] for program in case.programs}
        if not again:
            break
    return row


def run_cases(options, started):
    common = corun.Bed(options.build, options.device, options.out)
    try:
        code, text = common.run_tool(["build", "--quiet", common.program("faults"),
                                      f"{common.build}/apps/faults.fatbin"], 60)
        if code != 0:
            raise corun.Failed(f"cupola build: {runner.describe_code(code)} {text[-400:]}")
        rows = []
        with common.mps() if options.mps else contextlib.nullcontext(), \
                concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            options.additions = dict(common.additions)
            for row in pool.map(lambda name: run_case(options, common.store,
                                                      started + options.limit, name),
                                options.cases):
                rows.append(row)
                print(f"{row['case']:28} {row['seconds']:6.1f} s  {row['attempts']}  "
                      f"{row['problem'] or 'good'}", flush=True)
        return rows
    finally:
        common.close()


def main():
    options = parse_arguments()
    started = time.monotonic()
    try:
        if options.device == "gpu" and not machine.has_gpu():
            raise runner.NotPossible("no NVIDIA driver with a GPU here (cuInit fails)")
        bed = corun.Bed(options.build, options.device, options.out)
        bed.close()
        paths = [bed.program("faults"), f"{bed.build}/apps/faults.fatbin", options.strict]
        for path in filter(None, paths):
            if not os.path.exists(path):
                raise runner.NotPossible(f"no {path}: build it first")
        rows = run_cases(options, started)
    except runner.NotPossible as reason:
        print(f"faults: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    except corun.Failed as error:
        print(f"faults: {error}", file=sys.stderr)
        return 1
    good = sum(not row["problem"] for row in rows)
    seconds = time.monotonic() - started
    print(f"{good} of {len(rows)} good; {seconds:.0f} s")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": options.device, "mps": options.mps, "good": good, "cases": rows,
                       "all_seconds": round(seconds, 1)}, file, indent=1)
    return 0 if rows and good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
