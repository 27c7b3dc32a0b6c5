#!/usr/bin/env python3
"""A source of the arbiter with a bug planted in it, which a rule of the soak must find.

  plant.py --list                        NAME:SOURCE:RULE for each bug, with ";" between them
  plant.py NAME --source DIR --out FILE  writes the source with that bug
"""
import argparse
import pathlib
import sys

# For each bug: the source, the rule (soak_checks.h) that must find it, the text in the source, and the text that
# takes its place.
BUGS = {
    "slot_not_freed": ("sched/daemon/board_review.cpp", "slots",
                       "  gone.state = static_cast<uint32_t>(SlotState::kFree);\n", ""),
    "ends_unseen": ("sched/daemon/gpu_arbiter.cpp", "slots", "if (!left && !HasEnded(client)) {", "if (!left) {"),
    "dead_taken_over": ("sched/daemon/gpu_arbiter.cpp", "slots", "      FreeSlot(view, i);\n", "      (void)0;\n"),
    "room_for_half": ("sched/daemon/gpu_arbiter.cpp", "slots", "  for (uint32_t i = 0; i < kBoardSlots; ++i) {\n"
                      "    BoardSlot& free = view.slot(i);", "  for (uint32_t i = 0; i < kBoardSlots / 2; ++i) {\n"
                      "    BoardSlot& free = view.slot(i);"),
    "stale_requests_stay": ("sched/board/yield_protocol.cpp", "held",
                            "    if (MayAsk(board, requester, victim, now_ns)) return;\n    ClearRequest",
                            "    if (now_ns != 0) return;\n    ClearRequest"),
    "holds_stay": ("sched/arbiter.cpp", "held", "  return {wanted && !client.launch.granted && client.view.stoppable(),",
                   "  return {wanted && client.view.stoppable(),"),
    "weights_ignored": ("sched/ffs_policy.cpp", "shares", "static_cast<double>(unit_ns) * weight / least_weight",
                        "static_cast<double>(unit_ns) * (weight != 0) / least_weight"),
    "debts_forgiven": ("sched/ffs_policy.cpp", "waits", "  if (others && used >= allowance_ns_) return false;\n",
                       "  if (others && used >= 100 * allowance_ns_) return false;\n"),
    "least_share_ignored": ("sched/arbiter.cpp", "shares", "  if (share != 0) {", "  if (share > 100) {"),
    "lowest_first": ("sched/hpf_policy.cpp", "waits", "return a.priority > b.priority;", "return a.priority < b.priority;"),
    "leases_last": ("sched/board/yield_protocol.cpp", "waits",
                    "slot.demand_until_ns.load() > now_ns;", "slot.demand_until_ns.load() + now_ns > 0;"),
    "pauses_ignored": ("sched/arbiter.cpp", "settings", "  client.view.paused = settings.paused;\n", ""),
    "rules_of_yesterday": ("sched/daemon/gpu_arbiter.cpp", "settings",
                           "    for (Client& client : board->clients) Apply(*board, client);\n", ""),
    "told_is_lost": ("sched/daemon/told_settings.cpp", "settings",
                     "  settings.weight = weight.value_or(settings.weight);\n", ""),
    "a_record_for_each": ("sched/daemon/gpu_arbiter.cpp", "memory", "  client.process = process;\n  client.id",
                          "  client.process = process;\n  new std::string(process.executable);\n  client.id"),
    "time_goes_back": ("sched/arbiter.cpp", "time", "  client.view.ran_ns += share_ns;\n",
                       "  client.view.ran_ns = share_ns;\n"),
    "beat_goes_back": ("sched/daemon/gpu_review.cpp", "time", "    header.daemon_beat_ns = now_ns;\n",
                       "    header.daemon_beat_ns = now_ns - (reviews_ % 64) * 1'000'000'000;\n"),
}

parser = argparse.ArgumentParser()
parser.add_argument("name", nargs="?")
parser.add_argument("--list", action="store_true")
parser.add_argument("--source")
parser.add_argument("--out")
options = parser.parse_args()
if options.list:
    print(";".join(f"{name}:{bug[0]}:{bug[1]}" for name, bug in BUGS.items()))
    sys.exit(0)
path, _, before, after = BUGS[options.name]
text = (pathlib.Path(options.source) / path).read_text()
if text.count(before) != 1:
    raise SystemExit(f"plant.py: {options.name}: the text occurs {text.count(before)} times in {path}")
pathlib.Path(options.out).write_text(text.replace(before, after))
