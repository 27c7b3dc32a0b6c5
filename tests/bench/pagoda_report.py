"""Writes docs/results/pagoda.md and its charts from pagoda.json and narrow.json, which scripts/bench
pagoda and narrow write. Run on any machine: scripts/bench plots. Standard library only, but for drawing
(charts.py)."""
import json
import os

import charts as charts_of
from flep_report import fact_line, image_line
import pagoda_metrics as m
import pagoda_tables as t

PAPER = {"apps_geomean_vs_streams": 1.51, "apps_geomean_vs_batched": 1.69,
         "apps_geomean_vs_cpu": 5.70, "irregular_geomean_vs_fused": 1.79,
         "shared_speedup_dct": 1.35, "no_shared_speedup_dct": 1.25, "shared_speedup_mm": 1.51,
         "no_shared_speedup_mm": 1.20}


AS_FAST = (1, "as fast")


def speedup_bars(apps, name, title, forms, over=m.BASE):
    labels = list(apps)
    series = {form: [m.speedup(row, form, over) for row in apps.values()] for form in forms}
    series = {form: row for form, row in series.items() if any(row)}
    return (name, charts_of.Bars(title, "times faster (logarithmic)", "application", labels, series, AS_FAST,
                                 True)) if series else None


def series_over_streams(section, forms):
    """{app: {form: [(what varies, times faster than streams)]}}"""
    found = {}
    for app, row in section.items():
        base = dict(row.get("streams", []))
        for form in forms:
            points = [(x, base[x] / ms) for x, ms in row.get(form, []) if x in base]
            if points:
                found.setdefault(app, {})[form] = points
    return found


def panel_charts(detail):
    for section, number, title, across in (
            ("scale", 6, "More and more tasks: speed-up over 32 streams", "tasks"),
            ("threads", 7, "Threads of a task: speed-up over 32 streams", "threads of a task")):
        panels = series_over_streams(detail.get(section, {}), ("tasks", "batched"))
        if panels:
            yield f"fig{number}_{section}.svg", charts_of.Panels(
                f"{title} (Pagoda, figure {number})", "times faster (logarithmic)", across, panels)


def size_chart(detail):
    """Of each application: tasks over streams, by size and threads."""
    panels = {}
    for app, lines in detail.get("sizes", {}).items():
        series, streams = {}, {}
        for line in lines:
            threads = line["threads"] * line.get("blocks", 1)
            ms = m.median_ms({"form": line}, "form")
            if line["form"] == "streams":
                streams[line["size"], threads] = ms
            elif (line["size"], threads) in streams:
                series.setdefault(f"{line['size']} x {line['size']}", {})[threads] = (
                    streams[line["size"], threads] / ms)
        if series:
            panels[app] = {name: sorted(points.items()) for name, points in series.items()}
    return ("fig8_sizes.svg", charts_of.Panels(
        "Sizes and threads of a task: speed-up over streams (Pagoda, figure 8)", "times faster (logarithmic)",
        "threads of a task", panels)) if panels else None


def latency_chart(detail):
    found = detail.get("latency", {})
    return ("fig10_latency.svg", charts_of.Panels(
        "Mean latency of a task (Pagoda, figure 10)", "latency, µs (logarithmic)", "tasks",
        found)) if found else None


def charts(detail):
    """{file name: chart} of the sections that were measured."""
    apps = detail.get("apps", {})
    every = [
        speedup_bars(apps, "fig5_apps.svg", "Speed-up of applications over 32 streams (Pagoda, figure 5)",
                     ["unmodified", "streams8", "graph", "batched", "cpu", "tasks"]),
        speedup_bars(apps, "fig5_fused.svg", "The same applications beside fused kernels",
                     ["fused", "fused:inside", "persistent", "tasks:bulk", "tasks"]),
        *panel_charts(detail), size_chart(detail),
        speedup_bars(detail.get("irregular", {}), "fig9_irregular.svg",
                     "Tasks of irregular sizes: speed-up over 32 streams (Pagoda, figure 9)",
                     ["fused", "persistent", "cpu", "tasks"], "streams"),
        latency_chart(detail),
        speedup_bars(apps, "fig11_batching.svg", "Tasks in batches, or as they come (Pagoda, figure 11)",
                     ["batched", "tasks-batched", "tasks"])]
    return dict(chart for chart in every if chart)


def metric_rows(metrics):
    return [(f"`{name}`", f"{value:g}", PAPER.get(name, "")) for name, value in metrics.items()]


def measured_rows(detail):
    """The rows on what was measured when; sections of the same commit and day share a row."""
    rows = {}
    for what, fact in detail.get("measured", {}).items():
        section, app = what.split(" ")
        key = (section, str(fact["gpu"]).split(",")[0], str(fact["commit"])[:12],
               str(fact["date"])[:10])
        apps, seconds = rows.get(key, ([], 0))
        rows[key] = ([*apps, app], seconds + fact["seconds"])
    for key, (apps, seconds) in rows.items():
        yield *key, " ".join(apps), f"{seconds:.0f}"


def failure_line(detail, section):
    """Says what could not be measured when a section was last tried. Its figures may be from an earlier time."""
    failures = detail.get("failures") or {}
    found = [f"{what.partition(' ')[2]}: {reason.splitlines()[0]}" for what, reasons in failures.items()
             for reason in reasons if what.partition(" ")[0] == section]
    return "Failed: " + "; ".join(found) + "." if found else ""


def image_lines(images):
    return [image_line("pagoda/" + name, chart) for name, chart in images.items()]


def section_parts(detail, section, title, images, *words):
    """The parts of a section; nothing if it was neither measured nor failed."""
    failed = failure_line(detail, section)
    if not detail.get(section) and not failed:
        return []
    shown = image_lines(images)
    return ["## " + title, *filter(None, words), *filter(None, [failed]), *shown]


def unable_line(apps):
    unable = [f"{app} {form}: {found['unable']}" for app, row in apps.items()
              for form, found in row.items() if found.get("unable")]
    return "Not possible: " + "; ".join(unable) + "." if unable else ""


def app_parts(detail, images):
    apps = detail.get("apps", {})
    words = [t.ran_line(t.ran_of_lines(apps)), "Plain streams in milliseconds; the rest times faster.",
             t.app_table(apps), t.slower_line(apps, ["fused", "fused:inside", "persistent"]),
             unable_line(apps)] if apps else []
    return section_parts(detail, "apps", "Applications with copies (figure 5)",
                         images("fig5"), *words)


def series_parts(detail, section, number, title, across, images):
    found = detail.get(section)
    words = [t.ran_line(t.ran_of_series(detail, section, across)),
             t.series_tables(found, across, ["graph", "batched", "fused", "tasks"])] if found else []
    return section_parts(detail, section, f"{title} (figure {number})", images(f"fig{number}"), *words)


def batching_parts(apps, images):
    if not apps:
        return []
    return ["## Batches and continuous spawning (figure 11)", t.ran_line(t.ran_of_lines(apps)),
            "Times faster than plain streams, with copies.", t.batching_table(apps),
            *image_lines(images)]


def figure_parts(detail, images):
    """Figures 6 to 11 and table 5: of each what was run, a table, what failed, charts."""
    sizes, irregular = detail.get("sizes", {}), detail.get("irregular", {})
    latency, shared = detail.get("latency", {}), detail.get("shared", {})
    return [
        *series_parts(detail, "scale", 6, "More and more tasks, with copies", "tasks", images),
        *series_parts(detail, "threads", 7, "Threads a task, compute only", "threads", images),
        *section_parts(detail, "sizes", "Sizes and threads, compute only (figure 8)", images("fig8"),
                       t.ran_line(t.ran_of_lines(sizes)),
                       "Tasks over streams, times faster, by blocks x threads of a task.",
                       sizes and t.size_table(sizes)),
        *section_parts(detail, "irregular", "Irregular sizes, with copies (figure 9)", images("fig9"),
                       t.ran_line(t.ran_of_lines(irregular)), "Times faster than streams.",
                       irregular and t.irregular_table(irregular),
                       t.slower_line(irregular, ["fused", "persistent"])),
        *section_parts(detail, "latency", "Mean latency of a task (figure 10)", images("fig10"),
                       latency and t.ran_line(t.ran_of_series(detail, "latency", "tasks")),
                       latency and t.latency_table(latency)),
        *batching_parts(detail.get("apps"), images("fig11")),
        *section_parts(detail, "shared", "Shared memory, compute only (table 5)", {},
                       "Times faster than streams whose kernels use shared memory; in the paper also the"
                       " occupancy that was achieved, which was not measured here.",
                       shared and t.shared_table(shared))]


def narrow_parts(narrow):
    """Rates without copies, and what is promised of an idle MasterKernel."""
    if not narrow:
        return []
    bounds, failures = t.bound_table(narrow["metrics"]), narrow["detail"].get("failures") or {}
    failed = "; ".join(f"{section}: {reason.splitlines()[0]}" for section, reasons in failures.items()
                       for reason in reasons) if isinstance(failures, dict) else ""
    return ["## Rates, compute only, by host threads", t.narrow_ran(narrow["detail"]),
            "Of `narrow.json` (`scripts/bench narrow`): `api` is one host thread that puts tasks in,"
            " `apix8` eight.", t.rate_table(narrow["metrics"]),
            f"Failed: {failed}." if failed else "",
            *(["## A MasterKernel that is idle, or asked to leave",
               "Of `narrow.json` as well; docs/results/narrow-tasks.md says what each is.", bounds]
              if bounds else [])]


def page(result, images, narrow=None):
    detail = dict(result["detail"])
    m.adopt_failures(detail)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                           "pagoda_report.md")) as file:
        parts = [file.read().rstrip(), fact_line(result)]

    def of_figure(name):
        return {image: chart for image, chart in images.items() if image.startswith(name + "_")}

    parts += app_parts(detail, of_figure) + figure_parts(detail, of_figure) + narrow_parts(narrow)
    parts += ["## Metrics", t.table(["metric", "measured", "paper (Titan X)"],
                                    metric_rows(result["metrics"]))]
    parts += ["## What is from when", t.table(["section", "GPU", "commit", "date", "apps", "seconds"],
                                              measured_rows(detail))]
    return "\n\n".join(filter(None, parts)) + "\n"


def write(results, folder):
    """Reads pagoda.json and, if it is there, narrow.json of `results`; writes folder/pagoda.md, which shows the charts
    that draw() makes. Nothing where the first is not there."""
    path, narrow = (os.path.join(results, name) for name in ("pagoda.json", "narrow.json"))
    if not os.path.exists(path):
        return []
    with open(path) as file:
        result = json.load(file)
    if os.path.exists(narrow):
        with open(narrow) as file:
            narrow = json.load(file)
    else:
        narrow = None
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "pagoda.md"), "w") as file:
        file.write(page(result, charts(result["detail"]), narrow))
    return [os.path.join(folder, "pagoda.md")]


def draw(results, folder):
    """Draws folder/pagoda/*.svg of pagoda.json, where that is. Needs matplotlib."""
    path = os.path.join(results, "pagoda.json")
    if os.path.exists(path):
        with open(path) as file:
            charts_of.draw_all(charts(json.load(file)["detail"]), os.path.join(folder, "pagoda"))
