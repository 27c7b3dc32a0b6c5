"""The metrics of FLEP's evaluation from what flep.py has measured (the "detail" of flep.json). Pure
functions."""
import statistics
import sys

import flep_metrics as m
from flep_runs import DELAY_US


def parts_of(detail, section):
    """The modes in which a section was measured; [""] if it has no modes."""
    found = detail.get(section, {})
    if section in ("pairs", "equal", "triplets", "ffs", "spatial", "delays"):
        return sorted({mode for row in found.values() for mode in row} - {"share"})
    if section == "alone":
        return list(found)
    if section == "torch":
        return list(found.get("detail", {}))
    return [""] if found else []


def adopt(result):
    """Takes over the detail of an earlier flep.json; facts that it lacks for its parts are those of the whole."""
    detail = result["detail"]
    fact = {"gpu": result["machine"].get("gpu"), "commit": result["commit"], "date": result["date"]}
    measured = detail.setdefault("measured", {})
    known = {what.split(" ")[0] for what in measured}
    for section, seconds in detail.get("seconds", {}).items():
        parts = parts_of(detail, section) if section not in known else []
        for part in parts:
            measured[f"{section} {part}".strip()] = {**fact,
                                                     "seconds": round(seconds / len(parts), 1)}
    return detail


def summary_of_repeats(turnarounds, makespans):
    """What a co-run's row keeps of its repetitions in a mode, microseconds: the median and the most of each member's
    turnaround and of the makespan. `turnarounds`: of each repetition those of all members."""
    members = list(zip(*turnarounds, strict=True))
    return {"repeats": len(makespans),
            "turnaround": [round(statistics.median(each), 3) for each in members],
            "turnaround_most": [max(each) for each in members],
            "makespan": round(statistics.median(makespans), 3) if makespans else None,
            "makespan_most": max(makespans, default=None)}


def medians(row, mode):
    """For a pair's repetitions in a mode: ([median turnaround of each member], median makespan)."""
    found = row.get(mode)
    return (found["turnaround"], found["makespan"]) if found and found["repeats"] else None


def slowdown_pct(row, label):
    """How much longer a program's kernel took by itself in that form than in its original one, by medians; None
    where one of them was not measured."""
    found = [(row.get(each) or {}).get("p50") for each in (label, "original")]
    return 100 * (found[0] / found[1] - 1) if all(found) else None


def metrics(detail):
    """All metrics that the sections in `detail` allow."""
    found = {}
    for part in (input_metrics, pair_metrics, equal_metrics, triplet_metrics, ffs_metrics, solo_metrics,
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
                fractions.append(m.least_antt(alone, DELAY_US["nomps"]) / m.antt(cupola[0], alone))
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
                fractions.append(m.least_antt(alone, DELAY_US["nomps"]) / m.antt(cupola[0], alone))
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
            slowdown = slowdown_pct(row, label)
            if slowdown is not None:
                values.append(slowdown)
    found = {}
    if overheads["solo"]:
        found["solo_overhead_mean_pct"] = m.mean(overheads["solo"])
        found["solo_overhead_worst_pct"] = max(overheads["solo"])
    if overheads["sliced"]:
        found["slicing_overhead_mean_pct"] = m.mean(overheads["sliced"])
    return found


def spatial_overheads(detail, base):
    """{large kernel: [(temporal, spatial), ...]}: the preemption overhead of each of its co-runs,
    percent of the time in the mode `base` (section 6.1: (T - T_org) / T_org)."""
    found = {}
    for pair, row in detail.get("spatial", {}).items():
        if {base, "temporal", "spatial"} <= set(row):
            found.setdefault(pair.split("_")[0], []).append(tuple(
                100 * (row[mode]["makespan"] / row[base]["makespan"] - 1)
                for mode in ("temporal", "spatial")))
    return found


def input_metrics(detail):
    """The largest deviation of the ratio of two inputs' times alone from that of table 1."""
    ratios = [row["us"] / row["target_us"] for row in detail.get("inputs", {}).values()]
    return {"table1_ratio_worst_pct": 100 * (max(ratios) / min(ratios) - 1)} if ratios else {}


def spatial_metrics(detail):
    """The mean overhead over all co-runs, and by how much yielding some SMs cuts it: a large kernel
    that stopping costs next to nothing does not decide. Measured against the same variants, whom nobody
    asks, and (`_of_plain`) against the original kernels."""
    found = {}
    for base, suffix in (("unstopped", ""), ("plain", "_of_plain")):
        rows = [row for each in spatial_overheads(detail, base).values() for row in each]
        if not rows:
            continue
        temporal, spatial = (m.mean(column) for column in zip(*rows, strict=True))
        found[f"temporal_overhead_pct{suffix}"] = temporal
        found[f"spatial_overhead_pct{suffix}"] = spatial
        found[f"spatial_overhead_cut_pct{suffix}"] = (
            100 * (1 - spatial / temporal) if temporal > 0 else 0.0)  # nothing there to cut
    return found
