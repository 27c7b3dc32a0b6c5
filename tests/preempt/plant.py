#!/usr/bin/env python3
"""Writes a source with a bug planted: plant.py SOURCE OUT BUG.

A bug is a pair of texts; the first must occur exactly once in the source. Each breaks one rule of
docs/preemption.md, and planted_test.cpp expects a checker to find it.
"""
import pathlib
import sys

BUGS = {
    # Waiting: the call goes into the driver without having waited.
    "no_wait": ("  if (!is_kept && context.outstanding.load() != 0) {\n"
                "    is_kept = WaitUntilComplete(context, what, UINT64_MAX, /*all_seen=*/true);\n"
                "  }\n", ""),
    # Waiting: a launch looks for scopes before it counts itself.
    "scopes_first": ("  Watch(1);\n  context.outstanding.fetch_add(1);\n"
                     "  const bool is_free = context.scopes.load() == 0 && "
                     "scopes_elsewhere.load() == 0;\n",
                     "  const bool is_free = context.scopes.load() == 0 && "
                     "scopes_elsewhere.load() == 0;\n"
                     "  for (const uint64_t end = MonotonicNs() + 300'000; MonotonicNs() < end;) {\n"
                     "  }\n"
                     "  Watch(1);\n  context.outstanding.fetch_add(1);\n"),
    # Waiting: launches do not look for scopes at all.
    "no_scopes": ("  const bool is_free = context.scopes.load() == 0 && "
                  "scopes_elsewhere.load() == 0;\n", "  const bool is_free = true;\n"),
    # Waiting: the scope is open from the start of the wait.
    "scope_at_once": ("    is_kept = WaitUntilComplete(context, what, LastNumber(context), "
                      "/*all_seen=*/false);\n", ""),
    # Waiting: a copy does not wait for the launches behind which an event has put the legacy stream.
    "no_join": ("slot.blocks_legacy || slot.number <= joined", "slot.blocks_legacy"),
    # Waiting: a stream comes behind a guard while another thread copies.
    "join_unseen": ("  if (context.scopes.load() == 0) return;\n  if (WaitUntilComplete(context, WaitFor::kAll, last",
                    "  if (last != 0) return;\n  if (WaitUntilComplete(context, WaitFor::kAll, last"),
    # Waiting: a launch behind a hold of the program is guarded, and calls wait for it.
    "holds_unseen": ("  if (AnyIsHeld() && IsHeld(attempt->stream, launch.stream, launch.per_thread)) return false;\n", ""),
    # The last net (a wait that is stuck gives up): there is none.
    "waits_for_ever": ("return is_stuck_ && BeginKept(context_);", "return false;"),
    # The last net: the process may be asked to yield while the call is in the driver.
    "asked_while_kept": ("  return has_left() || sched::BeginNotNow(board_, index_);\n", "  return true;\n"),
    # The last net: a physical launch that is to stop when its blocks end gets no other one beside it.
    "none_beside": ("      if (will_stop && has_counters) slot.wants_another = wants_another = true;\n", ""),
    # First launches count as calls that may wait.
    "no_first_launch": ("!IsKnownLoaded(launch.function)", "false"),
    # The guard.
    "no_guard": ("  Guard(attempt, *slot);\n", "  (void)&Guard;\n"),
    # Streams beyond the hardware queues end guarded launches.
    "no_queue_count": ("  if (!StreamsFitQueues()) streams_share_queues.Announce();\n", ""),
    # A stream holds about 1,024 entries.
    "no_room_kept": ("constexpr uint32_t kMostQueued = 700;",
                     "constexpr uint32_t kMostQueued = 700'000;"),
    # Asynchronous copies of pageable memory wait.
    "pageable_is_pinned": ("  return get(&type", "  if (address != 0) return true;\n  return get(&type"),
    # A launch that was stopped is resumed when nobody asks any more.
    "no_resume": ("  return (bound == 0 || has_room) && ", "  return bound != 0 && has_room && "),
    # Spatial: workers that left some SMs are missed and come back.
    "nobody_away": ("  return last && away < ", "  return last || away != UINT32_MAX || away < "),
    # Spatial: the launch says that it has left the SMs that it was to leave.
    "never_yielded": ("  if (bound <= slot.looked_at_bound) return true;\n",
                      "  if (bound != 0) return false;\n"),
    # Spatial: a launch that was stopped as a whole goes on when only some SMs are to be left.
    "no_room_beside": ("bound != runtime::kAllSms && has_ended", "false"),
    # Spatial: a resume does not come behind another physical launch of its launch.
    "behind_another": ("    helper = LaunchSlots::FreeHelper(slot);\n", "    (void)slot;\n"),
    # Guards: other work comes between a launch and its guard.
    "between_guard": ("  AwaitGuard(context);\n  KeepRoom(context);\n", "  KeepRoom(context);\n"),
    # Queues: the GPU counts as having 32 hardware queues, whatever the program has set.
    "queues_assumed": ("StartCountingStreams(QueuesOfDriver());", "StartCountingStreams(32);"),
    # A launch at a gate has not begun before its stream says so.
    "gate_taken_for_passed": ("slot->is_gated && HasPassed(*slot)", "slot->is_gated"),
    # The agent asks for nothing and puts no markers, and no resumes at a gate, while a thread may be
    # in the driver.
    "asked_in_call": (" || MayBeInDriver(context)) return;\n", ") return;\n"),
    "marked_in_call": ("        MayBeInDriver(*one.context) ||\n", ""),
    "resumed_in_call": ("  if (MayBeInDriver(context)) return;  // resumed", "  // resumed"),
    # Demand: a marker is put behind work for which nobody waits.
    "marker_forgotten": ("  state.marked_launches = launches;\n", ""),
    # Demand: the agent renews the lease while there is work on the GPU.
    "never_renewed": ("  state.renewed_ns.store(now_ns, std::memory_order_relaxed);\n"
                      "  sched::UpdateDemand(gpu.board(), gpu.index(), {.lease_ns = lease_ns}, "
                      "board_now_ns);\n}\n", "}\n"),
    # Demand ends.
    "never_ended": ("  if (gpu.has_left() || !Enter(state, Phase::kOn)) return;\n",
                    "  if (gpu.has_left() || state.phase.load() != Phase::kNone) return;\n"),
    # Control slots: one serves again when all physical launches of its launch have ended.
    "given_anew": ("    if (__atomic_load_n(&said.ended[p], __ATOMIC_ACQUIRE) != slot->tag[p]) "
                   "continue;\n",
                   "    if (__atomic_load_n(&said.ended[p], __ATOMIC_ACQUIRE) != slot->tag[p] &&\n"
                   "        !IsDone(index, slot->sequence)) {\n      continue;\n    }\n"),
    # Resumes have a priority level of their own.
    "level_not_kept": ("  return is_the_one && priority < 0 ? priority - 1 : priority;\n",
                       "  (void)is_the_one;\n  return priority;\n"),
    # A resume has the arguments of the launch.
    "arguments_forgotten": ("  const CUresult result = LaunchPhysical(context, *slot, physical);\n",
                            "  __builtin_memset(context.ArgumentsOf(context.slots.IndexOf(slot)), "
                            "0, 16);\n"
                            "  const CUresult result = LaunchPhysical(context, *slot, physical);\n"),
}

source, out, bug = sys.argv[1:]
text = pathlib.Path(source).read_text()
before, after = BUGS[bug]
if text.count(before) != 1:
    raise SystemExit(f"plant.py: {bug}: the text occurs {text.count(before)} times in {source}")
pathlib.Path(out).write_text(text.replace(before, after))
