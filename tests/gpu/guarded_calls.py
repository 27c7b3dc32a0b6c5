#!/usr/bin/env python3
"""Makes every CUDA call of guarded_calls.cu while a preempted kernel's guard holds a stream.

For each call and kind of stream: the program's kernel runs, `cupola ctl pause` stops it, the call is
made, 300 ms later `cupola ctl resume` lets the kernel go on, and each block must have run once. A
process makes all calls of one kind of stream, one after the other, each within its time; where one
hangs it is killed, and a new one makes those that are left. Prints a table; exit code 0 = all ended
well, 1 = one hung, was wrong or was never preempted, 77 = nothing could be run here (said why).

With --graphs the kernel is a graph that is launched in pieces (docs/graphs.md), far ahead of the device: the process is
held between two pieces, with more launches behind than the driver has room for, which with --mps are deferred.

  guarded_calls.py --build build/gpu --device gpu --json results.json
  guarded_calls.py --device sim --calls free,memcpy_to_symbol --streams legacy
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import select
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
KEPT_STOPPED_SECONDS = 0.3  # time in which the call may return before the kernel goes on
# What leaves a call to be made again, with four times the blocks: its kernel ended before it could be stopped, or the arbiter,
# on a busy machine, had not taken the process in yet, whose first launch then goes as if there were none.
NEVER, JOINS_LATE = "never preempted", "the arbiter does not know it yet"
ATTEMPTS = 5
START_SECONDS, CALL_SECONDS = 15, 5  # until the kernel is launched, until the call is made
STOP_SECONDS = 5  # until the board must say that the kernel has stopped
# Between two looks at the board: who looks all the time takes the processors from those that are looked at.
LOOK_SECONDS = 0.004
END_SECONDS = 8  # from then until the blocks have been counted, and until the program has ended
LAST_SECONDS = 10  # before the limit no further cell is begun
# sched/board/protocol.h: MessageHead
HEAD, MAGIC, VERSION, CONTROL = struct.Struct("<IHHII"), 0x4D504F43, 1, 3
# Blocks of the kernel, and nanoseconds of one until it has been stopped: it runs for longer than that takes, 0.1 s on
# either device.
KERNELS = {"gpu": (60_000, 2_000_000), "sim": (3200, 1_000_000)}
# Calls that must not return before the kernel has ended: synchronising ones on every stream and
# copies behind its events; copies that are ordered behind all streams but the non-blocking ones.
AFTER_ALL = {"stream_synchronize", "event_synchronize", "device_synchronize",
             "memcpy_behind_event", "memcpy_behind_events", "memcpy_behind_graph",
             "synchronize_behind_event"}
AFTER_BLOCKING = {"memcpy_to_host_pageable", "memcpy_to_host_pinned", "memcpy_to_device_pageable",
                  "memcpy_to_device_pinned", "memcpy_to_symbol", "memset_pinned"}
# These leave the process different, and come last: its stacks, its streams.
LAST = ["forty_new_streams", "local_memory_grows", "set_limit"]
GRAPH_NODES = 40  # each takes what a block does
DEFERRED = re.compile(r"(\d+) launches of graphs deferred")
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
    parser.add_argument("--jobs", type=int, help="processes at a time (default: gpu 4, sim 2)")
    parser.add_argument("--limit", type=float, default=240,
                        help="seconds for everything: what runs then is ended (default 240)")
    parser.add_argument("--strict", metavar="DRIVER",
                        help="a driver over the simulated one that ends programs where a GPU would "
                             "hang (tests/preempt/strict_driver.cpp)")
    parser.add_argument("--mps", action="store_true",
                        help="under MPS, which `cupola serve --mps` starts and stops")
    parser.add_argument("--graphs", action="store_true", help="launches of a graph in pieces instead of a kernel")
    parser.add_argument("--blocks", type=int, help="of the kernel that is stopped")
    parser.add_argument("--block-ns", type=int, help="nanoseconds of each")
    parser.add_argument("--out", default=".", help="folder for corun.log (default: this one)")
    parser.add_argument("--json", help="write the results to this file")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.strict = options.strict and os.path.abspath(options.strict)
    options.jobs = options.jobs or (4 if options.device == "gpu" else 2)
    if options.strict and options.device == "gpu":
        parser.error("--strict is for the simulated device")
    blocks, block_ns = KERNELS[options.device]
    options.blocks, options.block_ns = options.blocks or blocks, options.block_ns or block_ns
    unknown = set(options.streams.split(",")) - set(STREAMS)
    if unknown:
        parser.error(f"no such stream: {', '.join(sorted(unknown))}; there are {', '.join(STREAMS)}")
    return options


def ask(bed, **request):
    """The arbiter's answer to a control request: as `cupola ctl`, without the time that a process takes to start."""
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


def new_row(call, stream, graphs):
    return {"call": call, "stream": stream, "graphs": graphs, "hung": False, "preempted": False,
            "returned_while_stopped": None, "microseconds": None, "wrong": None,
            "preemptions": None, "problem": "not begun: no time left"}


class Worker:
    """A process that makes calls on one kind of stream, each a cell."""

    def __init__(self, bed, options, end, stream):
        self.bed, self.end, self.text, self.graphs = bed, end, "", options.graphs
        strict = options.strict
        more = [f"CUPOLA_DRIVER={strict}",
                f"STRICT_DRIVER={bed.build}/lib/sim/libcuda.so.1"] if strict else []
        self.job = bed.start("cupola", "guarded",
                             ["env", *more, bed.program("guarded_calls"), stream])

    def at_most(self, seconds):
        """A time to wait that ends before everything must have ended."""
        return max(0.05, min(seconds, self.end - time.monotonic()))

    def line(self, seconds):
        """The next line that the process prints; None when nothing comes in time, or it has ended."""
        found = self.job.await_line(self.at_most(seconds))
        self.text += found + "\n" if found is not None else ""
        return found

    def say(self, text):
        self.job.process.stdin.write(text.encode() + b"\n")

    def client_if_any(self):
        """What the arbiter shows of the process; None while it is not on the board."""
        for gpu in ask(self.bed, command="show")["gpus"]:
            for client in gpu["clients"]:
                if client["pid"] == self.job.process.pid:
                    return client
        return None

    def client(self):
        found = self.client_if_any()
        if found is None:
            raise corun.Failed("it is not on the board")
        return found

    def is_stopped(self):
        """Whether the arbiter shows that the process has stopped: with a kernel half-way, unless it is one of graphs."""
        client = self.client()
        return (client["paused"] and client["held"] and client["stopped"] and
                (self.graphs or client["preemptions"] > client["resumes"]))

    def pause(self, paused):
        ask(self.bed, command="set", pid=self.job.process.pid, paused=paused)

    def stop_call_resume(self, row):
        """Up to the end of the pause."""
        if self.line(START_SECONDS) != "running":
            raise corun.Failed("its kernel was not launched")
        if self.client_if_any() is None:
            raise corun.Failed(JOINS_LATE)
        self.pause(True)
        deadline = time.monotonic() + STOP_SECONDS
        while not row["preempted"] and time.monotonic() < deadline:
            row["preempted"] = self.is_stopped()
            if not row["preempted"]:
                time.sleep(LOOK_SECONDS)
        self.say("")
        if row["preempted"]:
            if self.line(CALL_SECONDS) == "called":
                line = self.line(KEPT_STOPPED_SECONDS)
                row["returned_while_stopped"] = line is not None and line.startswith("returned")
            row["stayed_stopped"] = self.is_stopped()
        self.pause(False)  # where it was not stopped it has ended already, or cannot be

    def take(self, row):
        """What the program printed of this cell."""
        for name, pattern in (("microseconds", r"returned (\d+)"), ("wrong", r"wrong (\d+)"),
                              ("error", r"(error:? .*)")):
            for found in re.findall(pattern, self.text):
                row[name] = found if name == "error" else int(found)

    def run(self, row, blocks):
        """Makes row["call"] behind a kernel of so many blocks and fills the row in. False: the
        process is of no more use, and gone."""
        self.text, problem, ended = "", "", False
        try:
            self.say(f"{row['call']} {blocks}")
            self.stop_call_resume(row)
            while not ended and (line := self.line(END_SECONDS)) is not None:
                ended = line.startswith("blocks ")
            if ended:
                client = self.client()
                row["preemptions"], row["resumes"] = (client["preemptions"] - self.before[0],
                                                      client["resumes"] - self.before[1])
                self.before = (client["preemptions"], client["resumes"])
        except (corun.Failed, OSError) as error:
            problem = str(error)
        self.take(row)
        good = ended and not row["wrong"] and not problem
        code = 0 if good else self.finish(kill=bool(problem) or not self.has_ended())
        row["hung"] = code == "timeout"
        row["problem"] = problem or problem_of(row, code)
        row["ended_unstopped"] = row["problem"] in (NEVER, JOINS_LATE)
        if row["problem"]:
            row["code"] = code if code == "timeout" else runner.describe_code(code)
            row["output"], row["errors"] = self.text[-500:], self.job.err[-1500:]
        return good

    def deferred(self):
        """How many launches of graphs were deferred, as the library said at the process's end."""
        found = DEFERRED.search(self.job.err)
        return int(found[1]) if found else 0

    before = (0, 0)  # preemptions and resumes of the cells before

    def end_well(self, rows):
        """Lets the process end; if that goes wrong, the last good cell gets the problem."""
        self.job.end_input()
        code = self.finish()
        if code == 0:
            return
        for row in reversed(rows):
            if not row["problem"]:
                row["problem"] = f"the program did not end well: {runner.describe_code(code)}"
                row["errors"] = self.job.err[-1500:]
                return

    def has_ended(self):
        """Whether the process's output has ended: then it has ended, or is about to."""
        return bool(select.select([self.job.process.stdout], [], [], 0)[0])

    def finish(self, kill=False):
        """Waits for the process's end, or ends it. Returns the exit code, or "timeout" if it did not end by itself."""
        kill = kill and not self.has_ended()  # it may be about to end by a signal, which is to be seen
        alive = self.job.process.poll() is None
        if kill:
            self.job.kill()
        code, out = self.job.finish(self.at_most(END_SECONDS))
        self.text += out
        return "timeout" if kill and alive else code


def problem_of(row, code):
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
    if not row["preempted"] or (not row["preemptions"] and not row["graphs"]):
        return NEVER
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
    ordered = sorted((name for name in wanted if name not in skipped), key=lambda n: n in LAST)
    for i, name in enumerate(ordered):
        some = [streams[i % len(streams)]] if options.each_once else streams
        todo += [(name, stream) for stream in some]
    return todo, skipped


def run_stream(options, bed, end, rows):
    """Makes the calls of one kind of stream; those that are to be made again in a new process, for some calls differ when made
    again."""
    for attempt in range(1, ATTEMPTS + 1):
        worker = None
        for row in rows:
            settled = attempt > 1 and not row.get("ended_unstopped")
            if settled or time.monotonic() > end - LAST_SECONDS:
                continue
            begun = time.monotonic()
            row.update(new_row(row["call"], row["stream"], row["graphs"]))
            worker = worker or Worker(bed, options, end, row["stream"])
            if not worker.run(row, options.blocks << 2 * (attempt - 1)):
                worker = None
            row["attempts"], row["seconds"] = attempt, round(time.monotonic() - begun, 2)
            if attempt == ATTEMPTS or not row["ended_unstopped"]:
                print_row(row)
        if worker is not None:
            worker.end_well(rows)
            if options.graphs and options.mps and not any(row["problem"] for row in rows) and worker.deferred() == 0:
                rows[-1]["problem"] = "no launch was deferred"
    for row in rows:
        if row["problem"].startswith("not begun"):
            print_row(row)


@contextlib.contextmanager
def somebody_who_may_ask(bed):
    """A process of higher priority that has launched something and then does nothing: only where somebody may ask are graphs
    launched in pieces."""
    job = bed.start("cupola", "asker", [bed.program("guarded_calls"), "non_blocking"], environ={"GRAPH_NODES": "0"})
    try:
        job.process.stdin.write(b"event_create 64\n\n")
        line = job.await_line(START_SECONDS)
        while line is not None and not line.startswith("blocks "):
            line = job.await_line(START_SECONDS)
        if line is None:
            raise corun.Failed(f"the process that may ask did not begin: {job.err[-300:]}")
        yield
    finally:
        job.kill()


def run_cells(options, bed, started):
    todo, skipped = cells(options, bed)
    bed.build_variants(["guarded_calls"])
    # Queues for the program's streams, the other context's, and a MasterKernel's where launches become tasks: beyond
    # them launches go out plain. Under MPS a GPU has not as many for four programs: plain ones with 32 queues fail
    # at their start then too, one in four [measured].
    bed.environ.update({"CUPOLA_PREEMPT": "always", "BLOCK_NS": str(options.block_ns)})
    if not options.mps:
        bed.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"
    if options.graphs:
        bed.environ.update({"GRAPH_NODES": str(GRAPH_NODES), "CUPOLA_TASKS": "off"})
    for name, reason in skipped.items():
        print(f"{name:26} skipped: {reason}")
    print(f"{'call':26} {'stream':13} {'returned':14} {'us':>9} {'wrong':>5} preemptions")
    end = started + options.limit
    rows = [new_row(*cell, options.graphs) for cell in todo]
    # The simulated device needs no daemon for MPS.
    more = ["--mps"] if options.mps and options.device == "gpu" else []
    with bed.mps(by_arbiter=True) if options.mps else contextlib.nullcontext(), \
            bed.arbiter(corun.config("hpf", {"asker": {"priority": 10}}), *more), \
            (somebody_who_may_ask(bed) if options.graphs else contextlib.nullcontext()), \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        if more and not ask(bed, command="show")["mps"]:
            raise corun.Failed("cupola serve --mps started no MPS")
        list(pool.map(lambda stream: run_stream(options, bed, end, [row for row in rows if
                                                                    row["stream"] == stream]),
                      dict.fromkeys(row["stream"] for row in rows)))
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
    for row in filter(lambda row: row["problem"], rows):
        print(f"{row['call']} on {row['stream']}: {row['problem']}: "
              f"{(row.get('output', '') + row.get('errors', '')).strip()[-600:]}")
    good = sum(not row["problem"] for row in rows)
    early = sum(row["returned_while_stopped"] is True for row in rows)
    longest = max((row.get("seconds", 0) for row in rows), default=0)
    print(f"{good} of {len(rows)} good, {early} returned while stopped; "
          f"{time.monotonic() - started:.0f} s, the longest cell {longest:.1f} s")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": options.device, "mps": options.mps, "graphs": options.graphs, "good": good, "returned_while_stopped": early,
                       "cells": rows, "skipped": skipped}, file, indent=1)
    return 0 if rows and good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
