#!/usr/bin/env python3
"""Writes docs/results/flep.md and its charts from flep.json and preemption.json, both written by
scripts/bench. Run on any machine: scripts/bench plots. Standard library only, but for drawing (charts.py)."""
import json
import math
import os
import statistics

import charts as charts_of
import flep_metrics as m
import flep_results
import flep_runs as runs

TARGETS = {  # what the metrics should reach: (comparison, number)
    "table1_ratio_worst_pct": ("<=", 20),
    "pairs_hp_speedup_mean_mps": (">=", 12), "pairs_hp_ceiling_fraction_timeslice": (">=", 0.9),
    "pairs_antt_ceiling_fraction": (">=", 0.9), "triplets_antt_ceiling_fraction": (">=", 0.9),
    "stp_loss_pct": ("<=", 2), "stp_loss_pct_timeslice": ("<=", 2),
    "ffs_share_high_pct": ("66.7 +-", 2), "ffs_share_high_pct_mps": ("66.7 +-", 2),
    "solo_overhead_mean_pct": ("<=", 0.5), "solo_overhead_worst_pct": ("<=", 2),
    "spatial_overhead_cut_pct": (">=", 31), "prediction_error_mean_pct": ("<=", 4),
    "torch_train_rate_ratio": (">=", 0.95), "torch_train_rate_ratio_mps": (">=", 0.95),
}
PAPER = {  # the paper's own figures, on a K40
    "pairs_hp_speedup_mean_mps": 10.1, "pairs_antt_improvement_mean_mps": 8, "stp_loss_pct": 5.4,
    "triplets_antt_improvement_mean_cupola_mps": 6.6, "ffs_share_high_pct": 66.7,
    "solo_overhead_mean_pct": 2.5, "slicing_overhead_mean_pct": 8, "spatial_overhead_cut_pct": 31,
    "prediction_error_mean_pct": 6.9,
}
LIMITS = {"nomps_20us": (170, 210), "nomps_200us": (330, 385), "mps_20us": (38, 55),
          "mps_200us": (160, 200)}


def gate_quantum_us(detail, sharing):
    """The longest time between two gates of a training that is gated: the longest of all runs of as many of a step's
    kernels as it launches for one gate, which nothing can stop. None: it is not stored."""
    counts = detail.get("counts", {}).get(f"torch cupola_{sharing} low", {})
    row = detail.get("torch", {}).get("detail", {}).get("plain_" + sharing, {})
    kernels_us = row.get("train_kernels_us")
    if not kernels_us or not counts.get("gates"):
        return None
    launches = sum(number for name, number in counts.items() if name.startswith("launches "))
    every = math.ceil(round(launches / counts["gates"], 2))  # some launch before gates may hold
    around = kernels_us + kernels_us[:every - 1]  # the step after it is the same
    return max(sum(around[i:i + every]) for i in range(len(kernels_us)))


def targets_of(metrics, detail):
    """TARGETS, and the targets that follow from what was measured. A number of None is not known; the text says what
    is missing."""
    found = dict(TARGETS)
    # Results that do not store it are of the same setting, since there was no other.
    loss = round(100 * detail.get("ffs_max_overhead", runs.FFS_OVERHEAD), 1)
    for suffix, sharing, switch_us in (("", "nomps", m.SWITCH_US), ("_mps", "mps", 0)):
        found["ffs_throughput_loss_pct" + suffix] = ("<=", loss)
        alone = metrics.get("torch_infer_p99_us_alone" + suffix)
        if alone is None:
            continue
        quantum = gate_quantum_us(detail, sharing)
        found["torch_infer_p99_us_cupola" + suffix] = (
            (f"<= {alone + switch_us:g} + a gate quantum, which is not stored", None)
            if quantum is None else ("<=", round(alone + switch_us + quantum, 1)))
    return found


def meets(target, value):
    how, number = target
    if number is None:
        return None
    if how == ">=":
        return value >= number
    return value <= number if how == "<=" else abs(value - 200 / 3) <= number


def verdict(good):
    return {None: "", True: "yes", False: "**no**"}[good]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def fact_line(result):
    """The machine, and the code and time; where sections have their own, a table below says which."""
    facts = result["machine"]
    when = f"{result['date']}; commit {str(result['commit'])[:12]}."
    if result["detail"].get("measured"):
        when = "each section at a time and of a commit of its own, see \"What is from when\"."
    return (f"{facts['gpu']}; {facts['cuda_driver']}; {facts['cpu']}, {facts['cpus']} "
            f"processors; {when}")


def measured_rows(detail):
    """The rows on where each section's figures are from; sections of one call that took all its modes share a row."""
    rows = {}
    for what, fact in detail.get("measured", {}).items():
        key = (what.split(" ")[0], fact["gpu"], str(fact["commit"])[:12], fact["date"])
        rows[key] = rows.get(key, 0) + fact["seconds"]
    times = {}
    for section, *_ in rows:
        times[section] = times.get(section, 0) + 1
    for (section, gpu, commit, date), seconds in rows.items():
        which = [what.split(" ", 1)[1] for what, fact in detail["measured"].items()
                 if what.startswith(section + " ") and fact["date"] == date]
        name = f"{section}: {', '.join(which)}" if times[section] > 1 else section
        yield name, str(gpu).split(",")[0], commit, date, f"{seconds:.0f}"


def metric_rows(metrics, detail):
    targets = targets_of(metrics, detail)
    for name, value in metrics.items():
        target = targets.get(name)
        wanted = " ".join(str(part) for part in target or () if part is not None)
        reached = verdict(meets(target, value)) or "not known" if target else ""
        yield f"`{name}`", f"{value:g}", wanted, PAPER.get(name, ""), reached


def preemption_rows(metrics):
    for key, (p50, p99) in LIMITS.items():
        row = [key.replace("nomps", "no MPS").replace("mps", "MPS").replace("_", ", ")]
        for system in ("plain", "cupola"):
            row += [metrics.get(f"hp_{p}_us_{system}_{key}", "-") for p in ("p50", "p99")]
        mine = row[-2:]
        row.append(f"<= {p50} / {p99}")
        row.append(metrics.get("batch_rate_ratio_" + key, "-"))
        good = None if "-" in mine else mine[0] <= p50 and mine[1] <= p99
        row.append(verdict(good if row[-1] == "-" or not good else row[-1] >= 0.98))
        yield row


# Charts: each returns (file name, chart), or None where its section was not measured.

PAIR = "pair of kernels: low priority_high priority"
NO_GAIN = (1, "no faster, no slower")


def ratio_chart(detail, section, sharing, name, title, member, ceiling=True):
    """Of every pair: how many times shorter `member`'s turnaround is than plain's."""
    labels, reached, possible = [], [], []
    for pair, row in detail.get(section, {}).items():
        plain, cupola = (flep_results.medians(row, f"{system}_{sharing}") for system in ("plain", "cupola"))
        if not plain or not cupola:
            continue
        alone = detail["alone"][sharing][f"{pair.split('_')[member]}_small"]
        labels.append(pair)
        reached.append(plain[0][member] / cupola[0][member])
        possible.append(plain[0][member] / (alone + (0 if sharing == "mps" else m.SWITCH_US)))
    series = {"under Cupola": reached}
    if ceiling:
        series["most that is possible"] = possible
    return (name, charts_of.Bars(title, "turnaround, times shorter", PAIR, labels, series,
                                 NO_GAIN)) if labels else None


def antt_chart(detail, section, modes, name, title, across):
    """`modes` is [(name shown, mode, what it is compared with, way of sharing)]."""
    labels = list(detail.get(section, {}))
    series = {}
    for shown, mode, against, sharing in modes:
        values = []
        for label in labels:
            row = detail[section][label]
            plain, other = flep_results.medians(row, against), flep_results.medians(row, mode)
            names = label.split("_")
            inputs = ["large"] + ["small"] * (len(names) - 1)
            alone = flep_results.alone_of(detail, sharing, names, inputs)
            values.append(m.antt(plain[0], alone) / m.antt(other[0], alone)
                          if plain and other else None)
        if any(value is not None for value in values):
            series[shown] = values
    return (name, charts_of.Bars(title, "times lower than without Cupola (logarithmic)", across, labels, series,
                                 NO_GAIN, True)) if series else None


def loss_chart(detail):
    labels, losses = [], []
    for pair, row in detail.get("equal", {}).items():
        plain, cupola = flep_results.medians(row, "plain_mps"), flep_results.medians(row, "cupola_mps")
        if plain and cupola:
            labels.append(pair)
            losses.append(m.throughput_loss_pct(plain[1], cupola[1]))
    return ("fig11_stp_loss.svg", charts_of.Bars(
        "Throughput that preemption costs, under MPS (FLEP, figure 11)", "throughput lost, %",
        "pair of kernels: long_short", labels, {"loss": losses})) if labels else None


def delay_chart(detail):
    series = {}
    for pair, row in detail.get("delays", {}).items():
        if "plain" in row and "cupola" in row:
            series[pair] = [(share, plain / cupola) for share, plain, cupola in
                            zip(row["share"], row["plain"], row["cupola"], strict=True)]
    return ("fig9_delays.svg", charts_of.Lines(
        "Speed-up over MPS of a kernel that comes later (FLEP, figure 9)", "turnaround, times shorter",
        "delay, as part of the time that the low-priority kernel takes alone", series, None,
        NO_GAIN)) if series else None


def share_chart(detail):
    names = ("high priority (weight 2)", "low priority (weight 1)")
    by_bin = {name: [] for name in names}
    for row in detail.get("ffs", {}).values():
        found = row.get("cupola_nomps") or row.get("cupola_mps")
        for number, (low, high) in enumerate(found["bins"] if found else []):
            for name, part in zip(names, (high, low)):
                while len(by_bin[name]) <= number:
                    by_bin[name].append([])
                by_bin[name][number].append(100 * part / ((low + high) or 1))
    if not by_bin[names[0]]:
        return None
    lines = {name: [(i / max(1, len(bins) - 1), statistics.mean(values))
                    for i, values in enumerate(bins)] for name, bins in by_bin.items()}
    spread = {name: [(min(values), max(values)) for values in bins]
              for name, bins in by_bin.items()}
    return "fig13_ffs_shares.svg", charts_of.Lines(
        "Shares of the GPU under FFS (FLEP, figure 13)", "share of the GPU, %: mean and range of the pairs",
        "time, as part of the run", lines, spread)


def ffs_loss_chart(detail):
    labels, losses = [], []
    for pair, row in detail.get("ffs", {}).items():
        for sharing in ("nomps", "mps"):
            plain, cupola = row.get("plain_" + sharing), row.get("cupola_" + sharing)
            if plain and cupola and sum(plain["whole"]) > 0:
                labels.append(pair)
                losses.append(100 * (1 - sum(cupola["whole"]) / sum(plain["whole"])))
                break
    return ("fig14_ffs_loss.svg", charts_of.Bars(
        "Throughput that FFS costs (FLEP, figure 14)", "throughput lost, %", PAIR, labels,
        {"loss": losses})) if labels else None


def spatial_chart(detail):
    rows = flep_results.spatial_overheads(detail, "unstopped")
    temporal, spatial = ([statistics.mean(row[place] for row in each) for each in rows.values()]
                         for place in (0, 1))
    return ("fig15_spatial.svg", charts_of.Bars(
        "What a preemption costs, by how many SMs it takes (FLEP, figure 15)", "time that both take, % longer",
        "large kernel that is preempted; mean over the kernels that preempt it", list(rows),
        {"all SMs": temporal, "only as many as are wanted": spatial})) if rows else None


def extra_chart(detail):
    found = detail.get("spatial_extra", {})
    series = {pair: [(sms, row[0] / us) for sms, us in zip(found["sms"], row, strict=False)]
              for pair, row in found.get("high", {}).items() if row}
    return ("fig16_more_sms.svg", charts_of.Lines(
        "A trivial kernel that gets more SMs than it wants (FLEP, figure 16)", "turnaround, times shorter",
        "SMs more than it wants", series, None, NO_GAIN, is_from_zero=False)) if series else None


def solo_chart(detail):
    labels = [name for name in runs.PROGRAMS
              if (detail.get("solo", {}).get(name, {}).get("original") or {}).get("samples")]
    series = {}
    for label in ("solo", "sliced"):
        if label == "sliced" and flep_results.ran_preemptible(detail, "solo sliced"):
            continue
        shown = {"solo": "preemptible"}.get(label, label)
        series[shown] = [flep_results.slowdown_pct(detail["solo"][name], label) for name in labels]
    return ("fig17_solo.svg", charts_of.Bars(
        "What a variant costs a kernel that runs alone (FLEP, figure 17)", "time, % longer than the original",
        "kernel, on its large input", labels, series)) if labels else None


def prediction_chart(detail):
    errors = detail.get("prediction", {}).get("errors", {})
    return ("fig7_prediction.svg", charts_of.Bars(
        "How far predicted durations are off (FLEP, figure 7)", "mean error, %",
        "kernel, on 100 inputs of random sizes", list(errors), {"error": list(errors.values())})) if errors else None


def charts(detail):
    """{file name: chart} of the sections that were measured."""
    every = [
        prediction_chart(detail),
        ratio_chart(detail, "pairs", "mps", "fig8_pairs_mps.svg",
                    "Speed-up of high-priority kernels over MPS without priorities (FLEP, figure 8)", 1),
        ratio_chart(detail, "pairs", "nomps", "pairs_timeslice.svg",
                    "Speed-up of high-priority kernels over time slicing", 1),
        delay_chart(detail),
        antt_chart(detail, "equal", [("over MPS", "cupola_mps", "plain_mps", "mps"),
                                     ("over time slicing", "cupola_nomps", "plain_nomps", "nomps")],
                   "fig10_antt.svg",
                   "Average normalised turnaround time of two kernels of equal priority (FLEP, figure 10)",
                   "pair of kernels: long_short"),
        loss_chart(detail),
        antt_chart(detail, "triplets", [("over MPS", "cupola_mps", "plain_mps", "mps"),
                                        ("over time slicing", "cupola_nomps", "plain_nomps", "nomps"),
                                        ("FFS, over time slicing", "ffs_nomps", "plain_nomps", "nomps"),
                                        ("only reordered, over time slicing", "reorder_nomps", "plain_nomps",
                                         "nomps")],
                   "fig12_triplets.svg", "Average normalised turnaround time of three kernels (FLEP, figure 12)",
                   "three kernels: long_short_short"),
        share_chart(detail), ffs_loss_chart(detail), spatial_chart(detail), extra_chart(detail),
        solo_chart(detail)]
    return dict(chart for chart in every if chart)


def preemption_chart(metrics):
    keys = [key for key in LIMITS if f"hp_p50_us_plain_{key}" in metrics]
    series = {f"{shown}, {p}": [metrics.get(f"hp_{p}_us_{system}_{key}") for key in keys]
              for system, shown in (("plain", "plain"), ("cupola", "under Cupola"))
              for p in ("p50", "p99")}
    labels = [("no MPS" if sharing == "nomps" else "MPS") + f", {us[:-2]} µs"
              for sharing, us in (key.split("_") for key in keys)]
    return charts_of.Bars("A kernel of 17 µs beside a batch process", "turnaround, µs (logarithmic)",
                          "way of sharing, and length of the batch's blocks", labels, series, None, True)


def load(results):
    """{name: what the file has} of results/{flep,preemption}.json, as far as they are there."""
    found = {}
    for name in ("flep", "preemption"):
        path = os.path.join(results, name + ".json")
        if os.path.exists(path):
            with open(path) as file:
                found[name] = json.load(file)
    return found


def charts_for_page(found):
    images = {"preemption.svg": preemption_chart(found["preemption"]["metrics"])} if "preemption" in found else {}
    return images | (charts(found["flep"]["detail"]) if "flep" in found else {})


def write(results, folder):
    """Reads results/{flep,preemption}.json; writes folder/flep.md, which shows the charts that draw() makes."""
    found = load(results)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "flep.md"), "w") as file:
        file.write(page(found, charts_for_page(found)))
    return [os.path.join(folder, "flep.md")]


def draw(results, folder):
    """Draws folder/flep/*.svg. Needs matplotlib."""
    charts_of.draw_all(charts_for_page(load(results)), os.path.join(folder, "flep"))


def image_line(path, chart):
    """The line that shows a chart in a page; its title is the text for readers who cannot see it."""
    return f"![{chart.title}]({path})"


def page(found, images):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "flep_report.md")) as file:
        parts = [file.read().rstrip()]
    if "preemption" in found:
        result = found["preemption"]
        parts += ["## A short kernel beside a batch process", fact_line(result), table(
            ["sharing, blocks", "plain p50", "plain p99", "Cupola p50", "Cupola p99", "wanted",
             "batch rate", "reached"], preemption_rows(result["metrics"]))]
        alone, alone_mps, switch = (
            " / ".join(str(result["metrics"].get(f"hp_{p}_us_{what}", "-")) for p in ("p50", "p99"))
            for what in ("alone", "alone_mps", "switch_nomps"))
        if "hp_p50_us_alone_mps" in result["metrics"]:
            alone += f", under MPS {alone_mps}"
        parts += [f"Microseconds; alone {alone}. Without MPS, both programs plain, "
                  f"beside a kernel of one thread that leaves when asked: {switch}, "
                  "the least that a change of context takes. Batch rate: kernels per second under "
                  "Cupola over plain, each beside the other program.",
                  image_line("flep/preemption.svg", images["preemption.svg"])]
    if "flep" in found:
        result = found["flep"]
        parts += ["## The evaluation", fact_line(result), table(
            ["metric", "measured", "wanted", "paper (K40)", "reached"],
            metric_rows(result["metrics"], result["detail"]))]
        measured = list(measured_rows(result["detail"]))
        if measured:
            parts += ["**What is from when** (detail.measured; plain modes do not depend on the commit):",
                      table(["section", "GPU", "commit", "measured", "seconds"], measured)]
        if result["detail"].get("failures"):
            parts += ["Not measured: " + "; ".join(
                failure.split("\n")[0] for failure in result["detail"]["failures"]) + "."]
        parts += [image_line("flep/" + name, chart) for name, chart in images.items() if name != "preemption.svg"]
    return "\n\n".join(parts) + "\n"
