#!/usr/bin/env python3
"""Writes a source of the library with a bug planted: plant.py SOURCE OUT BUG.

Each bug breaks one rule of docs/preemption.md or docs/waiting.md, and planted_test.cpp expects a checker to find it.
"""
import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../plant"))
import planting  # noqa: E402
from planting import before, change, condition, drop, replace  # noqa: E402

# What is done at the marker of the bug's name (planting.py).
BUGS = {
    # Waiting: the call goes into the driver without having waited.
    "no_wait": drop(),
    # Waiting: a launch looks for scopes before it counts itself.
    "scopes_first": replace("const bool is_free = context.scopes.load() == 0 && scopes_elsewhere.load() == 0;\n"
                            "for (const uint64_t end = MonotonicNs() + 300'000; MonotonicNs() < end;) {\n"
                            "}\n"
                            "Watch(1);\n"
                            "context.outstanding.fetch_add(1);"),
    # Waiting: launches do not look for scopes at all.
    "no_scopes": replace("const bool is_free = true;"),
    # Waiting: the scope is open from the start of the wait.
    "scope_at_once": drop(),
    # Waiting: a copy does not wait for the launches behind which an event has put the legacy stream.
    "no_join": change(" || slot.number <= joined", ""),
    # Waiting: a stream comes behind a guard while another thread copies.
    "join_unseen": condition("last != 0"),
    # Waiting: a launch behind a hold of the program is guarded, and calls wait for it.
    "holds_unseen": drop(),
    # The last net (a wait that is stuck gives up): there is none.
    "waits_for_ever": replace("bool IsOver() { return false; }"),
    # The last net: the process may be asked to yield while the call is in the driver.
    "asked_while_kept": replace("return true;"),
    # The last net: a physical launch that is to stop when its blocks end gets no other one beside it.
    "none_beside": drop(),
    # First launches count as calls that may wait.
    "no_first_launch": condition("false"),
    # The guard.
    "no_guard": replace("(void)&Guard;"),
    # Streams beyond the hardware queues end guarded launches.
    "no_queue_count": drop(),
    # A stream holds about 1,024 entries.
    "no_room_kept": replace("if (context.queued.left() < 700'000) return;"),
    # Asynchronous copies of pageable memory wait.
    "pageable_is_pinned": before("if (address != 0) return true;"),
    # A launch that was stopped is resumed when nobody asks any more.
    "no_resume": change("(bound == 0 || has_room)", "bound != 0 && has_room"),
    # Spatial: workers that left some SMs are missed and come back.
    "nobody_away": change("last &&", "last || away != UINT32_MAX ||"),
    # Spatial: the launch says that it has left the SMs that it was to leave.
    "never_yielded": replace("if (bound != 0) return false;"),
    # Spatial: a launch that was stopped as a whole goes on when only some SMs are to be left.
    "no_room_beside": replace("const bool has_room = false;"),
    # Spatial: a resume does not come behind another physical launch of its launch.
    "behind_another": replace("(void)slot;"),
    # Guards: other work comes between a launch and its guard.
    "between_guard": drop(),
    # Queues: the GPU counts as having 32 hardware queues, whatever the program has set.
    "queues_assumed": replace("StartCountingStreams(32);"),
    # A launch at a gate has not begun before its stream says so.
    "gate_taken_for_passed": condition("slot->is_gated"),
    # The agent asks for nothing and puts no markers, and no resumes at a gate, while a thread may be
    # in the driver.
    "asked_in_call": change(" || MayBeInDriver(context)", ""),
    "marked_in_call": change("MayBeInDriver(*one.context) ||", ""),
    "resumed_in_call": drop(),
    # Demand: a marker is put behind work for which nobody waits.
    "marker_forgotten": drop(),
    # Demand: the agent renews the lease while there is work on the GPU.
    "never_renewed": drop(),
    # Demand ends.
    "never_ended": condition("gpu.has_left() || gpu.demand.phase.load() != Phase::kNone"),
    # Control slots: one serves again when all physical launches of its launch have ended.
    "given_anew": replace("if (__atomic_load_n(&said.ended[p], __ATOMIC_ACQUIRE) != slot->tag[p] &&\n"
                          "    !IsDone(index, slot->sequence)) {\n"
                          "  continue;\n"
                          "}"),
    # Resumes have a priority level of their own.
    "level_not_kept": replace("(void)is_the_one;\nreturn priority;"),
    # Graphs in pieces: the program's change of its graph is not seen.
    "change_unseen": replace("(void)exec;"),
    # Graphs in pieces: the pieces are of the graph as it was before the program changed it.
    "update_not_followed": replace("graph_->replaced.back() = copy;"),
    # Graphs in pieces: launches of one graph on two streams overlap.
    "overlaps_itself": replace("(void)last;"),
    "pieces_not_awaited": replace("(void)&WaitForPieces;"),
    # Graphs in pieces: an edge within a piece is lost.
    "edge_lost": replace("(void)place;\n(void)&AddEdge;"),
    # Graphs in pieces: a piece runs before the one that it comes behind.
    "piece_early": replace("result = launch(set_->execs[(next_ ^ 1) < size() ? next_ ^ 1 : next_], stream);"),
    # Graphs in pieces: nothing holds a piece back.
    "piece_ungated": drop(),
    # Deferred launches: the pieces do not wait for what is before them in the program's stream.
    "fed_ahead": replace("job.has_begun = follow != nullptr;"),
    # Deferred launches: what comes behind one waits for the one before it.
    "opened_early": change("number", "number - 1"),
    # Deferred launches: a call that may wait goes into the driver while there are pieces to put into it.
    "not_fed": replace("(void)&NumberToFeed;"),
    # Kernels of graphs that go with a guard have the arguments of their nodes.
    "node_arguments": change("kernelParams[i]", "kernelParams[i / 2]"),
    # A resume has the arguments of the launch.
    "arguments_forgotten": before("__builtin_memset(context.ArgumentsOf(context.slots.IndexOf(slot)), 0, 16);"),
}


def main():
    source, out, bug = sys.argv[1:]
    text = pathlib.Path(source).read_text()
    try:
        pathlib.Path(out).write_text(planting.planted(text, bug, BUGS[bug], source))
    except planting.PlantError as error:
        sys.exit(f"plant.py: {error}")


if __name__ == "__main__":
    main()
