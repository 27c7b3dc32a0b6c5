"""FLEP's evaluation (ASPLOS 2017, section 6) for Cupola on this machine: scripts/bench flep.

Each section measures plain CUDA and Cupola with the same programs and the same scripts of rounds,
and leaves its raw figures in detail[section]; metrics() makes the metrics of all sections there are,
so that sections may be measured in several runs. Standard library only."""
import contextlib
import json
import os
import statistics
import sys

import corun
import flep_metrics as m
import flep_runs as runs
import machine
import runner
import torch_pair

# In the order they are measured: what "prediction" and "tune" find serves the sections after them.
SECTIONS = ["prediction", "tune", "alone", "solo", "pairs", "equal", "triplets", "delays", "ffs",
            "spatial", "torch"]
KERNELS = {"cfd": "Step", "nn": "Distances", "pf": "FindPaths", "pl": "Localise", "md": "Forces",
           "spmv": "Multiply", "mm": "MultiplyTiled", "va": "VectorAdd"}
RULES = {"high": {"priority": 10, "weight": 2}, "low": {"priority": 0, "weight": 1}}
# After the launch before, so that its kernel runs: without MPS the GPU changes context first.
DELAY_US = {"mps": 50, "nomps": 300}
FFS_OVERHEAD = 0.10  # max_overhead, as the paper has it
DELAY_PAIRS = [("nn", "spmv"), ("cfd", "va"), ("pf", "md"), ("pl", "mm")]
DELAY_SHARES = [0, 0.25, 0.5, 0.75, 1.0, 1.25]  # of the low-priority kernel's time alone
EXTRA_SMS = [0, 8, 16, 32, 64]


class Evaluation:
    def __init__(self, bed, detail, repeats, seconds_left, every=1):
        """`every`: of the pairs and triplets, measure each so-many-th."""
        self.bed, self.detail, self.seconds_left, self.every = bed, detail, seconds_left, every
        self.sim = bed.device == "sim"
        self.repeats = 2 if self.sim else repeats
        self.failures = []

    def fail(self, what, error):
        self.failures.append(f"{what}: {error}")
        print(f"flep: {self.failures[-1]}", file=sys.stderr, flush=True)

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
                **arbiter):
        """Measures co-runs in one mode; None, with a word of why, where that fails."""
        if self.seconds_left() < 20:
            self.fail(name, "no time left")
            return None
        self.bed.phase = name
        try:
            with self.mode(system, sharing, **arbiter):
                groups, sums = coruns.measure(self.bed, system, labels, repeats or self.repeats,
                                              self.limit(150), DELAY_US[sharing], delays, loop)
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

    def prediction(self):
        """Profiles each program over 100 random sizes and trains the duration models; fig. 7."""
        if os.path.exists(self.bed.profile):
            os.remove(self.bed.profile)
        sweep = ["--sweep", "8", "--scale", "2e-5"] if self.sim else ["--sweep", "100"]
        for number, name in enumerate(runs.PROGRAMS):
            self.tool(["profile", "--device", self.bed.device, "--out", self.bed.profile, "--",
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
            large = ["--input", "large", "--repeat", "8"] if not self.sim else ["--scale", "0"]
            self.tool(["tune", "--device", self.bed.device, "--out", self.bed.profile, "--rounds",
                       "1", "--batches", "1", "4", "16", "64", "--most-runs", "3", "--preemptions",
                       "5" if self.sim else "50", "--", self.bed.program("flep_" + name), *large])
        found = {}
        for kernel in self.train():
            for name, word in KERNELS.items():
                if is_kernel(kernel["name"], name, word):
                    found[name] = {key: kernel[key] for key in ("batch", "tuned", "block_ns",
                                                                "preemption_ns")}
        self.detail["tune"] = found

    def train(self):
        """Makes the plan of the profile, which programs use from now on; the kernels' reports."""
        text = self.tool(["train", self.bed.profile, "--out", self.bed.plan_file, "--json"])
        self.bed.plan = self.bed.plan_file
        return json.loads(text[text.index("{"):text.rindex("}") + 1])["kernels"]

    def tool(self, arguments):
        code, text = self.bed.run_tool(arguments, self.limit(60))
        if code != 0:
            raise corun.Failed(f"cupola {arguments[0]}: {runner.describe_code(code)} {text[-400:]}")
        return text

    def alone(self):
        """Turnarounds of all inputs, each with the GPU for itself, in both ways of sharing."""
        found = {}
        groups = [[[(program, which)] for program in programs
                   for which in ("large", "small", "trivial")]
                  for programs in (runs.PROGRAMS[:4], runs.PROGRAMS[4:])]
        for sharing in ("nomps", "mps"):
            found[sharing] = {}
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
                    found[sharing]["_".join(in_a_row[number][0])] = round(m.median(times), 1)
        self.detail["alone"] = found

    def solo(self):
        """Large kernels by themselves, original, preemptible and sliced in turns: fig. 17."""
        rules = {"solo": {"variant": "preemptible"}, "sliced": {"variant": "sliced"}}
        kinds = [("plain", "original"), ("cupola", "solo"), ("cupola", "sliced")]
        repeats, row_length = (1, 2) if self.sim else (5, 4)
        found = {}
        for programs in (["nn", "va"], ["cfd", "pf", "pl", "md", "spmv", "mm"]):
            parties = [runs.Party(program, "large", system, label)
                       for program in programs for system, label in kinds]
            rounds = [runs.Round([(number, 0)], 0) for _ in range(repeats)
                      for number in range(len(parties)) for _ in range(row_length)]
            self.bed.phase = "solo"
            try:
                with self.mode("cupola", "nomps", rules=rules):
                    got, sums = runs.play(self.bed, parties, rounds, self.limit(120))
            except (corun.Failed, OSError, ValueError) as error:
                self.fail("solo", error)
                continue
            for number, party in enumerate(parties):
                times = [runs.us(turn[number][0]) for place, turn in enumerate(got)
                         if number in turn and place % row_length > 0]
                row = found.setdefault(party.program, {})
                row[party.label] = [round(us, 1) for us in times]
                if sums[number] != sums[number - number % 3]:
                    self.fail("solo", f"{party.program} {party.label}: another checksum")
        self.detail["solo"] = found

    def two_modes_pairs(self, name, coruns, labels, policy="hpf"):
        """All four modes: {pair: {mode: {"turnaround": [[us, us], ...], "makespan": [us, ...]}}}."""
        found = {"_".join(each[0] for each in group): {} for group in coruns.groups}
        for system, sharing in runs.MODES:
            got = self.in_mode(f"{name} {system} {sharing}", coruns, system, sharing, labels,
                               policy=policy)
            for group, repetitions in zip(coruns.groups, got or [], strict=bool(got)):
                found["_".join(each[0] for each in group)][f"{system}_{sharing}"] = {
                    "turnaround": [[round(runs.us(each), 1) for each in turn]
                                   for turn in repetitions],
                    "makespan": [round(runs.makespan_us(turn), 1) for turn in repetitions]}
        return found

    def pairs(self):
        coruns = runs.high_low_pairs().every(self.every)
        labels = coruns.labels(high=lambda member: member[1] == "small")
        self.detail["pairs"] = self.two_modes_pairs("pairs", coruns, labels)

    def equal(self):
        coruns = runs.equal_pairs().every(self.every)
        self.detail["equal"] = self.two_modes_pairs("equal", coruns, coruns.labels())

    def triplets(self):
        coruns = runs.triplets().every(self.every)
        found = self.two_modes_pairs("triplets", coruns, coruns.labels())
        for policy in ("ffs", "reorder"):
            got = self.in_mode(f"triplets {policy}", coruns, "cupola", "nomps", coruns.labels(),
                               policy=policy)
            for group, repetitions in zip(coruns.groups, got or [], strict=bool(got)):
                found["_".join(each[0] for each in group)][policy + "_nomps"] = {
                    "turnaround": [[round(runs.us(each), 1) for each in turn]
                                   for turn in repetitions],
                    "makespan": [round(runs.makespan_us(turn), 1) for turn in repetitions]}
        self.detail["triplets"] = found

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
        found = {}
        for system in ("plain", "cupola"):
            got = self.in_mode(f"delays {system}", coruns, system, "mps", labels, delays=delays)
            for number, repetitions in enumerate(got or []):
                pair = "_".join(each[0] for each in groups[number])
                row = found.setdefault(pair, {"share": shares}).setdefault(system, [])
                row.append(round(m.median(runs.us(turn[1]) for turn in repetitions), 1))
        self.detail["delays"] = found

    def ffs(self, seconds=0.6, bins=10):
        """Both loop; the high one has weight 2: fig. 13 and 14."""
        coruns = runs.high_low_pairs().every(self.every)
        labels = coruns.labels(high=lambda member: member[1] == "small")
        seconds = 0.1 if self.sim else seconds
        found = {}
        for system, sharing in runs.MODES:
            got = self.in_mode(f"ffs {system} {sharing}", coruns, system, sharing, labels,
                               repeats=1, loop=seconds, policy="ffs", max_overhead=FFS_OVERHEAD)
            for group, repetitions in zip(coruns.groups, got or [], strict=bool(got)):
                row = found.setdefault("_".join(each[0] for each in group), {})
                row[f"{system}_{sharing}"] = self.shares(group, sharing, repetitions[0], bins)
        self.detail["ffs"] = found

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
        """A trivial kernel comes: give it all SMs, or just enough (fig. 15), or more (fig. 16)."""
        coruns = runs.spatial_pairs().every(self.every)
        labels = coruns.labels(high=lambda member: member[1] == "trivial")
        modes = {"plain": ("plain", {}), "temporal": ("cupola", {"spatial": False}),
                 "spatial": ("cupola", {"spatial": True})}
        found = {}
        for name, (system, settings) in modes.items():
            got = self.in_mode(f"spatial {name}", coruns, system, "mps", labels, **settings)
            for group, repetitions in zip(coruns.groups, got or [], strict=bool(got)):
                row = found.setdefault("_".join(each[0] for each in group), {})
                row[name] = {
                    "makespan": round(m.median(map(runs.makespan_us, repetitions)), 1),
                    "high": round(m.median(runs.us(turn[1]) for turn in repetitions), 1)}
        self.detail["spatial"] = found
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
        self.detail["spatial_extra"] = {"sms": more_sms, "high": extra}

    def torch(self):
        """Training beside inference; launches without PTX."""
        python = machine.torch_python() if not self.sim else None
        if python is None:
            print("flep: torch: no PyTorch on this device, left out", file=sys.stderr)
            return
        self.detail["torch"] = torch_pair.measure(self, python)


def is_kernel(symbol, space, function):
    """Whether a symbol, mangled or not, is the function of that name in that namespace."""
    return (f"{len(space)}{space}{len(function)}{function}E" in symbol or
            f"{space}::{function}(" in symbol)


def medians(row, mode):
    """Of a pair's repetitions in a mode: ([median turnaround of each member], median makespan)."""
    found = row.get(mode)
    if not found or not found["turnaround"]:
        return None
    return ([statistics.median(each) for each in zip(*found["turnaround"], strict=True)],
            statistics.median(found["makespan"]))


def metrics(detail):
    """All metrics that the sections in `detail` allow."""
    found = {}
    for part in (pair_metrics, equal_metrics, triplet_metrics, ffs_metrics, solo_metrics,
                 spatial_metrics):
        try:
            found.update(part(detail))
        except KeyError as error:  # a section it needs could not be measured
            print(f"flep: {part.__name__}: nothing for {error}", file=sys.stderr)
    for key in ("prediction", "torch"):
        found.update(detail.get(key, {}).get("metrics", {}))
    return {key: round(value, 4) for key, value in found.items()}


def alone_of(detail, sharing, names, inputs):
    return [detail["alone"][sharing][f"{name}_{which}"]
            for name, which in zip(names, inputs, strict=True)]


def pair_metrics(detail):
    speedups = {"mps": [], "nomps": []}
    fractions = []
    for pair, row in detail.get("pairs", {}).items():
        names = pair.split("_")
        for sharing, values in speedups.items():
            plain, cupola = (medians(row, f"{each}_{sharing}") for each in ("plain", "cupola"))
            if plain and cupola:
                values.append(plain[0][1] / cupola[0][1])
        cupola = medians(row, "cupola_nomps")
        if cupola:
            alone = alone_of(detail, "nomps", names, ("large", "small"))[1]
            fractions.append(m.ceiling_fraction(alone, cupola[0][1]))
    found = {}
    if speedups["mps"]:
        found["pairs_hp_speedup_mean_mps"] = m.mean(speedups["mps"])
    if speedups["nomps"]:
        found["pairs_hp_speedup_mean_timeslice"] = m.mean(speedups["nomps"])
    if fractions:
        found["pairs_hp_ceiling_fraction_timeslice"] = m.mean(fractions)
    return found


def equal_metrics(detail):
    fractions, losses, better = [], {"mps": [], "nomps": []}, {"mps": [], "nomps": []}
    for pair, row in detail.get("equal", {}).items():
        names = pair.split("_")
        for sharing in losses:
            plain, cupola = (medians(row, f"{each}_{sharing}") for each in ("plain", "cupola"))
            if not plain or not cupola:
                continue
            alone = alone_of(detail, sharing, names, ("large", "small"))
            losses[sharing].append(m.throughput_loss_pct(plain[1], cupola[1]))
            better[sharing].append(m.antt(plain[0], alone) / m.antt(cupola[0], alone))
            if sharing == "nomps":
                fractions.append(m.least_antt(alone) / m.antt(cupola[0], alone))
    found = {}
    if fractions:
        found["pairs_antt_ceiling_fraction"] = m.mean(fractions)
    for sharing, name in (("mps", ""), ("nomps", "_timeslice")):
        if losses[sharing]:
            found["stp_loss_pct" + name] = m.mean(losses[sharing])
            found["pairs_antt_improvement_mean" + (name or "_mps")] = m.mean(better[sharing])
    return found


def triplet_metrics(detail):
    fractions, better = [], {"cupola_mps": [], "cupola_nomps": [], "ffs_nomps": [],
                             "reorder_nomps": []}
    for triplet, row in detail.get("triplets", {}).items():
        names, inputs = triplet.split("_"), ("large", "small", "small")
        for mode, values in better.items():
            sharing = mode.split("_")[1]
            plain, cupola = medians(row, "plain_" + sharing), medians(row, mode)
            if not plain or not cupola:
                continue
            alone = alone_of(detail, sharing, names, inputs)
            values.append(m.antt(plain[0], alone) / m.antt(cupola[0], alone))
            if mode == "cupola_nomps":
                fractions.append(m.least_antt(alone) / m.antt(cupola[0], alone))
    found = {}
    if fractions:
        found["triplets_antt_ceiling_fraction"] = m.mean(fractions)
    for mode, values in better.items():
        if values:
            found[f"triplets_antt_improvement_mean_{mode}"] = m.mean(values)
    return found


def ffs_metrics(detail):
    shares = {"mps": [], "nomps": []}
    losses = {"mps": [], "nomps": []}
    for row in detail.get("ffs", {}).values():
        for sharing in shares:
            plain, cupola = row.get("plain_" + sharing), row.get("cupola_" + sharing)
            if cupola and sum(cupola["whole"]) > 0:
                shares[sharing].append(m.share_pct(cupola["whole"][1], cupola["whole"][:1]))
            if cupola and plain and sum(plain["whole"]) > 0:
                losses[sharing].append(100 * (1 - sum(cupola["whole"]) / sum(plain["whole"])))
    found = {}
    for sharing, name in (("nomps", ""), ("mps", "_mps")):
        if shares[sharing]:
            found["ffs_share_high_pct" + name] = m.mean(shares[sharing])
            worst = max(shares[sharing], key=lambda share: abs(share - 200 / 3))
            found["ffs_share_high_worst_pct" + name] = worst
        if losses[sharing]:
            found["ffs_throughput_loss_pct" + name] = m.mean(losses[sharing])
    return found


def ran_preemptible(detail, phase):
    """Whether launches of that phase went out as preemptible variants."""
    return detail.get("counts", {}).get(phase, {}).get("launches preemptible", 0) > 0


def solo_metrics(detail):
    overheads = {"solo": [], "sliced": []}
    for row in detail.get("solo", {}).values():
        for label, values in overheads.items():
            if label == "sliced" and ran_preemptible(detail, "solo sliced"):
                continue  # it says nothing of slices
            if row.get("original") and row.get(label):
                values.append(100 * (statistics.median(row[label]) /
                                     statistics.median(row["original"]) - 1))
    found = {}
    if overheads["solo"]:
        found["solo_overhead_mean_pct"] = m.mean(overheads["solo"])
        found["solo_overhead_worst_pct"] = max(overheads["solo"])
    if overheads["sliced"]:
        found["slicing_overhead_mean_pct"] = m.mean(overheads["sliced"])
    return found


def spatial_metrics(detail):
    modes = ("plain", "temporal", "spatial")
    cuts = [m.overhead_cut_pct(*(row[mode]["makespan"] for mode in modes))
            for row in detail.get("spatial", {}).values() if len(row) == 3]
    return {"spatial_overhead_cut_pct": m.mean(cuts)} if cuts else {}


def measure(bed, sections, detail, repeats=10, seconds_left=lambda: 540.0, every=1, save=None):
    """Runs `sections`, each into detail[section]; {"metrics", "detail", "good"}. Sections that need
    the times alone measure them first where `detail` has none. `save` gets the result so far after
    each section."""
    evaluation = Evaluation(bed, detail, repeats, seconds_left, every)
    if set(sections) - {"alone", "torch"}:
        try:
            detail["build"] = bed.build_variants(["flep_" + name for name in runs.PROGRAMS])
        except corun.Failed as error:
            evaluation.fail("build", error)
    bed.plan = bed.plan_file if os.path.exists(bed.plan_file) else None
    if set(sections) - {"solo", "torch", "prediction", "tune"} and "alone" not in detail:
        sections = ["alone"] + [each for each in sections if each != "alone"]
    for section in sections:
        if seconds_left() < 20:
            evaluation.fail(section, "no time left")
            continue
        before = seconds_left()
        try:
            getattr(evaluation, section)()
        except (corun.Failed, OSError, KeyError, ValueError) as error:
            evaluation.fail(section, repr(error))
        detail.setdefault("seconds", {})[section] = round(before - seconds_left(), 1)
        detail.setdefault("counts", {}).update(bed.counts)
        detail["failures"] = evaluation.failures
        if save:
            save(metrics(detail), detail)
    detail["failures"] = evaluation.failures
    return {"metrics": metrics(detail), "detail": detail, "good": not evaluation.failures}
