"""Checks the reasons for which launches of unmodified programs stay with the driver, and the operator's settings.
narrow_reasons.cu brings each reason about, and the check looks for it in the log. Each check takes a Bed and
returns what is wrong, or ""."""
import re

import pestered_board
import runner
from unmodified_bed import counts, strict, taking_part

# The way in which narrow_reasons launches, settings, the reason in the log, and the least number of such launches.
REASONS = (("body", {}, "no body", 10), ("wide", {}, "not narrow", 10),
           ("inexact", {}, "not bit-exact", 10), ("attribute", {}, "attribute", 10),
           ("arguments", {}, "arguments", 10), ("capturing", {}, "capturing", 10),
           ("none", {"CUPOLA_TASKS": "auto", "CUPOLA_TASKS_AFTER": "3"}, "few in a row", 3),
           ("stream", {}, "default stream beside others", 10),
           ("work", {}, "other work in the stream", 10), ("scope", {}, "waiting scope", 1),
           ("green", {}, "green context", 100), ("green-context", {}, "green context", 100),
           ("dead", {}, "no MasterKernel", 10), ("mixed", {}, "mixed with wide ones", 1))
BUSY = "busy before the first task"
SAID = re.compile(r"(tasks|preemption): (\d+) launches plain: (.*)")
NARROW = "none"  # the way of which no launch stays with the driver


def run_way(bed, *way, **more):
    """Runs a program with tasks and compares its output with that of plain launches. Returns what is wrong, or "",
    and the log."""
    program = bed.narrow("narrow_reasons")
    plain, tasks = bed.plain(program, *way), bed.run(program, *way, **more)
    if (plain["code"], plain["stdout"]) != (tasks["code"], tasks["stdout"]):
        return (f"{way} {more}: plain {runner.describe_code(plain['code'])} {plain['stdout']}, as "
                f"tasks {runner.describe_code(tasks['code'])} {tasks['stdout']} "
                f"{tasks['said'][-300:]}"), ""
    return "", tasks["said"]


def reasons_of(said, of="tasks"):
    """{reason: launches that stayed with the driver}; `of`: "tasks" or "preemption"."""
    return {reason: int(number) for whose, number, reason in SAID.findall(said) if whose == of}


def each_reason(bed):
    """Checks all reasons but "another module", "asked to yield" and "on trial", which have checks of their own."""
    problem, said = run_way(bed, NARROW)
    known = set(reasons_of(said)) - {"other work in the stream"}  # sometimes, behind the first copies
    if problem or known or counts(said)[0] == 0:
        return problem or f"narrow launches alone: {known} {said[-300:]}"
    for way, more, reason, least in REASONS:
        problem, said = run_way(bed, way, **more)
        found = reasons_of(said).get(reason, 0)
        if not problem and (found < least or counts(said)[0] == 0):
            problem = f"{way}: {found} launches plain: {reason}, not {least}: {said[-300:]}"
        if problem:
            return problem
    return ""


def behind_waits(bed):
    """While a stream waits for a word that the program's only thread is to write, Cupola calls nothing that waits
    for the device: it loads kernels and modules before that, or not at all."""
    for way, more, reason in (("work", {}, "other work in the stream"),
                              ("blocked", {"CUPOLA_TASKS": "auto", "CUPOLA_TASKS_AFTER": "1",
                                           "CUPOLA_TASK_PATIENCE_MS": "200"}, BUSY)):
        problem, said = run_way(bed, way, **more, **strict(bed.build, bed.device, STRICT_HOST_WAITS="1"))
        found = reasons_of(said).get(reason, 0)
        if not problem and (found < 10 or counts(said)[0] == 0):
            problem = f"{way}: {found} launches plain: {reason}: {said[-300:]}"
        if problem:
            return problem
    return ""


def inexact_if_asked(bed):
    """With CUPOLA_INEXACT=1 kernels whose bits may differ are tasks too."""
    said = bed.run(bed.narrow("narrow_reasons"), "inexact", CUPOLA_INEXACT="1")["said"]
    if "not bit-exact" in reasons_of(said) or counts(said)[0] == 0:
        return said[-300:]
    return ""


def limit_of_warps(bed):
    """CUPOLA_TASK_WARPS: launches of two warps, and of forty."""
    for warps, has_tasks, plain in (("", True, 40), ("1", False, None), ("2", True, 40),
                                    ("39", True, 40), ("40", True, 0)):
        more = {"CUPOLA_TASK_WARPS": warps} if warps else {}
        problem, said = run_way(bed, "warps", **more)
        found = reasons_of(said).get("not narrow", 0)
        if not problem and ((counts(said)[0] != 0) != has_tasks or
                            (plain is not None and found != plain)):
            problem = f"at most {warps or 31} warps: {found} launches not narrow: {said[-300:]}"
        if problem:
            return problem
    return ""


def limit_of_copies(bed):
    """CUPOLA_TASK_COPY_BYTES: larger copies are the driver's."""
    for limit, size, has_copies in (("", 65_536, True), ("", 65_540, False), ("1000", 1000, True),
                                    ("1000", 1004, False), ("200000", 150_000, True),
                                    ("0", 4, False)):
        more = {"CUPOLA_TASK_COPY_BYTES": limit} if limit else {}
        problem, said = run_way(bed, "copies", str(size), **more)
        launches, copies, _ = counts(said)
        if not problem and (launches == 0 or (copies != 0) != has_copies):
            problem = f"{size} bytes where at most {limit or 65_536}: {copies} copies: {said[-300:]}"
        if problem:
            return problem
    return ""


def green_with_the_driver(bed):
    """Kernels of a green context stay with the driver, also in a process that may be preempted: after a resume they
    might run on the SMs of others."""
    board = pestered_board.Board(bed.folder)
    for way in ("green", "green-context"):
        problem, said = run_way(bed, way, **taking_part(bed.build, bed.device, board), CUPOLA_TASKS="off")
        found = reasons_of(said, "preemption")
        if not problem and found.get("green context", 0) < 100:
            problem = f"{way}: {found}: {said[-300:]}"
        if problem:
            return problem
    return ""


def short_at_the_pace(bed):
    """Launches that come no faster than tasks end show that tasks are short: when many launches come at once later,
    there is no trial any more."""
    problem, said = run_way(bed, "paced", CUPOLA_TASKS="auto", CUPOLA_TASKS_AFTER="0", CUPOLA_TASK_US="1000000")
    if not problem and ("on trial" in reasons_of(said) or counts(said)[0] < 1000):
        problem = said[-300:]
    return problem


CHECKS = {"each reason": each_reason, "behind waits for the host": behind_waits,
          "inexact if asked": inexact_if_asked, "at most so many warps": limit_of_warps,
          "copies of at most so many bytes": limit_of_copies,
          "green under a board": green_with_the_driver, "short at the host's pace": short_at_the_pace}
