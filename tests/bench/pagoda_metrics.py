"""The figures of Pagoda's evaluation from what its programs measured. Pure functions, standard
library only. `apps` is detail["apps"]: {app: {form: {"ms": [...], "checksum": ...}}}."""
import statistics

BASE = "plain"  # the streams of a program that knows nothing of Cupola
# What narrow.json has of the applications.
NARROW_KEYS = ["apps_geomean_vs_streams", "apps_geomean_vs_graph", "unmodified_apps_geomean",
               "unmodified_apps_worst"]


def geomean(values):
    """None without values."""
    values = list(values)
    return round(statistics.geometric_mean(values), 3) if values else None


def median_ms(row, form):
    """None where the form was not measured."""
    found = (row.get(form) or {}).get("ms")
    return statistics.median(found) if found else None


def speedup(row, form, over=BASE):
    """How many times faster `form` is than `over`; None where one of them was not measured."""
    mine, other = median_ms(row, form), median_ms(row, over)
    return other / mine if mine and other else None


def speedups(apps, form, over=BASE):
    """{app: times faster}, of those that were measured in both."""
    found = {app: speedup(row, form, over) for app, row in apps.items()}
    return {app: value for app, value in found.items() if value is not None}


def differing(apps):
    """Checks that all forms but the CPU gave the same results: [(app, form)] of those that did
    not, or did not say."""
    wrong = []
    for app, row in apps.items():
        sums = {form: found["checksum"] for form, found in row.items()
                if form != "cpu" and found.get("ms")}
        first = sums.get(BASE) or next(iter(sums.values()), None)
        wrong += [(app, form) for form, value in sums.items() if value != first]
        wrong += [(app, form) for form, found in row.items() if found.get("equal") is False]
    return sorted(set(wrong))


def what_ran(lines):
    """How many tasks of how many threads (and blocks, where that was chosen), of the lines that a program
    printed: {what: values}."""
    found = {what: sorted({line[what] for line in lines if what in line})
             for what in ("tasks", "threads")}
    if any("blocks" in line for line in lines):
        found["blocks"] = sorted({line.get("blocks", 1) for line in lines})
    return found


def adopt_failures(detail):
    """detail["failures"] is {"section app": [reason]}; results once had a list, of their last call alone."""
    if not isinstance(detail.get("failures"), dict):
        detail["failures"] = {}


def note_failures(detail, what, reasons):
    """Why parts of a section of an application failed when it was measured last: none, no word of it."""
    detail["failures"].pop(what, None)
    if reasons:
        detail["failures"][what] = list(reasons)


def metrics(detail):
    """All metrics of the sections that there are."""
    apps = detail.get("apps", {})
    forms = sorted({form for row in apps.values() for form in row} - {BASE})
    found = {}
    for over, name in ((BASE, "streams"), ("graph", "graph"), ("fused", "fused"),
                       ("batched", "batched"), ("cpu", "cpu")):
        found[f"apps_geomean_vs_{name}"] = geomean(speedups(apps, "tasks", over).values())
    unmodified = speedups(apps, "unmodified")
    found["unmodified_apps_geomean"] = geomean(unmodified.values())
    found["unmodified_apps_worst"] = round(min(unmodified.values()), 3) if unmodified else None
    for form in forms:
        if form not in ("tasks", "unmodified"):
            name = form.replace(":", "_").replace("-", "_")
            found[f"{name}_apps_geomean"] = geomean(speedups(apps, form).values())
    for app, value in speedups(apps, "tasks").items():
        found[f"tasks_speedup_{app}"] = round(value, 3)
    for app, value in unmodified.items():
        found[f"unmodified_speedup_{app}"] = round(value, 3)
    irregular = detail.get("irregular", {})
    found["irregular_geomean_vs_fused"] = geomean(speedups(irregular, "tasks", "fused").values())
    found.update(shared_metrics(detail.get("shared", {})))
    return {key: value for key, value in found.items() if value is not None}


def shared_metrics(section):
    """Table 5: tasks with and without shared memory over streams with it."""
    found = {}
    for app, rows in section.items():
        base = median_ms(rows.get("shared", {}), "streams")
        for how, row in rows.items():
            mine = median_ms(row, "tasks")
            if base and mine:
                found[f"{how}_speedup_{app}"] = round(base / mine, 3)
    return found


def merge_into_narrow(narrow, pagoda):
    """Puts the applications' keys into what narrow.json holds, and where they are from."""
    for key in NARROW_KEYS:
        narrow["metrics"].pop(key, None)
        if key in pagoda["metrics"]:
            narrow["metrics"][key] = pagoda["metrics"][key]
    narrow["detail"]["apps_from"] = {key: pagoda.get(key) for key in ("commit", "date")}
    return narrow
