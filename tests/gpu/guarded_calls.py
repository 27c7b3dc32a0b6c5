#!/usr/bin/env python3
"""Makes every CUDA call of guarded_calls.cu while a preempted kernel's guard holds a stream.

For each call and kind of stream a process of its own: its kernel runs, `cupola ctl pause` stops it,
the call is made, 300 ms later `cupola ctl resume` lets the kernel go on, and the program must end
with each block having run once. Prints a table; exit code 0 = all ended so, 1 = one hung, was wrong
or was never preempted, 77 = nothing could be run here (said why).

  guarded_calls.py --build build/gpu --device gpu --json results.json
  guarded_calls.py --device sim --calls free,memcpy_to_symbol --streams legacy
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import socket
import struct
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("tests/apps", "tests/bench"):
    sys.path.insert(0, os.path.join(ROOT, folder))
import corun  # noqa: E402
import runner  # noqa: E402

STREAMS = ["non_blocking", "blocking", "legacy", "per_thread"]
KEPT_STOPPED_SECONDS = 0.3  # how long the call may return in, before the kernel goes on
ATTEMPTS = 2  # a kernel that has ended before it could be stopped: once more, with four times the blocks
START_SECONDS, CALL_SECONDS = 15, 5  # until its kernel is launched, until it makes the call
STOP_SECONDS = 2  # until the board must say that the kernel has stopped
END_SECONDS = 8
LAST_SECONDS = 10  # before the limit no further cell is begun
# sched/board/protocol.h: MessageHead
HEAD, MAGIC, VERSION, CONTROL = struct.Struct("<IHHII"), 0x4D504F43, 1, 3
# Blocks of the kernel, and nanoseconds of one: it runs for longer than it takes to stop it.
KERNELS = {"gpu": (60_000, 2_000_000), "sim": (400, 1_000_000)}
# Calls that must not return before the kernel has ended: synchronising ones on every stream, and
# copies that are ordered behind all streams but the non-blocking ones.
AFTER_ALL = {"stream_synchronize", "event_synchronize", "device_synchronize"}
AFTER_BLOCKING = {"memcpy_to_host_pageable", "memcpy_to_host_pinned", "memcpy_to_device_pageable",
                  "memcpy_to_symbol"}
# What the simulated device cannot do, or not in time.
NOT_SIMULATED = {"local_memory_grows": "5e8 steps of an interpreter take too long"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=runner.default_build())
    parser.add_argument("--device", choices=["sim", "gpu"], default="gpu")
    parser.add_argument("--calls", help="names of calls, separated by commas (default: all)")
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--each-once", action="store_true",
                        help="each call on one stream only, the streams taking turns")
    parser.add_argument("--jobs", type=int, help="cells at a time (default: gpu 8, sim 2)")
    parser.add_argument("--limit", type=float, default=240,
                        help="seconds for everything: what runs then is ended (default 240)")
    parser.add_argument("--strict", metavar="DRIVER",
                        help="a driver over the simulated one that ends programs where a GPU would "
                             "hang (tests/preempt/strict_driver.cpp)")
    parser.add_argument("--blocks", type=int, help="of the kernel that is stopped")
    parser.add_argument("--block-ns", type=int, help="nanoseconds of each")
    parser.add_argument("--out", default=".", help="folder for corun.log (default: this one)")
    parser.add_argument("--json", help="write the results to this file")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.strict = options.strict and os.path.abspath(options.strict)
    options.jobs = options.jobs or (8 if options.device == "gpu" else 2)
    if options.strict and options.device == "gpu":
        parser.error("--strict is for the simulated device")
    blocks, block_ns = KERNELS[options.device]
    options.blocks, options.block_ns = options.blocks or blocks, options.block_ns or block_ns
    unknown = set(options.streams.split(",")) - set(STREAMS)
    if unknown:
        parser.error(f"no such stream: {', '.join(sorted(unknown))}; there are {', '.join(STREAMS)}")
    return options


def ask(bed, **request):
    """What the arbiter answers: `cupola ctl` without the time that a process takes to start."""
    text = json.dumps(request).encode()
    answer, more = b"", 1
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(5)
        connection.connect(bed.additions["CUPOLA_SOCKET"])
        connection.send(HEAD.pack(MAGIC, VERSION, CONTROL, HEAD.size + len(text), 0) + text)
        while more:
            packet = connection.recv(1 << 20)
            more = HEAD.unpack_from(packet)[4] if len(packet) >= HEAD.size else 0
            answer += packet[HEAD.size:]
    try:
        parsed = json.loads(answer)
    except ValueError as error:
        raise corun.Failed(f"the arbiter does not answer {request}") from error
    if not parsed.get("ok"):
        raise corun.Failed(f"the arbiter refuses {request}: {parsed.get('error')}")
    return parsed


class Cell:
    """One call on one kind of stream, and what became of it."""

    def __init__(self, bed, strict, end, call, stream):
        self.bed, self.strict, self.end, self.job = bed, strict, end, None
        self.row = {"call": call, "stream": stream, "hung": False, "preempted": False,
                    "returned_while_stopped": None, "microseconds": None, "wrong": None,
                    "preemptions": None, "problem": ""}

    def at_most(self, seconds):
        """A time to wait that ends before everything must have ended."""
        return max(0.05, min(seconds, self.end - time.monotonic()))

    def is_stopped(self):
        """Whether the board says that it has stopped with a kernel half-way."""
        for gpu in ask(self.bed, command="show")["gpus"]:
            for client in gpu["clients"]:
                if client["pid"] == self.job.process.pid:
                    return (client["paused"] and client["held"] and client["stopped"] and
                            client["preemptions"] > client["resumes"])
        return False

    def pause(self, paused):
        ask(self.bed, command="set", pid=self.job.process.pid, paused=paused)

    def stop_call_resume(self):
        """Up to the end of the pause."""
        row = self.row
        if self.job.await_line(self.at_most(START_SECONDS)) != "running":
            raise corun.Failed("its kernel was not launched")
        self.pause(True)
        deadline = time.monotonic() + STOP_SECONDS
        while not row["preempted"] and time.monotonic() < deadline:
            row["preempted"] = self.is_stopped()
        self.job.process.stdin.write(b"\n")
        if not row["preempted"]:  # it has ended already, or cannot be stopped; let it end
            with contextlib.suppress(corun.Failed):
                self.pause(False)
            return
        line = self.job.await_line(self.at_most(CALL_SECONDS))
        if line == "called":
            line = self.job.await_line(KEPT_STOPPED_SECONDS)
            row["returned_while_stopped"] = line is not None and line.startswith("returned")
        self.take(line or "")
        row["stayed_stopped"] = self.is_stopped()
        self.pause(False)

    def take(self, text):
        """What the program printed."""
        for name, pattern in (("microseconds", r"returned (\d+)"), ("wrong", r"wrong (\d+)"),
                              ("error", r"(error:? .*)")):
            for found in re.findall(pattern, text):
                self.row[name] = found if name == "error" else int(found)

    def run(self, blocks):
        """Its row, with a kernel of so many blocks."""
        row, problem = self.row, ""
        program = [self.bed.program("guarded_calls"), row["call"], row["stream"]]
        more = ["env", f"BLOCKS={blocks}"]
        if self.strict:
            more += [f"CUPOLA_DRIVER={self.strict}",
                     f"STRICT_DRIVER={self.bed.build}/lib/sim/libcuda.so.1"]
        self.job = self.bed.start("cupola", "guarded", more + program)
        try:
            self.stop_call_resume()
        except (corun.Failed, OSError) as error:
            problem = str(error)
            self.job.kill()
        code, out = self.job.finish(self.at_most(END_SECONDS))
        self.take(out)
        row["code"] = code if code == "timeout" else runner.describe_code(code)
        row["hung"] = code == "timeout"
        counts = re.search(r"(\d+) launches preemptible, (\d+) preemptions, (\d+) resumes",
                           self.job.err)
        if counts:
            row["preemptible"], row["preemptions"], row["resumes"] = map(int, counts.groups())
        row["problem"] = problem or self.problem(code)
        row["ended_unstopped"] = row["problem"] == "never preempted"
        if row["problem"]:
            row["output"], row["errors"] = out[-500:], self.job.err[-1500:]
        return row

    def problem(self, code):
        row = self.row
        if row["hung"]:
            return "hung in the call" if row["microseconds"] is None else "hung after the call"
        if row["wrong"]:
            return f"{row['wrong']} blocks did not run once"
        if code != 0 or row["wrong"] is None:
            return f"{runner.describe_code(code)} {row.get('error', '')}".strip()
        must_wait = row["call"] in AFTER_ALL or (row["call"] in AFTER_BLOCKING and
                                                 row["stream"] != "non_blocking")
        if row["returned_while_stopped"] and must_wait:
            return "returned before the kernel had ended"
        if not row["preempted"] or not row["preemptions"]:
            return "never preempted"
        if not row["stayed_stopped"]:
            return "its kernel went on during the pause"
        return ""


def print_row(row):
    when = {True: "while stopped", False: "after", None: "-"}[row["returned_while_stopped"]]
    print(f"{row['call']:26} {row['stream']:13} {when:14} {row['microseconds'] or '-':>9} "
          f"{'-' if row['wrong'] is None else row['wrong']:>5} {row['preemptions'] or 0:>11}  "
          f"{row['problem'] or 'good'}", flush=True)


def cells(options, bed):
    """(call, stream) of what is to be run, and what is left out with the reason."""
    listed = runner.run([bed.program("guarded_calls"), "list"], bed.environ, 30)
    names = listed["stdout"].decode().split()
    wanted = options.calls.split(",") if options.calls else names
    unknown = set(wanted) - set(names)
    if unknown or not names:
        raise corun.Failed(f"guarded_calls has no {', '.join(sorted(unknown)) or 'calls'}")
    skipped = {name: NOT_SIMULATED[name] for name in wanted
               if options.device == "sim" and name in NOT_SIMULATED}
    streams = options.streams.split(",")
    todo = []
    for i, name in enumerate(name for name in wanted if name not in skipped):
        some = [streams[i % len(streams)]] if options.each_once else streams
        todo += [(name, stream) for stream in some]
    return todo, skipped


def run_cells(options, bed, started):
    todo, skipped = cells(options, bed)
    bed.build_variants(["guarded_calls"])
    bed.environ.update({"CUPOLA_PREEMPT": "always", "BLOCK_NS": str(options.block_ns)})
    for name, reason in skipped.items():
        print(f"{name:26} skipped: {reason}")
    print(f"{'call':26} {'stream':13} {'returned':14} {'us':>9} {'wrong':>5} preemptions")
    end = started + options.limit

    def run(cell):
        row = Cell(bed, options.strict, end, *cell).row
        row["problem"] = "not begun: no time left"
        for attempt in range(1, ATTEMPTS + 1):
            begun = time.monotonic()
            if begun < end - LAST_SECONDS and (attempt == 1 or row["ended_unstopped"]):
                blocks = options.blocks << (2 * (attempt - 1))
                row = Cell(bed, options.strict, end, *cell).run(blocks)
                row["attempts"], row["seconds"] = attempt, round(time.monotonic() - begun, 2)
        return row

    rows = []
    with bed.arbiter(corun.config("hpf", {})), \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(run, todo):
            rows.append(row)
            print_row(row)
    return rows, skipped


def main():
    options = parse_arguments()
    started = time.monotonic()
    try:
        bed = corun.Bed(options.build, options.device, options.out)
        with contextlib.closing(bed):
            corun.require(options.device, (bed.program("guarded_calls"), options.strict))
            rows, skipped = run_cells(options, bed, started)
    except runner.NotPossible as reason:
        print(f"guarded_calls: {reason}", file=sys.stderr)
        return runner.NOT_POSSIBLE_HERE
    except corun.Failed as error:
        print(f"guarded_calls: {error}", file=sys.stderr)
        return 1
    good = sum(not row["problem"] for row in rows)
    early = sum(row["returned_while_stopped"] is True for row in rows)
    longest = max((row.get("seconds", 0) for row in rows), default=0)
    print(f"{good} of {len(rows)} good, {early} returned while stopped; "
          f"{time.monotonic() - started:.0f} s, the longest cell {longest:.1f} s")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": options.device, "good": good, "returned_while_stopped": early,
                       "cells": rows, "skipped": skipped}, file, indent=1)
    return 0 if rows and good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
