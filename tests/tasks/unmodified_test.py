#!/usr/bin/env python3
"""Runs programs that know nothing of tasks, plain and with their launches as tasks: their output is
the same, and launches do become tasks (on a GPU, which runs faster, it is only said how many).

  unmodified_test.py --build DIR [--device gpu] [--json FILE] [APP or CHECK...]
     Without: all programs, the same again asked to yield, and OTHERS below; "programs", "programs asked
     to yield" and the names of OTHERS: each by itself. CHECK: "killed" ..., of CHECKS below. Names of
     GROUPS: all of that group.
     77: something that it needs is not built
"""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/apps"))
sys.path.insert(0, os.path.join(ROOT, "tests/preempt"))
import pestered_board  # noqa: E402
import runner  # noqa: E402
import unmodified_ends  # noqa: E402
import unmodified_reasons  # noqa: E402
from unmodified_bed import Bed, COUNTED, counts, taking_part, under_cupola  # noqa: E402

# Programs, and whether some of their launches are narrow enough to be tasks.
APPS = {"tasks/narrow_launches_shared 5": True, "tasks/narrow_threads_shared 5": True,
        "tasks/narrow_chain_shared 2 500": True,
        "tasks/narrow_copies_shared 6": True, "tasks/narrow_contexts_shared 3": True,
        "tasks/narrow_modules_shared 12": True,
        "tasks/narrow_modules_shared 4 2": True, "tasks/narrow_faults_shared trap": True,
        "tasks/narrow_faults_shared trap ask": True, "tasks/narrow_faults_shared trap default": True,
        "tasks/narrow_faults_shared trap event": True, "tasks/narrow_faults_shared exit": True,
        "tasks/narrow_faults_shared reset": True,
        "tasks/narrow_faults_shared capture": True, "tasks/narrow_faults_shared threads": True,
        "tasks/narrow_faults_shared legacy": True, "tasks/narrow_faults_shared fork": True,
        "tasks/narrow_faults_shared modules": True, "tasks/narrow_faults_shared memory": True,
        "tasks/narrow_order_shared 2": True, "shared/vector_add": False,
        "shared/matmul_tiled": False, "shared/histogram": False,
        "shared/reduce_early_return": False, "shared/stencil_constant": False,
        "shared/device_globals": False, "shared/cub_scan_select": False,
        "shared/streams_events": False, "shared/warp_scan": False, "shared/dynamic_shared": False,
        "shared/many_arguments": False, "shared/launch_ex": False,
        "shared/per_thread_stream": False, "shared/cuda_graph": False,
        "driver/driver_api": False, "driver/driver_reload": True,
        "shared/function_pointer": False, "shared/fork_exec": False, "shared/exit_codes": False,
        "shared/pagoda_mb": True, "shared/pagoda_fb": True, "shared/pagoda_mm": True,
        "shared/pagoda_3des": True, "shared/pagoda_bf": True, "shared/pagoda_conv": True,
        "shared/pagoda_dct": True, "shared/pagoda_slud": True, "shared/pagoda_mpe": True}
# The programs that run again as processes that take part in preemption, over a driver that forbids what would
# hang a GPU (tests/preempt/strict_driver.cpp), while they are asked to yield all the time.
ASKED = ["tasks/narrow_launches_shared 3", "tasks/narrow_threads_shared 3",
         "tasks/narrow_copies_shared 2", "tasks/narrow_contexts_shared 2",
         "tasks/narrow_modules_shared 4",
         "tasks/narrow_faults_shared trap",
         "tasks/narrow_faults_shared legacy", "tasks/narrow_faults_shared fork",
         "tasks/narrow_faults_shared modules", "tasks/narrow_faults_shared memory",
         "tasks/narrow_order_shared 1", "shared/pagoda_mb"]
MPS_APP, FAULTS_APP = "tasks/narrow_launches_shared", "tasks/narrow_faults_shared"
ARGUMENTS = {"pagoda": ["--tasks", "24", "--no-times"]}
HOLDS = re.compile(r"(\d+) holds")
TURNED = re.compile(r"(\d+) turns to another module")
HEEDED, PACKED = "launches plain: asked to yield", "launches plain: arguments"
LONG = "launches plain: long"
CHAIN_LAUNCHES = 2000  # of a round of narrow_chain
ONCE_MS = 100_000  # found long once, launches pass by to the end
TRIAL, ELSEWHERE = "launches plain: on trial", "launches plain: another module"


def compare(build, device, app, environ, folder, asked):
    """Compares a program's run with tasks to its plain run. Returns what is wrong, or "", and the counts."""
    store = os.path.join(folder, "store")
    program, *arguments = f"{build}/apps/{app}".split()
    if not os.path.exists(program):
        raise runner.NotPossible(f"no {program}: build it first")
    if problem := runner.build_variants(build, store, program):
        return problem, None
    name = os.path.basename(program)
    command = [program, *arguments,
               *next((more for word, more in ARGUMENTS.items() if name.startswith(word)), [])]
    plain = runner.run(command, environ, 60)
    more = {"CUPOLA_STORE": store, "CUPOLA_TASKS": "always", "CUPOLA_LOG": "info"}
    if asked:
        board = pestered_board.Board(folder)
        more.update(taking_part(build, device, board))
    # Asked for longer than a burst of tasks lasts, then left in peace for as long, so that tasks begin anew many times.
    with pestered_board.pestering(board, 0.012) if asked else contextlib.nullcontext():
        tasks = runner.run([*under_cupola(build, device, more), *command], {**environ, **more}, 100)
    if (plain["code"], plain["stdout"]) != (tasks["code"], tasks["stdout"]):
        return (f"plain {plain['code']} {plain['stdout'][-300:]}, as tasks {tasks['code']} "
                f"{tasks['stdout'][-300:]} {tasks['stderr'][-300:]}"), None
    # Only a program that runs for long must have yielded: others may be over before their agent has been asked.
    is_long = asked and device == "sim" and name.startswith("narrow_launches")
    if is_long and board.answered == 0:
        return f"asked to yield {board.asked} times, it never said that it had", None
    said = tasks["stderr"].decode(errors="replace")
    if is_long and HEEDED not in said:
        return "it was asked to yield, and launches became tasks nevertheless", None
    if is_long and not any(int(count) for count in HOLDS.findall(said)):
        return "it was asked to yield, and its tasks were run first", None
    if PACKED in said:
        return "launches with packed arguments did not become tasks", None
    turned = TURNED.search(said)
    by_turns = "modules" in name and len(arguments) < 2 and not asked
    if by_turns and (turned is None or int(turned.group(1)) < 2):
        return f"only one module's launches became tasks: {said[-300:]}", None
    if by_turns and ELSEWHERE not in said:
        return f"no launch came before its module's turn: {said[-300:]}", None
    counted = COUNTED.search(said)
    if len(COUNTED.findall(said)) > 1:
        return f"a child says what its parent counted: {said[-300:]}", None
    numbers = [int(word) for word in counted.groups()] if counted else [0, 0, 0]
    if device == "sim" and APPS.get(app) and not asked and numbers[0] == 0:
        return f"no launch became a task: {said[-300:]}", None
    if name == "driver_reload" and numbers[0] < (60 if asked else 200):
        return f"a module that was loaded again makes no tasks: {numbers[0]} launches", None
    return "", numbers


def demand_ends(build, device, environ, folder):
    """A task traps, and its program makes no more calls: its demand ends. Returns what is wrong, or ""."""
    board = pestered_board.Board(folder)
    environ = {**environ, **taking_part(build, device, board), "CUPOLA_TASKS": "always",
               "CUPOLA_STORE": os.path.join(folder, "store"), "CUPOLA_LOG": "info"}
    program = f"{build}/apps/{FAULTS_APP}"
    if problem := runner.build_variants(build, environ["CUPOLA_STORE"], program):
        return problem
    command = [*under_cupola(build, device, environ), program, "lurk"]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as running:
        try:
            running.stdout.readline()
            until = time.monotonic() + 10
            while board.has_demand() and time.monotonic() < until:
                time.sleep(0.01)
            ended = not board.has_demand()
            _, said = running.communicate(timeout=60)
        finally:
            running.kill()
    said = said.decode(errors="replace")
    counted = COUNTED.search(said)
    had_demand = re.search(r"[1-9]\d* demands", said) is not None  # it may be over before this test looks at the board
    if not had_demand or not ended or counted is None:
        return f"demand {had_demand}, ended {ended}: {said[-300:]}"
    return ""


def beside_mps(build, device, environ, folder):
    """Under MPS without an arbiter no launch becomes a task. Returns what is wrong, or ""."""
    program = f"{build}/apps/{MPS_APP}"
    command = [*runner.cupola_command(build, device), program, "2"]
    more = {"CUPOLA_STORE": os.path.join(folder, "store"), "CUPOLA_TASKS": "auto",
            "CUPOLA_TASKS_AFTER": "0", "CUPOLA_LOG": "info"}
    if problem := runner.build_variants(build, more["CUPOLA_STORE"], program):
        return problem
    pipe = os.path.join(folder, "mps")
    os.makedirs(pipe)
    open(os.path.join(pipe, "control"), "w").close()
    for is_there in (False, True):
        if is_there:
            more["CUDA_MPS_PIPE_DIRECTORY"] = pipe
        result = runner.run(command, {**environ, **more}, 100)
        has_tasks = COUNTED.search(result["stderr"].decode(errors="replace")) is not None
        if result["code"] != 0 or has_tasks == is_there:
            return (f"MPS {is_there}, tasks {has_tasks}: exit {result['code']} "
                    f"{result['stderr'][-300:]}")
    return ""


def long_ones(build, device, environ, folder):
    """Where tasks take longer than they may, only few are made to find that out. Returns what is wrong, or ""."""
    program = f"{build}/apps/tasks/narrow_bench_shared"
    store = f"{folder}/bench"
    if problem := runner.build_variants(build, store, program):
        return problem
    command = [*runner.cupola_command(build, device), program, "--modes", "streams1", "--tasks", "4000",
               "--threads", "40", "--iterations", "3", "--repeat", "1"]
    for microseconds, fewest, most in (("1", 1, 400), ("0", 8000, 8000)):
        more = {"CUPOLA_STORE": store, "CUPOLA_TASKS": "auto", "CUPOLA_TASKS_AFTER": "0",
                "CUPOLA_TASK_US": microseconds, "CUPOLA_LOG": "info"}
        result = runner.run(command, {**environ, **more}, 100)
        said = result["stderr"].decode(errors="replace")
        made, is_limited = counts(said)[0], microseconds != "0"
        if result["code"] != 0 or not fewest <= made <= most or (TRIAL in said) != is_limited:
            return f"at most {microseconds} us: exit {result['code']} {said[-300:]}"
    return ""


def now_and_then(build, device, environ, folder):
    """Where tasks are found too long again and again, launches pass by and become tasks in turn, and their order is
    kept. Returns what is wrong, or ""."""
    form = "static" if device == "gpu" else "shared"
    for app, quiet_ms in (("narrow_chain 10", 1), ("narrow_chain 3", ONCE_MS), ("narrow_launches 4", 1),
                          ("narrow_threads 4", 1), ("narrow_copies 5", 1), ("narrow_order 1", 1),
                          ("narrow_contexts 3", 1)):
        name, *arguments = app.split()
        program = f"{build}/apps/tasks/{name}_{form}"
        store = f"{folder}/{os.path.basename(program)}"
        if problem := runner.build_variants(build, store, program):
            return problem
        more = {"CUPOLA_STORE": store, "CUPOLA_TASKS": "auto", "CUPOLA_TASKS_AFTER": "0",
                "CUPOLA_TASK_US": "1", "CUPOLA_TASK_TRIALS": "0", "CUPOLA_TASK_QUIET_MS": str(quiet_ms),
                "CUPOLA_LOG": "info"}
        plain = runner.run([program, *arguments], environ, 100)
        result = runner.run([*runner.cupola_command(build, device), program, *arguments],
                            {**environ, **more}, 100)
        if (plain["code"], plain["stdout"]) != (result["code"], result["stdout"]):
            return (f"{app}: plain {plain['code']} {plain['stdout'][-300:]}, now and then as tasks "
                    f"{result['code']} {result['stdout'][-300:]} {result['stderr'][-300:]}")
        said = result["stderr"].decode(errors="replace")
        if "chain" in app and (counts(said)[0] == 0 or LONG not in said):
            return f"{app}: never found long: {said[-300:]}"
        counted = counts(said)[0] + sum(unmodified_reasons.reasons_of(said).values())
        if "chain" in app and counted != int(arguments[0]) * CHAIN_LAUNCHES:
            return f"{app}: {counted} launches were counted: {said[-300:]}"
    return ""


def by_plan(build, device, environ, folder):
    """Launches of kernels that are known to take too long do not become tasks, unless the operator wants them to.
    Returns what is wrong, or ""."""
    program = [f"{build}/apps/tasks/narrow_bench_shared", "--modes", "streams1", "--tasks", "200",
               "--threads", "40", "--iterations", "400", "--repeat", "1"]
    cupola, profile, plan, store = (f"{build}/bin/cupola", f"{folder}/long.json",
                                    f"{folder}/long.plan", f"{folder}/store")
    for command in ([cupola, "profile", "--device", device, "--out", profile, "--", *program],
                    [cupola, "train", profile, "--out", plan]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            return f"{' '.join(command[:2])}: {done.stderr[-300:]}"
    if problem := runner.build_variants(build, store, program[0]):
        return problem
    board = pestered_board.Board(folder)
    more = {**taking_part(build, device, board), "CUPOLA_STORE": store, "CUPOLA_TASKS": "auto",
            "CUPOLA_TASKS_AFTER": "0", "CUPOLA_LOG": "info"}
    for plan_used, limit, has_tasks in (("", {}, True), (plan, {}, False),
                                        (plan, {"CUPOLA_TASK_US": "0"}, True)):
        result = runner.run([*under_cupola(build, device, more), *program],
                            {**environ, **more, **limit, "CUPOLA_PLAN": plan_used or "/none"}, 100)
        said = result["stderr"].decode(errors="replace")
        if result["code"] != 0 or (COUNTED.search(said) is not None) != has_tasks:
            return f"plan {bool(plan_used)}, limit {limit}: exit {result['code']} {said[-300:]}"
    return ""


# With all programs, on the simulated device.
OTHERS = {"beside MPS": beside_mps, "demand ends": demand_ends, "long ones": long_ones,
          "now and then": now_and_then, "by plan": by_plan}
PROGRAMS, PROGRAMS_ASKED = "programs", "programs asked to yield"
# By name.
CHECKS = {**unmodified_ends.CHECKS, **unmodified_reasons.CHECKS}
# All of them, by one name.
GROUPS = {"others": OTHERS, "ends": unmodified_ends.CHECKS, "reasons": unmodified_reasons.CHECKS}


def main():
    parser = runner.parser(__doc__)
    parser.add_argument("apps", nargs="*", metavar="APP")
    options = parser.parse_args()
    options.apps = [name for app in options.apps for name in GROUPS.get(app, [app])]
    build = os.path.abspath(options.build)
    found = []

    def note(run, problem, output=None):
        found.append({"run": run, "problem": problem, "output": problem if output is None else output})
        print(f"{run}: {output or problem or 'well'}", flush=True)

    try:
        # As many hardware queues as there may be: these programs have up to 32 streams.
        environ = {**runner.environment(build, options.device), "CUDA_DEVICE_MAX_CONNECTIONS": "32"}
        with tempfile.TemporaryDirectory() as folder:
            groups = {PROGRAMS, PROGRAMS_ASKED, *CHECKS, *OTHERS}
            named = [app for app in options.apps if app not in groups]
            everything = not options.apps
            courses = [(app, asked) for asked in (False, True) for app in named]
            if everything or PROGRAMS in options.apps:
                courses += [(app, False) for app in APPS]
            if everything or PROGRAMS_ASKED in options.apps:
                courses += [(app, True) for app in ASKED]
            for app, asked in courses:
                problem, counted = compare(build, options.device, app, environ, folder, asked)
                output = problem or "{} launches, {} copies, {} starts".format(*counted)
                note(app + (", asked to yield" if asked else ""), problem, output)
            for name, test in OTHERS.items():
                if name in options.apps or everything and options.device == "sim":
                    note(name, test(build, options.device, environ, folder))
            bed = Bed(build, options.device, folder)
            for name in (app for app in options.apps if app in CHECKS):
                note(name, CHECKS[name](bed))
    except runner.NotPossible as reason:
        print(f"unmodified_test: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    return runner.conclude(found, options.json)


if __name__ == "__main__":
    sys.exit(main())
