"""What Cupola adds to a launch: the hook over a null driver, launches on a device, PyTorch's eager
loop.

Each step returns {"metrics": {name: number}, "detail": {...}}; names ending in _ns are nanoseconds.
docs/results/launch-cost.md says how each is measured. Standard library only."""
import json
import os
import subprocess
import tempfile

import runner
import sampling


class StepFailed(Exception):
    """A program of a step failed; the message says which and how."""


def run_json(command, environ, seconds):
    """Runs a program that prints one JSON object."""
    result = runner.run(command, environ, seconds)
    text = result["stdout"].decode(errors="replace")
    if result["code"] != 0:
        raise StepFailed(f"{' '.join(command)}: {runner.describe_code(result['code'])} "
                         f"{result['stderr'].decode(errors='replace')[-400:]}")
    return json.loads(text)


def pinned(core):
    """A command prefix that keeps a program on one core; empty if there is no tool for that."""
    found = subprocess.run(["taskset", "-c", str(core), "true"], capture_output=True)
    return ["taskset", "-c", str(core)] if found.returncode == 0 else []


def hook(build, rounds=5):
    """hook_bench over the null driver, `rounds` processes of each configuration, medians over them.
    """
    null_driver = build + "/null_driver"
    if not os.path.isdir(null_driver):
        null_driver = build + "/tests/preload/null_driver"
    configurations = {"": {"CUPOLA_RECORDS": None}, "_no_records": {},
                      "_call_times": {"CUPOLA_RECORDS": None, "CUPOLA_TIMING": "host"}}
    runs = {suffix: [] for suffix in configurations}
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for _ in range(rounds):
            for suffix, additions in configurations.items():
                environ = {key: value for key, value in os.environ.items()
                           if not key.startswith("CUPOLA_")}
                environ.update({key: value or folder for key, value in additions.items()})
                environ.update({"LD_PRELOAD": build + "/lib/libcupola.so",
                                "CUPOLA_DRIVER": null_driver + "/libcuda.so.1"})
                runs[suffix].append(run_json([build + "/bin/hook_bench",
                                              null_driver + "/past_cupola.so"], environ, 60))
    metrics = {}
    for suffix, results in runs.items():
        for key in ("p50", "p99", "batch_p50"):
            metrics[f"hook_ns_{key}{suffix}"] = round(
                sampling.median(result[f"hook_ns_{key}"] for result in results), 1)
    return {"metrics": metrics, "detail": {key or "records": value for key, value in runs.items()}}


def interleaved(commands, parse, pairs, environ, seconds, seed):
    """Runs `commands` = (plain, cupola) in pairs, each first in every other pair. Returns a figure for each run.
    """
    figures = ([], [])
    for first in sampling.orders(pairs, seed):
        for which in (first, 1 - first):
            figures[which].append(parse(run_json(commands[which], environ, seconds)))
    return figures


def launches(build, device, pairs=20, batches=200, seed=1):
    """Empty kernels back to back: processes in turns, plain and under `cupola run` without and with
    records; and, within one process, through the hook and past it in turns."""
    environ = runner.environment(build, device)
    program = [build + "/bin/launch_bench"]
    prefix = pinned(1 if (os.cpu_count() or 1) > 1 else 0)
    cupola = runner.cupola_command(build, device)
    with_records = cupola[:-1] + ["--stats", "--timing", "none", "--"]
    timed = program + ["time", str(batches)]
    metrics, detail = {}, {}
    for name, under in (("", cupola), ("_records", with_records)):
        plain, other = interleaved(
            (prefix + timed, under + prefix + timed), lambda result: sampling.median(result["ns"]),
            pairs, environ, 60, seed)
        middle, low, high = sampling.paired_difference(plain, other, seed)
        metrics.update({f"launch_plain_ns_median{name}": round(sampling.median(plain), 1),
                        f"launch_added_ns_median{name}": round(middle, 1),
                        f"launch_added_ns_ci_low{name}": round(low, 1),
                        f"launch_added_ns_ci_high{name}": round(high, 1)})
        detail["processes" + name] = {"plain_ns": plain, "cupola_ns": other}
    with tempfile.TemporaryDirectory() as folder:
        past = past_cupola(folder, build, device, environ)
        results = [run_json(cupola + prefix + program + ["ab", past, str(batches)], environ, 60)
                   for _ in range(max(1, pairs // 4)) if past]
    if results:
        through = [value for result in results for value in result["ns"]]
        past = [value for result in results for value in result["past_ns"]]
        middle, low, high = sampling.paired_difference(past, through, seed)
        metrics.update({"launch_added_in_process_ns_median": round(middle, 1),
                        "launch_added_in_process_ns_ci_low": round(low, 1),
                        "launch_added_in_process_ns_ci_high": round(high, 1)})
        detail["in_process"] = {"batches": len(past), "past_ns": round(sampling.median(past), 1)}
    return {"metrics": metrics, "detail": detail}


def real_driver(build, device, environ):
    """The path of the driver that programs on `device` use."""
    if device == "sim":
        return build + "/lib/sim/libcuda.so.1"
    maps = "import ctypes; ctypes.CDLL('libcuda.so.1'); print(open('/proc/self/maps').read())"
    result = runner.run(["python3", "-c", maps], environ, 60)
    for line in result["stdout"].decode(errors="replace").splitlines():
        path = line.split()[-1]
        if os.path.basename(path).startswith("libcuda.so"):
            return path
    return None


def past_cupola(folder, build, device, environ):
    """A way past Cupola: the path, in `folder`, of a link to the real driver whose name Cupola does not
    stand in for. None where there is no driver."""
    driver = real_driver(build, device, environ)
    link = os.path.join(folder, "past_cupola.so")
    if driver is None:
        return None
    if not os.path.islink(link):
        os.symlink(driver, link)
    return link


def torch_eager(build, device, python, processes=8, pairs=6, iterations=2000, seconds_left=None,
                seed=1):
    """tests/bench/torch_eager_loop.py with the launch hooks on and off in turns within each of some
    processes, without and with records; and plain processes and ones under `cupola run` in turns,
    which differ among each other by more than a hook costs, as a check of the whole."""
    environ = runner.environment(build, device)
    prefix = pinned(2)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_eager_loop.py")
    program = prefix + [python, script, "--iterations", str(iterations)]
    cupola = runner.cupola_command(build, device)
    with_records = cupola[:-1] + ["--stats", "--timing", "none", "--"]
    metrics, detail = {}, {}
    for name, under, count in (("", cupola, processes), ("_records", with_records, processes // 2)):
        slowdowns, plain = [], []
        for _ in range(count):
            if seconds_left is not None and seconds_left() < 40 and len(slowdowns) >= 3:
                break
            result = run_json(under + program + ["--switch"], environ, 120)
            plain.append(sampling.median(result["plain_us"]))
            slowdowns.append(100 * (sampling.median(result["us"]) / plain[-1] - 1))
        low, high = sampling.bootstrap(slowdowns, seed=seed)
        metrics.update({f"torch_eager_slowdown_pct{name}": round(sampling.median(slowdowns), 3),
                        f"torch_eager_slowdown_pct_ci_low{name}": round(low, 3),
                        f"torch_eager_slowdown_pct_ci_high{name}": round(high, 3)})
        if not name:
            metrics["torch_eager_plain_us_an_operation"] = round(sampling.median(plain), 4)
        detail["switched" + name] = {"pairs_of_a_process": iterations, "slowdown_pct": slowdowns,
                                     "plain_us": plain}
    figures = ([], [])
    for first in sampling.orders(pairs, seed):
        if seconds_left is not None and seconds_left() < 40:
            break
        for which in (first, 1 - first):
            command = program if which == 0 else cupola + program
            figures[which].append(sampling.median(run_json(command, environ, 120)["us"]))
    slowdowns = [100 * (b / a - 1) for a, b in zip(*figures, strict=True)]
    if slowdowns:
        low, high = sampling.bootstrap(slowdowns, seed=seed)
        metrics.update({"torch_eager_processes_slowdown_pct": round(sampling.median(slowdowns), 3),
                        "torch_eager_processes_slowdown_pct_ci_low": round(low, 3),
                        "torch_eager_processes_slowdown_pct_ci_high": round(high, 3)})
    detail["processes"] = {"plain_us": figures[0], "cupola_us": figures[1]}
    return {"metrics": metrics, "detail": detail}
