#!/usr/bin/env python3
"""The trace of `cupola run --trace` is whole and says what happened.

A shell runs three programs, one of which forks and executes a fourth, under one trace. Checked:
it is valid JSON; each process that launched has rows of its own; every kernel is there by name,
grid and block; graphs with the kernels in them; sane times; slices of one row do not overlap.
Prints what was found; exit code 1 where something is wrong, 77 where nothing can be run here.
"""
import argparse
import collections
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../apps"))
import runner  # noqa: E402

# (kernel, grid, block) -> how often: streams_events with 8192 words, fork_exec with its child
# vector_add (100001 elements), cuda_graph's six launches and six captured kernels.
EXPECTED_KERNELS = {
    ("Scale", "64x1x1", "128x1x1"): 20,
    ("Combine", "64x1x1", "128x1x1"): 5,
    ("Square", "16x1x1", "128x1x1"): 2,
    ("VectorAdd", "391x1x1", "256x1x1"): 1,
}
EXPECTED_PROCESSES = {"streams_events", "fork_exec", "vector_add", "cuda_graph"}


def base_name(event):
    """`Scale(unsigned int*, ...)` and `Scale` alike."""
    return event["name"].split("(")[0].split()[-1]


def kernels_are_expected(events):
    seen = collections.Counter()
    for event in events:
        if event.get("cat") == "kernel":
            seen[(base_name(event), event["args"]["grid"], event["args"]["block"])] += 1
    return dict(seen) == EXPECTED_KERNELS, f"kernels {dict(seen)}"


def graphs_are_expected(events):
    counts = runner.count_launches(events)
    found = counts["graphs"], counts["graph_kernels"], counts["captured"]
    return found == (6, 15, 6), f"graphs, kernels in them, captured: {found}"


def processes_are_named(events):
    names = {event["pid"]: event["args"]["name"] for event in events
             if event.get("ph") == "M" and event["name"] == "process_name"}
    launching = {names.get(event["pid"]) for event in events
                 if event.get("cat") in ("kernel", "graph")}
    return launching == EXPECTED_PROCESSES, f"processes {sorted(map(str, launching))}"


def numbers_are_sane(events):
    slices = [event for event in events if event.get("ph") == "X"]
    bad = [event for event in slices
           if not (0 <= event["ts"] < 3.6e9 and 0 <= event["dur"] < 6e8)]
    return bool(slices) and not bad, f"{len(slices)} slices, {len(bad)} with odd times {bad[:2]}"


def rows_do_not_overlap(events):
    rows = collections.defaultdict(list)
    for event in events:
        if event.get("cat") in ("kernel", "graph"):
            rows[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    overlaps = 0
    for spans in rows.values():
        spans.sort()
        overlaps += sum(after[0] < before[1] - 0.002 for before, after in zip(spans, spans[1:]))
    return overlaps == 0, f"{len(rows)} stream rows, {overlaps} overlaps"


def streams_have_rows(events):
    """streams_events launches kernels on three streams: left, right and the legacy default one."""
    names = {event["pid"]: event["args"]["name"] for event in events
             if event.get("ph") == "M" and event["name"] == "process_name"}
    rows = {event["tid"] for event in events if event.get("cat") == "kernel"
            and names.get(event["pid"]) == "streams_events"}
    return len(rows) >= 3, f"{len(rows)} rows of streams_events"


CHECKS = [kernels_are_expected, graphs_are_expected, processes_are_named, numbers_are_sane,
          rows_do_not_overlap, streams_have_rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    parser.add_argument("--device", choices=["sim", "gpu"], default="gpu")
    parser.add_argument("--form", default="shared", help="shared or static (default shared)")
    parser.add_argument("--keep", help="leave the trace here")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--json")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    folder = f"{build}/apps/{options.form}"
    script = f"{folder}/streams_events && {folder}/fork_exec && {folder}/cuda_graph"
    with tempfile.TemporaryDirectory(prefix="trace-sanity-") as scratch:
        trace = os.path.abspath(options.keep or scratch + "/trace.json")
        try:
            environ = runner.environment(build, options.device)
            command = runner.cupola_command(build, options.device, trace)
            result = runner.run(command + ["/bin/sh", "-c", script], environ, options.timeout)
        except runner.NotPossible as reason:
            print(f"trace_sanity: {reason}", file=sys.stderr)
            return runner.NOT_POSSIBLE_HERE
        events = runner.load_trace(trace)
    rows = [{"check": "programs_end_well", "good": result["code"] == 0,
             "found": runner.describe_code(result["code"])},
            {"check": "trace_is_json", "good": bool(events),
             "found": f"{len(events or [])} events"}]
    for check in CHECKS if events else []:
        good, found = check(events)
        rows.append({"check": check.__name__, "good": good, "found": found})
    for row in rows:
        print(f"{'ok ' if row['good'] else 'BAD'} {row['check'].replace('_', ' ')}: {row['found']}")
    if result["code"] != 0:
        print(result["stderr"].decode(errors="replace")[-800:])
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"checks": rows}, file, indent=1)
    return 0 if len(rows) > 2 and all(row["good"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
