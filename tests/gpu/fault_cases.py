"""The cases of faults.py: what happens to which program, and what must hold afterwards."""
import contextlib
import os
import random
import signal
import time

from fault_bed import HIGH, LOW, Program, TooLate, Wrong
from guarded_calls import STREAMS, ask
import corun

CHAOS_SECONDS = 8
EXIT_SECONDS = 5  # that an exiting program waits for its kernels
LEASE_SECONDS = 0.02  # intercept/launch/burst.cpp: kLeaseNs


def answers(program, commands):
    """The program's answer to each command; if it ends, how it ended instead."""
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
        victim.say("wait")  # a thread of the program is in the driver
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
    """Nobody lets the program go on: it ends all the same, after the time for which an exit waits for kernels."""
    victim, beside = case.start(LOW, kind)
    case.pause_while_running(victim)
    victim.say("exit 3")
    case.go_on(beside)
    victim.end(3)
    case.until_gone(victim)
    case.go_on(beside)
    case.end_programs(beside)


def exits_while_held_alone(case):
    """The same while another program holds it and does not let go, without an arbiter that would free its slot."""
    victim, beside = case.start(LOW, "library")
    victim.launch("long")
    for _ in range(10):
        beside.launch("longest")
    case.until(lambda: case.is_stopped(victim), "the victim is preempted", TooLate)
    case.must_hold(victim, beside)
    case.kill_arbiter()
    begun = time.monotonic()
    victim.say("exit 3")
    victim.end(3)
    if time.monotonic() - begun < EXIT_SECONDS - 0.1:
        raise TooLate("the victim was let go before it had left")
    beside.signal(signal.SIGKILL)
    beside.end(-signal.SIGKILL)


def both_go_on(case, victim, beside):
    """Checks that one program preempts the other once more, and that both end well."""
    case.preempt(victim, beside)
    beside.wait()
    victim.wait()
    case.go_on(victim)
    case.end_programs(victim, beside)


def until_rejoined(case, *programs):
    """Waits until both programs have found the new arbiter, and it knows their labels."""
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
    """The arbiter is killed repeatedly, at any moment of a preemption; the next one comes before or after its end."""
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


class Chaos:
    """Programs of both priorities at work while random things happen to them and to the arbiter."""

    def __init__(self, case, seed):
        self.case, self.chance, self.history = case, random.Random(seed), []
        case.serve()
        self.programs = [self.begin() for _ in range(4)]
        for program in self.programs:
            program.until_ready()

    def begin(self):
        label = self.chance.choice((LOW, HIGH))
        program = Program(self.case, f"program {len(self.case.programs)}", label, "runtime")
        program.is_busy = False
        return program

    def work(self, program):
        if program.is_busy:
            program.wait()
        else:
            program.launch(self.chance.choice(("short", "short", "long")))
        program.is_busy = not program.is_busy

    def kill(self, program):
        program.signal(signal.SIGKILL)
        program.end(-signal.SIGKILL)
        self.replace(program)

    def leave(self, program):
        program.say("exit 0")
        program.end()
        self.replace(program)

    def replace(self, program):
        self.programs[self.programs.index(program)] = self.begin().until_ready()

    def stop(self, program):
        program.signal(signal.SIGSTOP)
        other = self.chance.choice(self.programs)
        if other is not program:
            self.work(other)
        program.signal(signal.SIGCONT)

    def pause(self, program):
        with contextlib.suppress(corun.Failed):  # it may not have come back to this arbiter yet
            ask(self.case.bed, command="set", pid=program.pid, paused=True)
            other = self.chance.choice(self.programs)
            if other is not program:
                self.work(other)
            ask(self.case.bed, command="set", pid=program.pid, paused=False)

    def set_priority(self, program):
        with contextlib.suppress(corun.Failed):
            ask(self.case.bed, command="set", pid=program.pid, priority=self.chance.randrange(8))

    def replace_arbiter(self, _):
        self.case.kill_arbiter()
        self.work(self.chance.choice(self.programs))
        self.case.serve()

    def step(self):
        actions = [self.work] * 12 + [self.stop, self.pause, self.set_priority] * 2
        actions += [self.kill, self.leave, self.replace_arbiter]
        action, program = self.chance.choice(actions), self.chance.choice(self.programs)
        self.history.append(f"{action.__name__} {program.name}")
        action(program)

    def finish(self):
        for program in self.programs:
            if program.is_busy:
                self.work(program)
        self.case.end_programs(*self.programs)


def chaos(case):
    seed = int(os.environ.get("CUPOLA_TEST_SEED", "7"))
    world = Chaos(case, seed)
    end = time.monotonic() + case.at_most(CHAOS_SECONDS)
    try:
        while time.monotonic() < end:
            world.step()
        world.finish()
    except Wrong as wrong:
        raise Wrong(f"{wrong} (seed {seed}, after {', '.join(world.history[-6:])})") from wrong


def ended_while_preempted(what, kind, stream="non_blocking"):
    """The device is reset, the context destroyed or the code unloaded while a kernel of it is preempted."""
    def run(case):
        victim, beside = case.start(LOW, kind, stream)
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
    """A demand that outlives its lease many times is renewed in time: the program that it holds stays held."""
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


# What a program can do after a kernel of it has faulted, and after it has handled that.
AFTERMATH = ("errors", "reset", "launch 500 1000", "wait")


def plain_aftermath(case):
    """What a program without Cupola gets from its calls after a fault."""
    plain = Program(case, "plain program", None, "runtime").until_ready()
    lines = answers(plain, ("fault", *AFTERMATH))
    if lines[0] != "launched cudaSuccess" or "wait=cudaErrorIllegalAddress" not in lines[1]:
        raise Wrong(f"the plain program: {lines}")
    return lines[1:]


def expect_aftermath(case, victim, expected):
    """Checks the calls of a victim that has got `errors`."""
    victim.expect(expected[0], "errors")
    rest = answers(victim, AFTERMATH[1:])
    if rest != expected[1:]:
        raise Wrong(f"after the fault {rest}, without Cupola {expected[1:]}")
    if not rest[-1].startswith("the program"):  # which has ended
        case.end_programs(victim)


def sticky_error(case, state):
    """A kernel faults while the bystander's demand holds it, or while it holds the bystander."""
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
    """A program whose kernel has faulted and that makes no more calls does not hold any other."""
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
    cases["chaos"] = chaos
    for stream in STREAMS:
        cases[f"device_reset_{stream}"] = ended_while_preempted("reset", "runtime", stream)
        cases[f"context_destroy_{stream}"] = ended_while_preempted("destroy", "context", stream)
    cases["module_unload"] = ended_while_preempted("unload", "module")
    cases["library_unload"] = ended_while_preempted("unload", "library")
    cases["fork"] = forks
    cases["long_demand"] = long_demand
    for kind, name in (("runtime", "exit_while_held"), ("library", "exit_unloads_while_held")):
        cases[name] = lambda case, kind=kind: exits_while_held(case, kind)
    cases["exit_while_held_alone"] = exits_while_held_alone
    cases["sticky_error_unnoticed"] = sticky_error_unnoticed
    for state in ("running", "waiting"):
        cases[f"sticky_error_{state}"] = lambda case, state=state: sticky_error(case, state)
    return cases
