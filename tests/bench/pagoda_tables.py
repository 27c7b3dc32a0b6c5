"""The tables of docs/results/pagoda.md, one for each figure, with what was run for it, from pagoda.json and
narrow.json. Pure functions, standard library only."""
import pagoda_metrics as m

COLUMNS = ["unmodified", "streams8", "graph", "device-graph", "batched", "fused", "fused:inside",
           "persistent", "tasks-batched", "tasks:bulk", "tasks", "cpu"]
# Table 5 of the paper, on a Titan X: speed-up and achieved occupancy, with shared memory and without.
PAPER_SHARED = {"dct": ("1.35, 25 %", "1.25, 97 %"), "mm": ("1.51, 97 %", "1.20, 97 %")}


def table(head, rows):
    lines = ["| " + " | ".join(map(str, head)) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def times(value):
    return f"{value:.2f}" if value else "-"


def count(values):
    """Numbers in words: "32,768", "2, 6 or 8"."""
    words = [f"{value:,}" for value in values]
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def ran_words(ran, is_irregular=False):
    """Says of {what: values} how many tasks of how many threads were run."""
    tasks, threads, blocks = (ran.get(what) for what in ("tasks", "threads", "blocks"))
    many = f"{count(tasks)} tasks" if tasks else "tasks (how many was not noted)"
    if is_irregular:
        return many + ", each of as many threads as its size wants"
    of = f"of {count(threads)} threads" if threads else "(of how many threads was not noted)"
    return f"{many} of {count(blocks)} blocks {of}" if blocks else f"{many} {of}"


def ran_line(section):
    """Says what was run, from {app: (ran, is_irregular)}; applications with the same are named together."""
    words = {}
    for app, ran in section.items():
        words.setdefault(ran_words(*ran), []).append(app)
    found = [what if len(words) == 1 else f"{what} ({', '.join(apps)})" for what, apps in words.items()]
    return "Run: " + "; ".join(found) + "." if found else ""


def ran_of_lines(section):
    """Where each application has {form: line}, or a list of lines."""
    found = {}
    for app, lines in section.items():
        lines = list(lines.values() if isinstance(lines, dict) else lines)
        found[app] = (m.what_ran(lines), any(line.get("irregular") for line in lines))
    return found


def ran_of_series(detail, name, across):
    """Where each application has {form: [[what varies, value]]}: that, and what was noted when it ran."""
    return {app: ({**detail.get("ran", {}).get(f"{name} {app}", {}),
                   across: sorted({x for points in row.values() for x, _ in points})}, False)
            for app, row in detail[name].items()}


def app_table(apps):
    rows = []
    for app, row in apps.items():
        base = m.median_ms(row, m.BASE)
        rows.append([app, f"{base:.1f}" if base else "-", *(times(m.speedup(row, form))
                                                            for form in COLUMNS)])
    means = [times(m.geomean(m.speedups(apps, form).values())) for form in COLUMNS]
    return table(["app", "plain ms", *COLUMNS], [*rows, ["geometric mean", "", *means]])


def slower_line(section, forms):
    """Says where tasks are slower than fused forms, and how many times as fast as these they are."""
    words = []
    for form in forms:
        slow = {app: value for app, value in m.speedups(section, "tasks", form).items() if value < 0.995}
        if slow:
            words.append(f"*{form}* in " + ", ".join(f"{app} ({value:.2f})"
                                                     for app, value in slow.items()))
    compared = any(m.speedups(section, "tasks", form) for form in forms)
    if not words:
        return "*tasks* are slower than no fused form." if compared else ""
    return "*tasks* are slower (so many times as fast) than " + "; than ".join(words) + "."


def series_tables(section, what, forms):
    """Figures 6 and 7: streams in milliseconds, the rest times faster; the values of what varies across. A
    table for all applications that have the same of these."""
    by_values = {}
    for app, row in section.items():
        across = tuple(sorted({x for points in row.values() for x, _ in points}))
        by_values.setdefault(across, {})[app] = row
    return "\n\n".join(series_table(rows, what, forms, across) for across, rows in by_values.items())


def series_table(section, what, forms, across):
    rows = []
    for app, row in section.items():
        base = dict(row.get("streams", []))
        rows.append([app, "streams, ms", *(f"{base[x]:.2f}" if x in base else "-" for x in across)])
        for form in forms:
            mine = dict(row.get(form, []))
            if mine:
                rows.append(["", form, *(times(base[x] / mine[x]) if x in mine and x in base else "-"
                                         for x in across)])
    return table(["app", what, *(f"{x:,}" for x in across)], rows)


def size_table(section):
    """Figure 8: how many times faster tasks are than streams."""
    found, across = {}, set()
    for app, lines in section.items():
        for line in lines:
            shape = (line.get("blocks", 1), line["threads"])
            across.add(shape)
            row = found.setdefault((app, line["size"]), {}).setdefault(shape, {})
            row[line["form"]] = line
    across = sorted(across)
    rows = [[app, f"{size} x {size}", *(times(m.speedup(row.get(shape, {}), "tasks", "streams"))
                                        for shape in across)] for (app, size), row in found.items()]
    return table(["app", "size", *(f"{blocks} x {threads}" for blocks, threads in across)], rows)


def irregular_table(section):
    """Figure 9."""
    forms = ["fused", "persistent", "cpu", "tasks"]
    rows = []
    for app, row in section.items():
        base, over = m.median_ms(row, "streams"), m.speedup(row, "tasks", "fused")
        rows.append([app, f"{base:.2f}" if base else "-",
                     *(times(m.speedup(row, form, "streams")) for form in forms), times(over)])
    mean = times(m.geomean(m.speedups(section, "tasks", "fused").values()))
    return table(["app", "streams ms", *forms, "tasks over fused"],
                 [*rows, ["geometric mean", "", *[""] * len(forms), mean]])


def latency_table(section):
    """Figure 10, in microseconds."""
    across = sorted({x for row in section.values() for points in row.values() for x, _ in points})
    rows = [[app if first else "", form, *(f"{dict(points)[x]:,.0f}" if x in dict(points) else "-"
                                           for x in across)]
            for app, row in section.items()
            for first, (form, points) in zip([True] + [False] * len(row), row.items())]
    return table(["app", "us a task, of tasks", *(f"{x:,}" for x in across)], rows)


def batching_table(apps):
    """Figure 11: how many times faster than streams."""
    forms = ["batched", "tasks-batched", "tasks"]
    return table(["app", *forms], [[app, *(times(m.speedup(row, form)) for form in forms)]
                                   for app, row in apps.items()])


def shared_table(section):
    """Table 5: over streams whose kernels use shared memory."""
    rows = []
    for app, found in section.items():
        base = m.median_ms(found.get("shared", {}), "streams")
        mine = [m.median_ms(found.get(how, {}), "tasks") for how in ("shared", "no_shared")]
        words = [f"{ms:.2f}" if ms else "-" for ms in (base, *mine)]
        over = [times(base / ms) if base and ms else "-" for ms in mine]
        paper = PAPER_SHARED.get(app, ("-", "-"))
        ran = m.what_ran([line for row in found.values() for line in row.values()])
        rows.append([app, ran_words(ran), words[0], words[1], over[0], paper[0], words[2], over[1],
                     paper[1]])
    return table(["app", "run", "streams, shared, ms", "tasks, shared, ms", "times", "paper",
                  "tasks without, ms", "times", "paper"], rows)


# narrow.json: of the modes of narrow_bench how they are called here, and by how many host threads.
RATES = {"fused": ("fused, one block a task", 1), "api": ("tasks", 1), "apix8": ("tasks", 8),
         "streams32": ("32 streams", 1), "streams32x8": ("256 streams", 8),
         "graph": ("a graph, launched again", 1)}
SIZES = ("1us", "13us", "46us")
# What is promised of a MasterKernel that is idle or asked to leave.
BOUNDS = {"leave_us_p50": "50", "leave_us_p99": "", "leave_queued_us_p50": "", "idle_leave_us_p50": "",
          "idle_leave_us_max": "200", "after_idle_task_us_p50": "`launch_us_p50`", "launch_us_p50": "",
          **{f"idle_{process}_loss_pct_{sharing}": "5" for sharing in ("nomps", "mps")
             for process in ("batch", "narrow")},
          **{f"idle_{process}_loss_pct_noarbiter_nomps": "" for process in ("batch", "narrow")}}


def rate_table(metrics):
    rows = []
    for mode, (name, threads) in RATES.items():
        rates = [metrics.get(f"tasks_per_s_{mode}_{size}") for size in SIZES]
        if any(rates):
            rows.append([f"`{mode}`", name, threads, *(f"{rate / 1e6:.3g}" if rate else "-"
                                                       for rate in rates)])
    for by, threads in (("", 1), ("apix8_", 8)):
        for mode, (name, others) in RATES.items():
            found = [metrics.get(f"{by}speedup_over_{mode}_{size}") for size in SIZES]
            if any(found):
                rows.append([f"`{by}speedup_over_{mode}`", f"tasks over {name}",
                             f"{threads} over {others}", *(f"{value:.1f} times" if value else "-"
                                                           for value in found)])
    return table(["", "M tasks/s", "host threads", *SIZES], rows)


def bound_table(metrics):
    """The table of what is promised of a MasterKernel; None if nothing of it was measured."""
    rows = [[f"`{name}`", metrics[name], bound] for name, bound in BOUNDS.items() if name in metrics]
    return table(["metric", "measured", "at most"], rows) if rows else None


def narrow_ran(detail):
    lines = [line for size in SIZES for line in detail.get(size) or [] if "tasks" in line]
    return "Run: " + ran_words(m.what_ran(lines)) + ", eight bodies by turns." if lines else ""
