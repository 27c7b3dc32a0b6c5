"""Writes tables of measured figures into pages that are written by hand: between `<!-- table NAME -->`
and `<!-- end of table -->` stand the figures of tests/bench/results. scripts/bench pages writes them, for
all GPUs that there are results of; doc_tables_test.py checks that pages and results agree. Standard
library only."""
import glob
import json
import os
import re

import real_pytorch_tables
import result_file
from flep_report import table

ARBITER_ROWS = [  # (metric, what is launched, goal, predicted before it was measured)
    ("short", "one block of a kernel that has a variant", "<= 300 ns", "80 to 150 ns"),
    ("unknown", "one block of a kernel that has none", "<= 300 ns", "60 to 130 ns"),
    ("long", "10,560 blocks of 20 us: variant and guard, though nobody may ask", "<= 5 us",
     "2.3 to 3.5 us"),
    ("long_beside_idle", "the same beside an idle process that may stop this one", "<= 5 us",
     "2.3 to 3.5 us"),
    ("short_default_stream", "`short`, on the legacy stream: the driver is asked for the current "
     "context", "<= 300 ns", "100 to 200 ns"),
    ("short_first", "the first after 0.2 ms of sleep: demand is announced, caches are cold", "",
     "0.3 to 1 us"),
    ("short_beside_idle", "beside an idle process that may stop this one: a gate every 8 launches",
     "", "0.3 to 0.5 us"),
    ("short_processes", "plain and registered processes in turns, a check", "", "as above, wide"),
    ("long_processes", "the same", "", "as above, wide"),
]
NARROW_MODES = [("fused", "fused"), ("api", "tasks, 1 host thread"), ("apix8", "8 threads"),
                ("streams32", "32 streams, 1 thread"), ("streams32x8", "256 streams, 8 threads"),
                ("graph", "graph")]
NARROW_SIZES = [("1us", "30 iterations, about 1 us"), ("13us", "1,700, 13 us"),
                ("46us", "6,500, 46 us")]
NARROW_TIMES = [  # (what it is, metrics, goal)
    ("a task put in and waited for, us p50 / p99", ("single_task_us_p50", "single_task_us_p99"),
     "5 / 10"),
    ("a launch and synchronise, us p50 / p99",
     ("launch_and_synchronize_us_p50", "launch_and_synchronize_us_p99"), ""),
    ("a row of dependent tasks, us a task", ("dependent_task_us",), ""),
    ("the first task behind an idle MasterKernel, us p50 / p99",
     ("after_idle_task_us_p50", "after_idle_task_us_p99"), "a launch"),
    ("a launch there, us p50 / p99", ("launch_us_p50", "launch_us_p99"), ""),
    ("gone after it was asked to leave, less a body, us p50 / p99", ("leave_us_p50", "leave_us_p99"),
     "p99 50"),
    ("gone behind its last task, us p50 / longest", ("idle_leave_us_p50", "idle_leave_us_max"),
     "200"),
    ("a batch process loses beside an idle MasterKernel, %: no MPS / MPS / no arbiter",
     ("idle_batch_loss_pct_nomps", "idle_batch_loss_pct_mps", "idle_batch_loss_pct_noarbiter_nomps"),
     "5"),
]
LONG_ROWS = [("ratio_one_stream_46us", "one stream of 46-us kernels"),
             ("ratio_one_stream_7_blocks_13us", "one stream of seven blocks of 13 us"),
             ("ratio_7_blocks_13us", "32 streams of seven blocks of 13 us"),
             ("ratio_7_blocks_100us", "32 streams of seven blocks of 100 us, processes by turns"),
             ("turns_ratio_7_blocks_100us", "the same, rounds through Cupola and past it by turns "
              "within a process")]
SUITE_ROWS = [  # (step, what it is)
    ("apps", "`tests/apps`: shared runtime, static runtime, driver API, ways to end (exit code, abort, "
     "fault, signal, kernel trap)"),
    ("pass_through", "shells, pipelines, Python subprocesses, fork and exec, standard streams, signals "
     "from outside, empty environment; plain, under `cupola run` and under `cupola run --trace`"),
    ("trace", "the trace: JSON, kernel names, grids, blocks, rows, graphs"),
    ("guarded_calls", "driver calls on four kinds of stream while a kernel is stopped half-way "
     "(`tests/gpu/guarded_calls.py`): each returns or waits without harm"),
    ("guarded_calls_mps", "each of them once under MPS that `cupola serve --mps` starts"),
    ("faults", "programs and arbiters that are killed, stopped, forked, reset or fault while kernels "
     "are preempted (`tests/gpu/faults.py`)"),
    ("faults_mps", "some of them under MPS"),
    ("tools", "beside compute-sanitizer, Nsight Compute and torch.profiler Cupola stands aside "
     "(`tests/gpu/tools.py`)"),
    ("two_gpus", "a process on two GPUs, preempted on one (`tests/gpu/two_gpus.py`)"),
    ("tasks", "programs written for tasks and unmodified ones whose launches become tasks; ends, faults, "
     "bad use, a soak, compute-sanitizer (`tests/tasks`)"),
]


def load(root):
    """{folder of a GPU: {name of a file without .json: what it has}}, the H200 first."""
    found = {}
    for path in sorted(glob.glob(root + "/*/*.json"), key=lambda path: ("/h200/" not in path, path)):
        with open(path) as file:
            gpu, name = path.split(os.sep)[-2:]
            found.setdefault(gpu, {})[name.removesuffix(".json")] = json.load(file)
    return found


def of(results, name):
    """[(short name of the GPU, that result of it)]"""
    return [(short_name(gpu), files[name]) for gpu, files in results.items() if name in files]


def short_name(gpu):
    return gpu.split("-")[0].upper()


def number(value, digits=2):
    return "-" if value is None else f"{value:,.{digits if abs(value) < 1000 else 0}f}"


def several(metrics, names, digits=1):
    return " / ".join(number(metrics.get(name), digits) for name in names)


def commit_of(result, section=None):
    """The commit of a section; a file may have sections from several calls."""
    return result_file.origin_of(result.get("detail", {}).get("measured", {}).get(section, result))


def arbiter_cost(results):
    found = of(results, "arbiter_cost")
    head = ["metric `arbiter_added_ns_...`", "launch", "goal", "predicted"]
    head += [f"{gpu} [95 %] ({commit_of(result)})" for gpu, result in found]
    rows = []
    for metric, what, goal, predicted in ARBITER_ROWS:
        row = [f"`{metric}`", what, goal, predicted]
        for _, result in found:
            values = [result["metrics"].get(f"arbiter_added_ns_{metric}{end}")
                      for end in ("", "_ci_low", "_ci_high", "_p99")]
            unit = 1000 if abs(values[0] or 0) >= 1000 else 1
            low, middle, high, p99 = (None if value is None else f"{value / unit:,.{2 * (unit > 1)}f}"
                                      for value in (values[1], values[0], *values[2:]))
            text = "-" if middle is None else f"{middle} {'us' if unit > 1 else 'ns'} [{low}, {high}]"
            row.append(text if p99 is None else f"{text}, p99 +{p99}")
        rows.append(row)
    last = ["`arbiter_plain_ns_...`", "a plain launch, the least and the most of these", "", ""]
    for _, result in found:
        plain = [result["metrics"].get(f"arbiter_plain_ns_{metric}") for metric, *_ in ARBITER_ROWS]
        last.append("{:,.0f} to {:,.0f} ns".format(*spread(plain)))
    rows.append(last)
    return table(head, rows)


def spread(values):
    known = [value for value in values if value is not None]
    return min(known), max(known)


def preemption(results):
    def both(metrics, what):
        return several(metrics, (f"hp_p50_us_{what}", f"hp_p99_us_{what}"))
    rows = []
    for gpu, result in of(results, "preemption"):
        metrics = result["metrics"]
        rates = spread([value for key, value in metrics.items() if key.startswith("batch_rate_ratio")])
        rows.append([f"{gpu} ({commit_of(result)})", *(both(metrics, what) for what in (
            "alone", "alone_mps", "switch_nomps", "cupola_nomps_20us", "cupola_mps_20us",
            "cupola_nomps_200us", "cupola_mps_200us")), "{:.4f} {:.4f}".format(*rates)])
    return table(["`preemption.json`", "alone", "alone, MPS", "bare switch", "Cupola, no MPS",
                  "Cupola, MPS", "200 us, no MPS", "200 us, MPS", "batch"], rows)


def narrow_rates(results):
    rows = []
    for gpu, result in of(results, "narrow"):
        for size, what in NARROW_SIZES:
            rates = [result["metrics"].get(f"tasks_per_s_{mode}_{size}") for mode, _ in NARROW_MODES]
            rows.append([gpu, what, *(number(rate and rate / 1e6) for rate in rates)])
    return table(["GPU", "32,768 tasks of 128 threads, M/s", *(text for _, text in NARROW_MODES)], rows)


def narrow_times(results):
    found = of(results, "narrow")
    rows = [[what, goal, *(several(result["metrics"], names, 2) for _, result in found)]
            for what, names, goal in NARROW_TIMES]
    return table(["", "goal", *(f"{gpu} ({commit_of(result, 'single')})" for gpu, result in found)],
                 rows)


def narrow_beside(results):
    rows = []
    for gpu, result in of(results, "narrow"):
        metrics = result["metrics"]
        for sharing, text in (("nomps", "no MPS"), ("mps", "MPS")):
            cells = [[metrics.get(f"{what}_{system}_{sharing}") for system in ("plain", "tasks",
                                                                               "arbiter")]
                     for what in ("beside_burst_us_p50", "beside_batch_per_s", "alone_burst_us_p50")]
            if None in cells[0]:
                continue
            rows.append([gpu, text, *(" / ".join(number(value / scale, digits) for value in row)
                                      for row, scale, digits in zip(cells, (1000, 1, 1000), (3, 0, 2),
                                                                    strict=True))])
    return table(["GPU", "", "bursts, ms p50", "batch kernels a second", "bursts alone, ms p50"], rows)


def unmodified(results):
    rows = []
    for gpu, result in of(results, "narrow"):
        metrics = result["metrics"]
        row = [f"{gpu} ({commit_of(result, 'unmodified')})"]
        row += [number(metrics.get(f"unmodified_speedup_{size}"), 1) for size, _ in NARROW_SIZES]
        rows.append([*row, number(metrics.get("dependent_stream_speedup"), 1)])
    return table(["times plain", "1 us", "13 us", "46 us", "one stream, blocks of nothing"], rows)


def unmodified_long(results):
    found = of(results, "narrow")
    rows = []
    for key, what in LONG_ROWS:
        row = [what]
        for _, result in found:
            values = [result["metrics"].get(f"unmodified_{key}{end}")
                      for end in ("", "_ci_low", "_ci_high")]
            row.append("{} ({} to {})".format(*(number(value, 3) for value in values)))
        rows.append(row)
    return table(["`unmodified_ratio_*`, `unmodified_turns_ratio_*` (95 % interval)",
                  *(f"{gpu} ({commit_of(result, 'long')})" for gpu, result in found)], rows)


def gpu_suite(results):
    found = of(results, "gpu_suite")
    rows = []
    for step, what in SUITE_ROWS:
        cells = [result["steps"].get(step) for _, result in found]
        if any(cells):
            rows.append([what, *(f"{cell['summary']} ({commit_of(cell['measured'])})" if cell else "-"
                                 for cell in cells)])
    return table(["what", *(gpu for gpu, _ in found)], rows)


def pytorch_pairs(results):
    return real_pytorch_tables.pairs(of(results, "real_pytorch"))


def pytorch_single(results):
    return real_pytorch_tables.single(of(results, "real_pytorch"))


TABLES = {made.__name__: made for made in (pytorch_pairs, pytorch_single, arbiter_cost, preemption, narrow_rates, narrow_times,
                                           narrow_beside, unmodified, unmodified_long, gpu_suite)}
PLACE = re.compile(r"(?P<begin><!-- table (?P<name>\w+) -->\n).*?(?P<end>\n<!-- end of table -->)",
                   re.DOTALL)


def filled(text, results):
    """A page with its tables filled from the results. Raises KeyError if the page names a table that does not exist."""
    return PLACE.sub(lambda place: place["begin"] + TABLES[place["name"]](results) + place["end"], text)


def pages(docs):
    return sorted(glob.glob(docs + "/**/*.md", recursive=True))


def write(root, docs):
    """Fills the tables of all pages from the results of all GPUs. Returns the pages that have tables."""
    results, written = load(root), []
    for path in pages(docs):
        with open(path) as file:
            before = file.read()
        if not PLACE.search(before):
            continue
        written.append(path)
        with open(path, "w") as file:
            file.write(filled(before, results))
    return written
