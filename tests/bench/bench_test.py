"""scripts/bench on the simulated device: it runs, and what it writes has the promised form. Its
times mean nothing there. usage: bench_test.py BUILD launch_cost|arbiter_cost|preemption|narrow|pagoda|flep"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests/apps"), os.path.join(ROOT, "tests/bench")]
import charts  # noqa: E402
import narrow  # noqa: E402
import pagoda  # noqa: E402
LAUNCH_COST = ["hook_ns_p50", "hook_ns_p99", "hook_ns_p50_no_records", "launch_added_ns_median",
               "launch_added_ns_ci_low", "launch_added_ns_ci_high", "launch_plain_ns_median",
               "launch_added_in_process_ns_median"]
ARBITER_COST = [f"{where}arbiter_{name}" for where in ("", "null_") for name in
                [f"added_ns_{kind}{tail}" for kind in ("short", "unknown", "long",
                                                       "short_beside_idle", "long_beside_idle")
                 for tail in ("", "_ci_low", "_ci_high", "_mean", "_p99")] +
                ["plain_ns_short", "plain_ns_long", "added_ns_short_first",
                 "added_ns_short_default_stream"]]
ARBITER_COST += [f"arbiter_added_ns_{kind}_processes" for kind in ("short", "long")]
CELLS = [f"{sharing}_{block}" for sharing in ("nomps", "mps") for block in ("20us", "200us")]
PREEMPTION = [f"hp_{p}_us_{what}" for p in ("p50", "p99")
              for what in ("alone", "alone_mps", "switch_nomps")] + [
    name for cell in CELLS for name in
    [f"batch_rate_ratio_{cell}"] + [f"hp_{p}_us_{system}_{cell}" for p in ("p50", "p99")
                                    for system in ("plain", "cupola")]]
FLEP = ["table1_ratio_worst_pct", "pairs_hp_speedup_mean_mps", "pairs_hp_ceiling_fraction_timeslice",
        "pairs_antt_ceiling_fraction", "triplets_antt_ceiling_fraction", "stp_loss_pct",
        "ffs_share_high_pct", "solo_overhead_mean_pct", "solo_overhead_worst_pct",
        "slicing_overhead_mean_pct", "spatial_overhead_cut_pct", "prediction_error_mean_pct"]
SECTIONS = "inputs,prediction,alone,solo,pairs,equal,triplets,delays,ffs,spatial"
SIZES = ("1us", "13us", "46us")
NARROW = ["single_task_us_p50", "single_task_us_p99", "dependent_task_us", "dependent_stream_speedup"] + [
    f"tasks_per_s_{mode}_{name}" for mode in ("api", "apix8", "streams32", "streams32x8", "graph", "fused")
    for name in SIZES] + [
    f"{what}_{name}" for name in SIZES for what in
    ("unmodified_speedup", "speedup_over_streams32", "speedup_over_graph",
     "apix8_speedup_over_streams32x8")] + [
    f"unmodified_{what}_{name}{end}" for what, names in
    [("ratio", narrow.LONG), ("turns_ratio", narrow.TURNS_IN_PROCESS)]
    for name in names for end in ("", "_ci_low", "_ci_high")] + [
    "leave_us_p50", "leave_us_p99", "leave_queued_us_p50", "idle_leave_us_p50", "idle_leave_us_max",
    "after_idle_task_us_p50", "launch_us_p50"] + [
    f"idle_{process}_per_s_{system}_{cell}" for process in ("batch", "narrow") for system, cell in
    [(system, cell) for system in ("launches", "tasks") for cell in ("nomps", "mps")] +
    [("plain", "noarbiter_nomps"), ("tasks", "noarbiter_nomps")]]
APPS_IN_NARROW = ["apps_geomean_vs_streams", "apps_geomean_vs_graph", "unmodified_apps_geomean",
                  "unmodified_apps_worst"]
PAGODA = [*APPS_IN_NARROW, "irregular_geomean_vs_fused", "shared_speedup_mm"]
BENCHES = {"launch_cost": (LAUNCH_COST, []), "arbiter_cost": (ARBITER_COST, []),
           "preemption": (PREEMPTION, []), "narrow": (NARROW, []),
           "pagoda": (PAGODA, ["--apps", "mb,mm,slud"]),
           "flep": (FLEP, ["--sections", SECTIONS])}


def check_launch_cost(metrics):
    assert metrics["launch_added_ns_ci_low"] <= metrics["launch_added_ns_median"]
    assert metrics["launch_added_ns_median"] <= metrics["launch_added_ns_ci_high"]
    assert metrics["hook_ns_p50"] > 0 and metrics["launch_plain_ns_median"] > 0


def check_arbiter_cost(result):
    """Checks that long launches went out as variants, that the others did not, and that all of them ran."""
    detail, metrics = result["detail"], result["metrics"]
    assert not detail["failures"], detail["failures"]
    for where in ("sim", "null"):
        assert detail["counts"][f"{where} short"]["launches plain: short"] > 0, detail["counts"]
        assert detail["counts"][f"{where} unknown"]["launches plain: no variant"] > 0
    # A launch with its guard costs no less than one without, but for the steps of the clock by which both are measured.
    clock_step_ns = 10
    guarded_ns, plain_ns = metrics["null_arbiter_added_ns_long"], metrics["null_arbiter_added_ns_short"]
    assert 0 < plain_ns < guarded_ns + 2 * clock_step_ns, (plain_ns, guarded_ns)


def check_preemption(result, folder):
    """Every cell has its samples, and every kernel gave the right result."""
    detail = result["detail"]
    assert not detail["failures"], detail["failures"]
    assert len(detail["cells"]) == 8, sorted(detail["cells"])
    assert all(cell["us"]["samples"] == 3 for cell in detail["cells"].values())
    preempted = sum(counts.get("preemptions", 0) for counts in detail["counts"].values())
    assert preempted > 0, detail["counts"]


def write_pages(folder):
    """From the results in a folder, into it; with charts where they can be drawn."""
    what = "plots" if charts.has_matplotlib() else "pages"
    subprocess.run([sys.executable, ROOT + "/scripts/bench", what, "--out", folder, "--pages", folder], check=True,
                   timeout=120)


def check_pagoda(first, command, folder):
    """Checks that all forms ran and gave the same, and that another call leaves what it is not asked for."""
    detail = first["detail"]
    assert not detail["failures"], detail["failures"]
    assert set(detail) > set(pagoda.SECTIONS), sorted(detail)
    for app in ("mb", "mm", "slud"):
        forms = detail["apps"][app]
        assert set(forms) == {*pagoda.FORMS, "plain", "unmodified"}, sorted(forms)
    assert detail["ran"]["scale mb"] == {"tasks": [2, 6], "threads": [128]}, detail["ran"]
    assert set(detail["ran"]["threads mm"]) == {"tasks", "threads"}, detail["ran"]
    command = [*command[:-1], "mb", "--sections", "irregular"]
    environ = {**os.environ, "CUPOLA_COMMIT": "another"}
    subprocess.run(command, check=True, timeout=100, env=environ, capture_output=True)
    second = pagoda.load(folder + "/pagoda.json")
    assert second["detail"]["apps"] == detail["apps"]
    for what, fact in second["detail"]["measured"].items():
        assert (fact["commit"] == "another") == (what == "irregular mb"), (what, fact)
    write_pages(folder)
    with open(folder + "/pagoda.md") as file:
        assert "(pagoda/fig5_apps.svg)" in file.read()


def check_narrow(first, command, folder):
    """Checks that all modes gave the same, and that another call leaves what it is not asked for."""
    assert not first["detail"]["failures"], first["detail"]["failures"]
    for name, base in first["metrics"].items():  # of what went on at all
        if "_per_s_launches_" in name and base > 0:
            assert name.replace("per_s_launches", "loss_pct") in first["metrics"], name
    environ = {**os.environ, "CUPOLA_COMMIT": "another"}
    # The applications' keys come with pagoda.json, by whichever of the two is written last.
    apps = {key: 1.5 for key in APPS_IN_NARROW}
    with open(folder + "/pagoda.json", "w") as file:
        json.dump({"metrics": apps, "commit": "c", "date": "d", "detail": {}}, file)
    subprocess.run([*command, "--sections", "single"], check=True, timeout=100, env=environ,
                   capture_output=True)
    second = pagoda.load(folder + "/narrow.json")
    assert second["detail"]["unmodified"] == first["detail"]["unmodified"]
    assert set(second["metrics"]) == {*first["metrics"], *apps}
    assert apps.items() <= second["metrics"].items()
    for section, fact in second["detail"]["measured"].items():
        assert (fact["commit"] == "another") == (section == "single"), (section, fact)


def check_flep(result, folder):
    """Checks that no checksum differs between plain runs and those under Cupola, and that the page can be made."""
    detail = result["detail"]
    assert not detail["failures"], detail["failures"]
    modes = {f"{system}_{sharing}" for system in ("plain", "cupola")
             for sharing in ("nomps", "mps")}
    for pair, row in detail["pairs"].items():
        assert set(row) == modes, (pair, sorted(row))
    write_pages(folder)
    with open(folder + "/flep.md") as file:
        page = file.read()
    for name in ("fig8_pairs_mps", "fig10_antt", "fig12_triplets", "fig13_ffs_shares",
                 "fig17_solo"):
        assert f"(flep/{name}.svg)" in page, name


def check_flep_goes_on(first, command, folder):
    """A second call takes its own section anew, on another commit, and leaves the others."""
    command = [word for word in command if word != SECTIONS] + ["alone"]
    environ = {**os.environ, "CUPOLA_COMMIT": "another"}
    subprocess.run(command, check=True, timeout=100, env=environ, capture_output=True)
    with open(folder + "/flep.json") as file:
        second = json.load(file)
    for section in set(SECTIONS.split(",")) - {"alone"}:
        assert second["detail"][section] == first["detail"][section], section
    then, now = (result["detail"]["measured"] for result in (first, second))
    assert set(then) == set(now) and second["commit"] == "another", sorted(now)
    for what, fact in now.items():
        assert (fact["commit"] == "another") == (what.split(" ")[0] == "alone"), (what, fact)
        assert what.startswith("alone") or fact == then[what], (what, fact)
    modes = [f"{section} {system}_{sharing}" for section in ("pairs", "equal", "triplets", "ffs")
             for system in ("plain", "cupola") for sharing in ("nomps", "mps")]
    assert set(modes) < set(now), sorted(now)
    assert set(second["metrics"]) == set(first["metrics"])


def main():
    build, what = sys.argv[1:]
    names, arguments = BENCHES[what]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, ROOT + "/scripts/bench", what, "--build", build, "--device",
                   "sim", "--quick", "--out", folder, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
        print(done.stdout, done.stderr)
        with open(f"{folder}/{what}.json") as file:
            result = json.load(file)
        assert set(result) == {"machine", "date", "commit", "metrics", "detail"}, sorted(result)
        for name in names:
            assert isinstance(result["metrics"].get(name), (int, float)), name
        if what == "launch_cost":
            check_launch_cost(result["metrics"])
        elif what == "arbiter_cost":
            check_arbiter_cost(result)
        elif what == "preemption":
            check_preemption(result, folder)
        elif what == "narrow":
            check_narrow(result, command, folder)
        elif what == "pagoda":
            check_pagoda(result, command, folder)
        else:
            check_flep(result, folder)
            check_flep_goes_on(result, command, folder)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
