"""Runs the programs of tests/apps/flep together by a script of rounds, and the sets of co-runs that
FLEP's evaluation (ASPLOS 2017, section 6) is made of. Standard library only."""
import collections
import contextlib
import json
import random
import tempfile
import time

import corun
import runner

PROGRAMS = ["cfd", "nn", "pf", "pl", "md", "spmv", "mm", "va"]
LOW = PROGRAMS[:4]  # run their large inputs with low priority; section 6.3.1
SHORT = PROGRAMS[4:]  # run their small inputs with equal priority; section 6.3.1
MODES = [(system, sharing) for sharing in ("nomps", "mps") for system in ("plain", "cupola")]
FFS_OVERHEAD = 0.10  # max_overhead, as the paper has it
MOST_MEMBERS = 12  # of a co-run at a time
# Delay behind the previous launch, so that its kernel runs: without MPS the GPU changes context first.
DELAY_US = {"mps": 50, "nomps": 300}

# On the simulated device: so many blocks that a kernel can be stopped between them; all other inputs are the smallest.
SIM_SIZES = {("cfd", "large"): 6144, ("nn", "large"): 8192, ("pf", "large"): 6480,
             ("pl", "large"): 6144, ("spmv", "large"): 240, ("va", "large"): 15360}

Party = collections.namedtuple("Party", "program input system label")
Round = collections.namedtuple("Round", "turns loop")  # turns: [(party index, delay in us)]
Launch = collections.namedtuple("Launch", "launch_ns done_ns")


def us(launch):
    return (launch.done_ns - launch.launch_ns) / 1000


def play(bed, parties, rounds, seconds, depth=2):
    """Runs all parties through the rounds; for each round {party index: [Launch, ...]}, and each
    party's checksum. Outside of loops the result is poisoned before each launch and compared after
    it, so that a block that did not run is noticed."""
    folder = tempfile.mkdtemp(prefix="play-", dir=bed.folder)
    with open(folder + "/script", "w") as file:
        for turns, loop in rounds:
            words = [f"loop={loop}"] if loop else []
            words += [f"{party}@{delay:g}" if delay else str(party) for party, delay in turns]
            file.write(" ".join(words) + "\n")
    jobs = []
    try:
        for number, party in enumerate(parties):
            command = [bed.program("flep_" + party.program), "--input", party.input, "--script",
                       folder + "/script", "--barrier", folder + "/barrier", "--party", str(number),
                       "--parties", str(len(parties)), "--depth", str(depth)]
            if bed.device == "sim":
                size = SIM_SIZES.get((party.program, party.input))
                command += ["--size", str(size)] if size else ["--scale", "0"]
            command += [] if any(loop for _, loop in rounds) else ["--check-each"]
            jobs.append(bed.start(party.system, party.label, command, folder + f"/out{number}"))
        await_all(jobs, parties, seconds)
        results = []
        for number in range(len(parties)):
            with open(folder + f"/out{number}") as file:
                results.append(json.loads(file.read().splitlines()[-1]))
    finally:
        for job, party in zip(jobs, parties, strict=False):
            job.kill()
            with contextlib.suppress(ValueError):  # finished already
                job.finish(5)
            bed.count(job, party.label)
    found = [collections.defaultdict(list) for _ in rounds]
    for number, result in enumerate(results):
        times = zip(result["round"], result["launch_ns"], result["done_ns"], strict=True)
        for turn, launch, done in times:
            found[turn - 1][number].append(Launch(launch, done))
    return found, [result["checksum"] for result in results]


def await_all(jobs, parties, seconds):
    """Waits until all have ended well. Raises Failed as soon as one has not, or when the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        codes = [job.process.poll() for job in jobs]
        for job, party, code in zip(jobs, parties, codes, strict=True):
            if code:
                job.finish(5)
                raise corun.Failed(f"{party.system} flep_{party.program} {party.input}: "
                                   f"{runner.describe_code(code)} {job.err[-400:]}")
        if None not in codes:
            return
        if time.monotonic() > deadline:
            slow = [f"{party.system} {party.program} {party.input}"
                    for party, code in zip(parties, codes, strict=True) if code is None]
            raise corun.Failed(f"not finished after {seconds:.0f} s: {', '.join(slow[:4])}")
        time.sleep(0.02)


class CoRuns:
    """One kind of co-run: who takes part (program and input), in which order, after what delays."""

    def __init__(self, groups):
        """`groups`: [((program, input), ...)], the first of each launched first."""
        self.groups = groups
        self.members = sorted({member for group in groups for member in group})

    def every(self, step):
        """Each `step`-th of the groups."""
        return CoRuns(self.groups[::step])

    def parts(self, most):
        """The same groups in a row, in parts of at most `most` members."""
        parts, row, members = [], [], set()
        for group in self.groups:
            if row and len(members | set(group)) > most:
                parts.append(CoRuns(row))
                row, members = [], set()
            row.append(group)
            members |= set(group)
        return [*parts, CoRuns(row)]

    def labels(self, high=None):
        """The arbiter's label of each member: "high" where `high(member)`, else "low"."""
        return {member: "high" if high and high(member) else "low" for member in self.members}

    def measure(self, bed, system, labels, repeats, seconds, delay_us, delays=None, loop=0):
        """For each group, a list of repetitions of [Launch of each member] (of lists in loops).
        `system`: of all members, or {member: system}.
        Each member launches `delay_us` after the one before it, or delays[number of the group].
        Of many members not all are there at a time: processes of 32 connections each, 16 of them on
        an H200, were out of memory."""
        if len(self.members) > MOST_MEMBERS:
            groups, sums, limit = [], {}, time.monotonic() + seconds
            for part in self.parts(MOST_MEMBERS):
                own = delays[len(groups):len(groups) + len(part.groups)] if delays else None
                got, found = part.measure(bed, system, labels, repeats, limit - time.monotonic(),
                                          delay_us, own, loop)
                groups += got
                sums.update(found)
            return groups, sums
        systems = system if isinstance(system, dict) else dict.fromkeys(self.members, system)
        parties = [Party(*member, systems[member], labels[member]) for member in self.members]
        index = {member: number for number, member in enumerate(self.members)}
        rounds, owners = [], []
        for _ in range(repeats):
            for number, group in enumerate(self.groups):
                delay = delays[number] if delays else delay_us
                turns = [(index[member], delay if place else 0)
                         for place, member in enumerate(group)]
                rounds.append(Round(turns, loop))
                owners.append(number)
        found, sums = play(bed, parties, rounds, seconds)
        groups = [[] for _ in self.groups]
        for owner, turn in zip(owners, found, strict=True):
            launches = [turn[index[member]] for member in self.groups[owner]]
            groups[owner].append(launches if loop else [each[0] for each in launches])
        return groups, dict(zip(map("_".join, self.members), sums, strict=True))


def high_low_pairs():
    """(low on its large input, high on its small one): the 28 pairs of fig. 8."""
    return CoRuns([((low, "large"), (high, "small"))
                   for low in LOW for high in PROGRAMS if high != low])


def equal_pairs():
    """(long, short): the 28 pairs of fig. 10."""
    return CoRuns([((long, "large"), (short, "small"))
                   for short in SHORT for long in PROGRAMS if long != short])


def triplets(seed=1):
    """28 of the 336 ordered triplets A_B_C, A on its large input, by seed; fig. 12."""
    every = [(a, b, c) for a in PROGRAMS for b in PROGRAMS for c in PROGRAMS
             if len({a, b, c}) == 3]
    chosen = random.Random(seed).sample(every, 28)
    return CoRuns([((a, "large"), (b, "small"), (c, "small")) for a, b, c in sorted(chosen)])


def spatial_pairs():
    """(large, trivial) of every two benchmarks; fig. 15."""
    return CoRuns([((low, "large"), (high, "trivial"))
                   for low in PROGRAMS for high in PROGRAMS if high != low])


def makespan_us(launches):
    return (max(each.done_ns for each in launches) - launches[0].launch_ns) / 1000

