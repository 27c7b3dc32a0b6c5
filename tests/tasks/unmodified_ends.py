"""Checks how unmodified programs end whose narrow launches are tasks: killed, alone and under an arbiter, and
waiting for a task that takes very long. Each check takes a Bed and returns what is wrong, or ""."""
import glob
import json
import os
import re
import signal
import subprocess
import threading
import time

import runner
from unmodified_bed import counts, strict

KILLED_BEHIND = {"sim": 3, "gpu": 300}  # lines, of a thousand launches each
ATTEMPTS = 3  # of a run on a machine that is very busy
LONG_MS, NOTICE_MS = {"sim": 1500, "gpu": 800}, {"sim": 500, "gpu": 300}
NOTICE = re.compile(r"a task has not ended for (\d+) ms while the program waits: (\S+);")
FLUSHES, OTHER_WORK = re.compile(r"(\d+) flushes"), "launches plain: other work in the stream"
STATE_SECONDS = 5  # until the arbiter must know


def kill_in_flight(bed, environ, look=lambda pid: ""):
    """Starts narrow_faults and kills it with launches in flight. Returns what is wrong, or "". `look` is called
    before the kill, with the process id, and returns what is wrong, too."""
    command = [*runner.cupola_command(bed.build, bed.device), bed.narrow("narrow_faults"), "killed"]
    wanted, seen = KILLED_BEHIND[bed.device], 0
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True, preexec_fn=runner.prepare_child)
    too_long = threading.Timer(60, os.killpg, (process.pid, signal.SIGKILL))
    too_long.start()
    try:
        while seen < wanted and process.stdout.readline():
            seen += 1
        problem = look(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        _, said = process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        return "alive 20 s behind SIGKILL"
    finally:
        too_long.cancel()
    if seen != wanted or process.returncode != -signal.SIGKILL:
        return f"ended too soon: {runner.describe_code(process.returncode)} {said[-300:]}"
    return problem


def goes_well(bed, **more):
    """Checks that another program's launches become tasks and give the right results."""
    result = bed.run(bed.narrow("narrow_launches"), "3", **more)
    if result["code"] != 0 or counts(result["said"])[0] == 0:
        return f"behind it: {runner.describe_code(result['code'])} {result['said'][-300:]}"
    return ""


def shared_memory():
    """Names of Cupola's objects in shared memory, without the simulated device's, which all programs share."""
    return {path for path in glob.glob("/dev/shm/*cupola*") if "token" not in path}


def killed(bed):
    before = shared_memory()
    problem = kill_in_flight(bed, bed.settings())
    left = shared_memory() - before
    return problem or (f"left behind: {left}" if left else "") or goes_well(bed)


def killed_under_an_arbiter(bed):
    """After the program is killed its board slot is free for others."""
    socket = os.path.join(bed.folder, "arbiter.sock")
    more = {"CUPOLA_SOCKET": socket, "CUPOLA_PREEMPT": "always"}
    cupola = f"{bed.build}/bin/cupola"
    daemon = subprocess.Popen([cupola, "serve"], env={**bed.environ, **more},
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def clients():
        shown = subprocess.run([cupola, "ctl", "--json", "show"], env={**bed.environ, **more},
                               capture_output=True, text=True, timeout=20)
        return [client["pid"] for gpu in json.loads(shown.stdout)["gpus"]
                for client in gpu["clients"]]

    try:
        if not daemon.stdout.readline().startswith(b"listening"):
            return "no arbiter"
        problem = kill_in_flight(bed, bed.settings(**more),
                                 lambda pid: "" if clients() == [pid] else "not on the board")
        until = time.monotonic() + STATE_SECONDS
        while clients() and time.monotonic() < until:
            time.sleep(0.01)  # between two looks
        left = clients()
        return (problem or (f"killed, and on the board: {left}" if left else "") or
                goes_well(bed, **more))
    finally:
        daemon.kill()
        daemon.communicate()


def named_when_long(bed):
    """A program that waits for a task which does not end waits as for the kernel, and says once which kernel it is."""
    program, long_ms, notice_ms = (bed.narrow("narrow_faults"), LONG_MS[bed.device],
                                   NOTICE_MS[bed.device])
    more = {"LONG_MS": str(long_ms)}
    outputs = {}  # of plain runs
    for how, after_ms, is_named in (("wait", notice_ms, True), ("ask", notice_ms, True),
                                    ("default", notice_ms, True), ("apart", notice_ms, True),
                                    ("device", notice_ms, True), ("full", notice_ms, True),
                                    ("event", notice_ms, True), ("wait", 0, False)):
        run = f"{how}, notice after {after_ms} ms"
        if how not in outputs:
            outputs[how] = bed.plain(program, "long", how, **more)
        plain = outputs[how]
        for _ in range(ATTEMPTS):
            tasks = bed.run(program, "long", how, CUPOLA_TASK_NOTICE_MS=str(after_ms), **more)
            if (plain["code"], plain["stdout"]) != (tasks["code"], tasks["stdout"]):
                return (f"{run}: plain {plain['code']} {plain['stdout']}, as tasks {tasks['code']} "
                        f"{tasks['stdout']} {tasks['said'][-300:]}")
            named = NOTICE.findall(tasks["said"])
            found = [int(ms) for ms, kernel in named if "Long" in kernel]
            is_right = len(found) == is_named and all(ms >= after_ms for ms in found)
            # On a machine that is very busy other kernels are named as well, and rightly; it may be too late then.
            if is_right or len(found) == len(named):
                break
        if not is_right or counts(tasks["said"])[0] == 0:
            return f"{run}: named {found}, {tasks['said'][-300:]}"
    return ""


def difference(plain, tasks):
    """Compares a program whose launches are to be tasks with its plain run. Returns what is wrong, or ""."""
    same = (plain["code"], plain["stdout"]) == (tasks["code"], tasks["stdout"])
    if same and counts(tasks["said"])[0] != 0:
        return ""
    codes = [runner.describe_code(run["code"]) for run in (plain, tasks)]
    return (f"plain {codes[0]} {plain['stdout']}, as tasks {codes[1]} {tasks['stdout']} "
            f"{tasks['said'][-300:]}")


def wide_beside_a_flood(bed):
    """A wide launch takes so long to reach the device that the MasterKernel which was asked to leave for it has
    gone and another one has begun: that one leaves as well, although it gets tasks all the time."""
    program = bed.narrow("narrow_faults")
    plain = bed.plain(program, "wide")
    tasks = bed.run(program, "wide", **strict(bed.build, bed.device, STRICT_LATE_MS="600"))
    return difference(plain, tasks)


def unloaded_beside_a_copy(bed):
    """A module is unloaded while another thread, which has found that it may put a copy in, still queries whether
    the stream has driver work: the MasterKernel of that module is not launched any more."""
    program = bed.narrow("narrow_faults")
    plain = bed.plain(program, "unload")
    tasks = bed.run(program, "unload", **strict(bed.build, bed.device, STRICT_QUERY_MS="200"))
    if any(word in tasks["said"] for word in ("cannot be launched", "no MasterKernel")):
        return tasks["said"][-300:]
    return difference(plain, tasks)


def ended_while_waited_for(bed):
    """A context ends while a thread of another context, which waits for the tasks of all, queries whether the first
    one has faulted."""
    program = bed.narrow("narrow_contexts")
    plain = bed.plain(program, "ends")
    tasks = bed.run(program, "ends", **strict(bed.build, bed.device, STRICT_QUERY_MS="200"))
    return difference(plain, tasks)


def comes_again(bed):
    """The device's own context ends and comes again, perhaps with the same handle, and a second holder gives it back
    before anything is launched in it: what served the context that ended does not come back to life."""
    program = bed.narrow("narrow_contexts")
    plain = bed.plain(program, "again")
    tasks = bed.run(program, "again", CUPOLA_TASKS="auto", CUPOLA_TASKS_AFTER="0", CUPOLA_TASK_US="1", CUPOLA_TASK_TRIALS="0")
    if counts(tasks["said"])[0] != 3 * 24:
        return f"not all launches are tasks: {tasks['said'][-300:]}"
    return difference(plain, tasks)


def copy_beside_a_flood(bed):
    """A synchronous copy reaches the device when no MasterKernel is there, beside a thread whose tasks come
    without a pause: the copy does not starve."""
    program = bed.narrow("narrow_launches")
    plain = bed.plain(program, "1")
    return difference(plain, bed.run(program, "1", **strict(bed.build, bed.device, STRICT_ROOM="1")))


def copies_in_their_stream(bed):
    """A copy that the driver makes in one stream is no driver work of another stream, whose launches stay tasks."""
    program = bed.narrow("narrow_launches")
    plain = bed.plain(program, "1", "batches")
    tasks = bed.run(program, "1", "batches")
    flushes = FLUSHES.search(tasks["said"])
    if OTHER_WORK in tasks["said"] or flushes is None or int(flushes.group(1)) != 0:
        return tasks["said"][-300:]
    return difference(plain, tasks)


CHECKS = {"killed": killed, "killed under an arbiter": killed_under_an_arbiter,
          "named when long": named_when_long, "wide beside a flood": wide_beside_a_flood,
          "unloaded beside a copy": unloaded_beside_a_copy,
          "copy beside a flood": copy_beside_a_flood,
          "copies in their stream": copies_in_their_stream,
          "ended while waited for": ended_while_waited_for,
          "comes again": comes_again}
