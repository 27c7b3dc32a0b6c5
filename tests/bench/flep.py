"""FLEP's evaluation (ASPLOS 2017, section 6) for Cupola on this machine: scripts/bench flep.

Each section measures plain CUDA and Cupola with the same programs and the same scripts of rounds,
and leaves a summary of each cell in detail[section]; metrics() makes the metrics of all sections there are,
so that sections may be measured in several runs. Standard library only."""
import contextlib
import itertools
import json
import os
import sys

import corun
import flep_calibrate
import flep_metrics as m
import flep_runs as runs
from flep_results import metrics, summary_of_repeats
import machine
import result_file
import runner
import sampling
import torch_pair

# The sections in the order in which they are measured: what "prediction" and "tune" find serves the sections after
# them. Each with about the seconds that it takes on an H200; GUESSED: not measured yet, but estimated from its number
# of processes and kernels.
SECTIONS = {"inputs": 20, "prediction": 9, "tune": 46, "alone": 13, "solo": 50, "pairs": 47, "equal": 53,
            "triplets": 150, "delays": 12, "ffs": 125, "spatial": 60, "torch": 200}
# Their policies decide by predictions: without models all programs would seem alike.
PREDICTED = {"pairs", "equal", "triplets", "ffs", "spatial", "delays"}
WHOLE = {"inputs", "prediction", "tune", "solo"}  # not mode by mode
GUESSED = {"inputs", "triplets", "spatial"}
MODES = ["_".join(mode) for mode in runs.MODES]
# The modes of pairs, equal and triplets, and of ffs, that most metrics need first.
VALUE_ORDER = [("cupola", "nomps"), ("plain", "mps"), ("cupola", "mps"), ("plain", "nomps")]
FFS_ORDER = [("cupola", "nomps"), ("plain", "nomps"), ("cupola", "mps"), ("plain", "mps")]
KERNELS = {"cfd": "Step", "nn": "Distances", "pf": "FindPaths", "pl": "Localise", "md": "Forces",
           "spmv": "Multiply", "mm": "MultiplyTiled", "va": "VectorAdd"}
RULES = {"high": {"priority": 10, "weight": 2}, "low": {"priority": 0, "weight": 1}}
DELAY_PAIRS = [("nn", "spmv"), ("cfd", "va"), ("pf", "md"), ("pl", "mm")]
DELAY_SHARES = [0, 0.25, 0.5, 0.75, 1.0, 1.25]  # of the low-priority kernel's time alone
EXTRA_SMS = [0, 8, 16, 32, 64]


class Evaluation:
    def __init__(self, bed, detail, repeats, seconds_left, every=1, facts=None, modes=None,
                 save=None, raw=None):
        """`every`: of the pairs and triplets, measure each so-many-th; `modes`: of them, these only
        ("cupola_nomps"); `facts`: of the machine and commit, kept with all that is measured; `raw`: keeps all
        samples (result_file.py)."""
        self.bed, self.detail, self.seconds_left, self.every = bed, detail, seconds_left, every
        self.facts, self.modes, self.save = facts or {}, modes, save
        self.raw = raw or result_file.RawSamples()
        self.sim = bed.device == "sim"
        self.repeats = 2 if self.sim else repeats
        self.failures = []
        self.began = seconds_left()  # when what is measured now was begun

    def fail(self, what, error):
        self.failures.append(f"{what}: {error}")
        print(f"flep: {self.failures[-1]}", file=sys.stderr, flush=True)

    def note(self, what):
        """Records on which machine, from which commit and when a section was measured that has just ended."""
        machine.note_measured(self.detail, what, self.facts, self.began - self.seconds_left())
        self.detail.setdefault("counts", {}).update(self.bed.counts)
        if self.save:
            self.save(metrics(self.detail), self.detail)

    def chosen(self, order):
        """Those modes of a section that are wanted, such as ("cupola", "nomps")."""
        return [mode for mode in order if self.modes is None or "_".join(mode) in self.modes]

    def limit(self, seconds):
        """Seconds that a play may take: not more than there are."""
        return max(5.0, min(seconds, self.seconds_left() - 5))

    @contextlib.contextmanager
    def mode(self, system, sharing, rules=RULES, policy="hpf", **settings):
        with contextlib.ExitStack() as stack:
            if sharing == "mps":
                stack.enter_context(self.bed.mps())
            if system == "cupola":
                stack.enter_context(self.bed.arbiter(corun.config(policy, rules, **settings)))
            yield

    def in_mode(self, name, coruns, system, sharing, labels, repeats=None, delays=None, loop=0,
                systems=None, **arbiter):
        """Measures co-runs in one mode; if that fails, says why and returns None. `systems`:
        {member: system} where not all are of `system`."""
        if self.seconds_left() < 20:
            self.fail(name, "no time left")
            return None
        self.began = self.seconds_left()
        self.bed.phase = name
        try:
            with self.mode(system, sharing, **arbiter):
                groups, sums = coruns.measure(self.bed, systems or system, labels,
                                              repeats or self.repeats, self.limit(150),
                                              runs.DELAY_US[sharing], delays, loop)
        except (corun.Failed, OSError, ValueError) as error:
            self.fail(name, error)
            return None
        known = self.detail.setdefault("checksums", {})
        for member, value in sums.items():
            if known.setdefault(member, value) != value:
                self.fail(name, f"{member}: checksum {value}, not {known[member]}")
        return groups

    def alone_us(self, member, sharing):
        """Turnaround of a (program, input) with the GPU for itself."""
        return self.detail["alone"][sharing]["_".join(member)]

    # Sections

    def inputs(self):
        """The time of each kernel alone on each of its inputs, by events, beside table 1's."""
        found = {}
        for program, which in itertools.product(runs.PROGRAMS, flep_calibrate.INPUTS):
            try:
                found[f"{program}_{which}"] = flep_calibrate.measure(
                    self.bed.build, self.bed.device, self.bed.environ, program, which)
            except (flep_calibrate.Failed, ValueError) as error:
                self.fail("inputs", error)
        before = self.detail.get("inputs", {})
        if any(row["size"] != before.get(name, {}).get("size") for name, row in found.items()):
            self.detail.pop("checksums", None)  # they were of other sizes
        self.detail["inputs"] = found

    def prediction(self):
        """Profiles each program over 100 random sizes and trains the duration models; fig. 7."""
        if os.path.exists(self.bed.profile):
            os.remove(self.bed.profile)
        sweep = ["--sweep", "8", "--scale", "2e-5"] if self.sim else ["--sweep", "100"]
        for number, name in enumerate(runs.PROGRAMS):
            self.attempt("prediction", [
                "profile", "--device", self.bed.device, "--out", self.bed.profile, "--",
                self.bed.program("flep_" + name), "--seed", str(number + 1), *sweep])
        errors = {}
        kernels = self.train()
        for kernel in kernels:
            for name, word in KERNELS.items():
                if is_kernel(kernel["name"], name, word):
                    errors[name] = round(kernel["mean_error_percent"], 3)
        self.detail["prediction"] = {"errors": errors, "kernels": kernels}
        if errors:
            self.detail["prediction"]["metrics"] = {
                "prediction_error_mean_pct": m.mean(errors.values()),
                "prediction_error_worst_pct": max(errors.values())}
        if len(errors) < len(KERNELS):
            self.fail("prediction", f"no model of {sorted(set(KERNELS) - set(errors))}")

    def tune(self):
        """Finds L of each kernel, and what stopping it costs, on its large input."""
        for name in runs.PROGRAMS:
            # Two runs: 75 launches are 6 each of plain, three L, two of them in both orders of
            # claims, with all workers and with five eighths, one with a worker less on each SM; and
            # as many to be interrupted.
            large = ["--input", "large", "--repeat", "74"]
            large += ["--scale", "0"] if self.sim else []
            self.attempt("tune", ["tune", "--device", self.bed.device, "--out", self.bed.profile,
                                  "--rounds", "1" if self.sim else "6", "--batches", "1", "4", "16",
                                  "--workers", "5",
                                  "--most-runs", "1" if self.sim else "2", "--interrupt-every", "2",
                                  "--", self.bed.program("flep_" + name), *large])
        found = {}
        for kernel in self.train():
            for name, word in KERNELS.items():
                if is_kernel(kernel["name"], name, word):
                    found[name] = {key: kernel[key] for key in (
                        "batch", "in_grid_order", "one_worker_less", "worker_eighths", "tuned",
                        "block_ns", "preemption_ns", "preemptions")}
        self.detail["tune"] = found

    def train(self):
        """Makes the plan of the profile, which programs use from now on; the kernels' reports."""
        text = self.tool(["train", self.bed.profile, "--out", self.bed.plan_file, "--json"])
        self.bed.plan = self.bed.plan_file
        return json.loads(text[text.index("{"):text.rindex("}") + 1])["kernels"]

    def attempt(self, section, arguments):
        """A tool on one program, if there is time; the section goes on with the others."""
        if self.seconds_left() < 20:
            self.fail(section, f"no time left for {arguments[-1]}")
            return
        try:
            self.tool(arguments)
        except corun.Failed as error:
            self.fail(section, error)

    def tool(self, arguments):
        code, text = self.bed.run_tool(arguments, self.limit(40))
        if code != 0:
            raise corun.Failed(f"cupola {arguments[0]}: {runner.describe_code(code)} {text[-400:]}")
        return text

    def alone(self):
        """Turnarounds of all inputs, each with the GPU for itself, in both ways of sharing."""
        groups = [[[(program, which)] for program in programs
                   for which in ("large", "small", "trivial")]
                  for programs in (runs.PROGRAMS[:4], runs.PROGRAMS[4:])]
        for sharing in ("nomps", "mps"):
            found = {}
            for singles in groups:
                row = 2 if self.sim else 4
                in_a_row = [single for single in singles for _ in range(row)]
                coruns = runs.CoRuns(in_a_row)
                got = self.in_mode(f"alone {sharing}", coruns, "plain", sharing, coruns.labels(),
                                   repeats=1 if self.sim else 4)
                for number in range(0, len(in_a_row) if got else 0, row):
                    # The first in a row finds the GPU in another context: not counted.
                    times = [runs.us(turn[0]) for each in got[number + 1:number + row]
                             for turn in each]
                    found["_".join(in_a_row[number][0])] = round(m.median(times), 1)
            if len(found) == sum(map(len, groups)):
                self.detail.setdefault("alone", {})[sharing] = found
                self.note(f"alone {sharing}")

    def solo(self):
        """Large kernels by themselves, original, preemptible and sliced in turns: fig. 17. Each process
        has the GPU for itself: beside 17 idle ones SPMV's variant took 3.6 % longer, not 0.3."""
        rules = {"solo": {"variant": "preemptible"}, "sliced": {"variant": "sliced"}}
        kinds = [("plain", "original"), ("cupola", "solo"), ("cupola", "sliced")]
        turns, launches = (1, 2) if self.sim else (3, 6)
        found, sums = {}, {}
        self.bed.phase = "solo"
        try:
            with self.mode("cupola", "nomps", rules=rules):
                for turn, program in itertools.product(range(turns), runs.PROGRAMS):
                    for system, label in kinds if turn % 2 == 0 else reversed(kinds):
                        party = runs.Party(program, "large", system, label)
                        got, (checksum,) = runs.play(self.bed, [party],
                                                     [runs.Round([(0, 0)], 0)] * launches,
                                                     self.limit(60))
                        times = found.setdefault(program, {}).setdefault(label, [])
                        times += [round(runs.us(each[0][0]), 1) for each in got[1:]]
                        if checksum != sums.setdefault(program, checksum):
                            self.fail("solo", f"{program} {label}: another checksum")
        except (corun.Failed, OSError, ValueError) as error:
            self.fail("solo", error)
        for program, label in itertools.product(found, ("original", "solo", "sliced")):
            self.raw.keep(f"solo {program} {label}", found[program].get(label, []))
        self.detail["solo"] = {program: {label: sampling.summary(us) for label, us in row.items()}
                               for program, row in found.items()}

    def turnarounds(self, section, coruns, labels, order=VALUE_ORDER, policy="hpf", name="cupola"):
        """Into detail[section]: {pair: {mode: what flep_results.summary_of_repeats gives}}. What an earlier call
        has measured in other modes stays. A policy's modes are called `name`."""
        found = self.detail.setdefault(section, {})
        for system, sharing in self.chosen(order):
            mode = f"{name if system == 'cupola' else system}_{sharing}"
            got = self.in_mode(f"{section} {mode.replace('_', ' ')}", coruns, system, sharing, labels,
                               policy=policy)
            for group, repetitions in zip(coruns.groups, got or [], strict=bool(got)):
                pair = "_".join(each[0] for each in group)
                turnarounds = [[round(runs.us(each), 1) for each in turn] for turn in repetitions]
                makespans = [round(runs.makespan_us(turn), 1) for turn in repetitions]
                self.raw.keep(f"{section} {pair} {mode}", {"turnaround": turnarounds, "makespan": makespans})
                found.setdefault(pair, {})[mode] = summary_of_repeats(turnarounds, makespans)
            if got:
                self.note(f"{section} {mode}")

    def pairs(self):
        coruns = runs.high_low_pairs().every(self.every)
        labels = coruns.labels(high=lambda member: member[1] == "small")
        self.turnarounds("pairs", coruns, labels)

    def equal(self):
        coruns = runs.equal_pairs().every(self.every)
        self.turnarounds("equal", coruns, coruns.labels())

    def triplets(self):
        coruns = runs.triplets().every(self.every)
        cupola = [("cupola", "nomps")]
        self.turnarounds("triplets", coruns, coruns.labels(), cupola)
        self.turnarounds("triplets", coruns, coruns.labels(), cupola, "ffs", "ffs")
        self.turnarounds("triplets", coruns, coruns.labels(),
                         [mode for mode in FFS_ORDER if mode not in cupola])
        self.turnarounds("triplets", coruns, coruns.labels(), cupola, "reorder", "reorder")

    def delays(self):
        """The high-priority kernel comes later and later: fig. 9."""
        groups, delays = [], []
        shares = DELAY_SHARES[::4 if self.every > 1 else 1]
        for low, high in DELAY_PAIRS[::self.every]:
            for share in shares:
                groups.append(((low, "large"), (high, "small")))
                delays.append(50 + share * self.alone_us((low, "large"), "mps"))
        coruns = runs.CoRuns(groups)
        labels = coruns.labels(high=lambda member: member[1] == "small")
        found = self.detail.setdefault("delays", {})
        for system, _ in self.chosen([("plain", "mps"), ("cupola", "mps")]):
            got = self.in_mode(f"delays {system}", coruns, system, "mps", labels, delays=delays)
            if not got:
                continue
            for number, repetitions in enumerate(got):
                row = found.setdefault("_".join(each[0] for each in groups[number]), {})
                if number % len(shares) == 0:
                    row.update({"share": shares, system: []})
                row[system].append(round(m.median(runs.us(turn[1]) for turn in repetitions), 1))
            self.note(f"delays {system}")

    def ffs(self, seconds=0.6, bins=10):
        """Both loop; the high one has weight 2: fig. 13 and 14."""
        coruns = runs.high_low_pairs().every(self.every)
        labels = coruns.labels(high=lambda member: member[1] == "small")
        seconds = 0.1 if self.sim else seconds
        found = self.detail.setdefault("ffs", {})
        self.detail["ffs_max_overhead"] = runs.FFS_OVERHEAD
        for system, sharing in self.chosen(FFS_ORDER):
            got = self.in_mode(f"ffs {system} {sharing}", coruns, system, sharing, labels,
                               repeats=1, loop=seconds, policy="ffs", max_overhead=runs.FFS_OVERHEAD)
            for group, repetitions in zip(coruns.groups, got or [], strict=bool(got)):
                pair, mode = "_".join(each[0] for each in group), f"{system}_{sharing}"
                shares = self.shares(group, sharing, repetitions[0], bins)
                self.raw.keep(f"ffs {pair} {mode}", shares)
                if system == "plain":
                    del shares["bins"]  # how soon a share is reached is asked of FFS only
                found.setdefault(pair, {})[mode] = shares
            if got:
                self.note(f"ffs {system}_{sharing}")

    def shares(self, group, sharing, loops, bins):
        """GPU time of (low, high) in each bin of a loop, and of all of it, as parts of the time."""
        start = max(launches[0].launch_ns for launches in loops)
        stop = min(launches[-1].launch_ns for launches in loops)
        alone = [self.alone_us(member, sharing) for member in group]
        edges = [start + (stop - start) * i // bins for i in range(bins + 1)]

        def parts(first, last):
            return [round(m.busy_us(launches, us, first, last) * 1000 / max(1, last - first), 4)
                    for launches, us in zip(loops, alone, strict=True)]
        return {"whole": parts(start, stop),
                "bins": [parts(a, b) for a, b in zip(edges, edges[1:])],
                "kernels": [len(launches) for launches in loops]}

    def spatial(self):
        """A trivial kernel comes and gets all SMs, or just enough (fig. 15), or more (fig. 16). In "unstopped" nobody
        asks the same variants to yield, and a plain program launches the trivial kernel, so that it runs behind them
        as MPS has it. The cost of a preemption is the time beyond that; what the variants themselves cost or gain is
        measured elsewhere (solo)."""
        coruns = runs.spatial_pairs().every(self.every)
        labels = coruns.labels(high=lambda member: member[1] == "trivial")
        variants = {**RULES, "low": {**RULES["low"], "variant": "preemptible"}}
        plain_high = {member: "plain" if label == "high" else "cupola"
                      for member, label in labels.items()}
        modes = {"plain": ("plain", {}), "temporal": ("cupola", {"spatial": False}),
                 "spatial": ("cupola", {"spatial": True}),
                 "unstopped": ("cupola", {"rules": variants, "systems": plain_high})}
        found = self.detail.setdefault("spatial", {})
        for name, (system, settings) in modes.items():
            if not self.chosen([(system, "mps")]):
                continue
            got = self.in_mode(f"spatial {name}", coruns, system, "mps", labels, **settings)
            for group, repetitions in zip(coruns.groups, got or [], strict=bool(got)):
                row = found.setdefault("_".join(each[0] for each in group), {})
                row[name] = {
                    "makespan": round(m.median(map(runs.makespan_us, repetitions)), 1),
                    "high": round(m.median(runs.us(turn[1]) for turn in repetitions), 1)}
            if got:
                self.note(f"spatial {name}")
        cases = runs.CoRuns([((low, "large"), (high, "trivial")) for low, high in
                                    (("cfd", "nn"), ("pf", "nn"), ("cfd", "md"), ("pf", "md"))])
        extra, more_sms = {}, EXTRA_SMS[::3 if self.every > 1 else 1]
        for sms in more_sms:
            got = self.in_mode(f"spatial +{sms} SMs", cases, "cupola", "mps",
                               cases.labels(high=lambda member: member[1] == "trivial"),
                               spatial=True, spatial_extra_sms=sms)
            for group, repetitions in zip(cases.groups, got or [], strict=bool(got)):
                row = extra.setdefault("_".join(each[0] for each in group), [])
                row.append(round(m.median(runs.us(turn[1]) for turn in repetitions), 1))
        if extra:
            self.detail["spatial_extra"] = {"sms": more_sms, "high": extra}
            self.note("spatial more SMs")

    def torch(self):
        """Training beside inference; launches without PTX."""
        python = machine.torch_python() if not self.sim else None
        if python is None:
            print("flep: torch: no PyTorch on this device, left out", file=sys.stderr)
            return
        torch_pair.measure(self, python)


def is_kernel(symbol, space, function):
    """Whether a symbol, mangled or not, is the function of that name in that namespace."""
    return (f"{len(space)}{space}{len(function)}{function}E" in symbol or
            f"{space}::{function}(" in symbol)


def sections_of(failure):
    return failure.split(":")[0].split(" ")[0]


def with_what_they_need(sections, has_alone, has_plan):
    """`sections`, preceded by those that measure what they need and what is not there yet."""
    if set(sections) - {"inputs", "solo", "torch", "prediction", "tune"} and not has_alone:
        sections = ["alone"] + [each for each in sections if each != "alone"]
    if set(sections) & PREDICTED and not has_plan:
        sections = ["prediction"] + [each for each in sections if each != "prediction"]
    if "prediction" in sections and "solo" in sections and "tune" not in sections:
        # prediction begins the profile anew, and the overhead that is judged is that of L as tuned.
        sections = list(sections)
        sections.insert(max(sections.index("prediction") + 1, sections.index("solo")), "tune")
    return sections


def measure(bed, sections, detail, repeats=10, seconds_left=lambda: 540.0, every=1, save=None,
            facts=None, modes=None, raw=None):
    """Runs `sections`, each into detail[section]; {"metrics", "detail", "good"}. Sections that need
    the times alone measure them first where `detail` has none, those that need models train them
    first where there are none. What `detail` holds of an earlier call
    and is not measured now stays, and detail["measured"] says of all where it is from. `save` gets
    the result so far whenever there is more. `modes`, `raw`: see Evaluation."""
    sections = with_what_they_need(sections, len(detail.get("alone", {})) >= 2,
                                   os.path.exists(bed.plan_file))
    earlier = [each for each in detail.get("failures", []) if sections_of(each) not in sections]
    evaluation = Evaluation(bed, detail, repeats, seconds_left, every, facts, modes, save, raw)
    if set(sections) - {"inputs", "alone", "torch", "prediction"}:
        try:
            detail["build"] = bed.build_variants(["flep_" + name for name in runs.PROGRAMS])
        except corun.Failed as error:
            evaluation.fail("build", error)
    bed.plan = bed.plan_file if os.path.exists(bed.plan_file) else None
    needed = sum(SECTIONS[section] for section in sections)
    print(f"flep: about {needed} s wanted, {seconds_left():.0f} s there", file=sys.stderr, flush=True)
    for section in sections:
        if seconds_left() < 20:
            evaluation.fail(section, "no time left")
            continue
        before, failed = seconds_left(), len(evaluation.failures)
        evaluation.began = before
        try:
            getattr(evaluation, section)()
            if section in detail and section in WHOLE and failed == len(evaluation.failures):
                evaluation.note(section)
        except (corun.Failed, OSError, KeyError, ValueError) as error:
            evaluation.fail(section, repr(error))
        detail.setdefault("seconds", {})[section] = round(before - seconds_left(), 1)
        detail.setdefault("counts", {}).update(bed.counts)
        detail["failures"] = earlier + evaluation.failures
        if save:
            save(metrics(detail), detail)
    detail["failures"] = earlier + evaluation.failures
    return {"metrics": metrics(detail), "detail": detail, "good": not evaluation.failures}
