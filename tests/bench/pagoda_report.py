"""Writes docs/results/pagoda.md and its charts from pagoda.json, which scripts/bench pagoda writes.
Run on any machine: scripts/bench plots. Standard library only."""
import json
import math
import os

from flep_report import fact_line, table
import pagoda_metrics as m
import svg_chart

PAPER = {"apps_geomean_vs_streams": 1.51, "apps_geomean_vs_batched": 1.69,
         "apps_geomean_vs_cpu": 5.70, "irregular_geomean_vs_fused": 1.79,
         "shared_speedup_dct": 1.35, "no_shared_speedup_dct": 1.25, "shared_speedup_mm": 1.51,
         "no_shared_speedup_mm": 1.20}
COLUMNS = ["unmodified", "streams8", "graph", "device-graph", "batched", "fused", "fused:inside",
           "persistent", "tasks-batched", "tasks:bulk", "tasks", "cpu"]


def speedup_bars(apps, name, title, forms, over=m.BASE):
    labels = list(apps)
    series = {form: [m.speedup(row, form, over) for row in apps.values()] for form in forms}
    series = {form: row for form, row in series.items() if any(row)}
    return (name, svg_chart.bars(title, "times faster", labels, series)) if series else None


def series_over_streams(section, form):
    """{app: [(log2 of what varies, times faster than streams)]}"""
    found = {}
    for app, row in section.items():
        base = dict(row.get("streams", []))
        points = [(math.log2(x), base[x] / ms) for x, ms in row.get(form, []) if x in base]
        if points:
            found[app] = points
    return found


def line_charts(detail):
    for section, number, across in (("scale", 6, "tasks"), ("threads", 7, "threads a task")):
        for form in ("tasks", "batched"):
            series = series_over_streams(detail.get(section, {}), form)
            # As many lines as there are colours, twice.
            for part in range(0, len(series), 6):
                some = dict(list(series.items())[part:part + 6])
                yield (f"fig{number}_{section}_{form}_{part // 6}.svg", svg_chart.lines(
                    f"{form} over streams (fig. {number})", "times faster",
                    f"{across}, powers of two", some))


def size_charts(detail):
    """Of each application: tasks over streams, by size and threads."""
    for app, lines in detail.get("sizes", {}).items():
        series, streams = {}, {}
        for line in lines:
            threads = line["threads"] * line.get("blocks", 1)
            ms = m.median_ms({"form": line}, "form")
            if line["form"] == "streams":
                streams[line["size"], threads] = ms
            elif (line["size"], threads) in streams:
                series.setdefault(f"{line['size']} x {line['size']}", {})[math.log2(threads)] = (
                    streams[line["size"], threads] / ms)
        if series:
            yield (f"fig8_sizes_{app}.svg", svg_chart.lines(
                f"{app}: tasks over streams (fig. 8)", "times faster",
                "threads a task, powers of two",
                {name: sorted(points.items()) for name, points in series.items()}))


def latency_charts(detail):
    for app, row in detail.get("latency", {}).items():
        yield (f"fig10_latency_{app}.svg", svg_chart.lines(
            f"{app}: mean latency of a task (fig. 10)", "us", "tasks, powers of two",
            {form: [(math.log2(n), us) for n, us in points] for form, points in row.items()}))


def charts(detail):
    apps = detail.get("apps", {})
    every = [
        speedup_bars(apps, "fig5_apps.svg", "Speed-up over 32 streams (fig. 5)",
                     ["unmodified", "streams8", "graph", "batched", "cpu", "tasks"]),
        speedup_bars(apps, "fig5_fused.svg", "The same beside fused kernels",
                     ["fused", "fused:inside", "persistent", "tasks:bulk", "tasks"]),
        *line_charts(detail), *size_charts(detail),
        speedup_bars(detail.get("irregular", {}), "fig9_irregular.svg",
                     "Irregular sizes: speed-up over 32 streams (fig. 9)",
                     ["fused", "persistent", "cpu", "tasks"], "streams"),
        *latency_charts(detail),
        speedup_bars(apps, "fig11_batching.svg", "Batches and continuous spawning (fig. 11)",
                     ["batched", "tasks-batched", "tasks"])]
    return dict(chart for chart in every if chart)


def app_rows(apps):
    for app, row in apps.items():
        base = m.median_ms(row, m.BASE)
        values = (m.speedup(row, form) for form in COLUMNS)
        yield app, f"{base:.1f}" if base else "-", *(f"{value:.2f}" if value else "-"
                                                     for value in values)


def geomean_row(apps):
    means = (m.geomean(m.speedups(apps, form).values()) for form in COLUMNS)
    return "geometric mean", "", *(f"{value:.2f}" if value else "-" for value in means)


def metric_rows(metrics):
    return [(f"`{name}`", f"{value:g}", PAPER.get(name, "")) for name, value in metrics.items()]


def measured_rows(detail):
    """Sections of the same commit and day in one row."""
    rows = {}
    for what, fact in detail.get("measured", {}).items():
        section, app = what.split(" ")
        key = (section, str(fact["gpu"]).split(",")[0], str(fact["commit"])[:12],
               str(fact["date"])[:10])
        apps, seconds = rows.get(key, ([], 0))
        rows[key] = ([*apps, app], seconds + fact["seconds"])
    for key, (apps, seconds) in rows.items():
        yield *key, " ".join(apps), f"{seconds:.0f}"


def page(result, images):
    detail = result["detail"]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                           "pagoda_report.md")) as file:
        parts = [file.read().rstrip(), fact_line(result)]
    if detail.get("apps"):
        parts += ["## Applications", "Plain streams in milliseconds; the rest times faster.",
                  table(["app", "plain ms", *COLUMNS],
                        [*app_rows(detail["apps"]), geomean_row(detail["apps"])])]
        unable = [f"{app} {form}: {found['unable']}" for app, row in detail["apps"].items()
                  for form, found in row.items() if found.get("unable")]
        parts += ["Not possible: " + "; ".join(unable) + "."] if unable else []
    parts += ["## Metrics", table(["metric", "measured", "paper (Titan X)"],
                                  metric_rows(result["metrics"]))]
    if detail.get("failures"):
        parts += ["Not measured: " + "; ".join(
            failure.split("\n")[0] for failure in detail["failures"]) + "."]
    parts += ["## Figures", *(f"![](pagoda/{name})" for name in images)]
    parts += ["## What is from when", table(["section", "GPU", "commit", "date", "apps", "seconds"],
                                            measured_rows(detail))]
    return "\n\n".join(parts) + "\n"


def write(results, folder):
    """Reads results/pagoda.json; writes folder/pagoda.md and folder/pagoda/*.svg. Nothing where it
    was not measured."""
    path = os.path.join(results, "pagoda.json")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        result = json.load(file)
    images = charts(result["detail"])
    os.makedirs(os.path.join(folder, "pagoda"), exist_ok=True)
    for name, text in images.items():
        with open(os.path.join(folder, "pagoda", name), "w") as file:
            file.write(text)
    with open(os.path.join(folder, "pagoda.md"), "w") as file:
        file.write(page(result, images))
    return [os.path.join(folder, "pagoda.md")]
