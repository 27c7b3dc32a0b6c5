#!/usr/bin/env python3
"""A source of the arbiter with a bug planted in it, which a rule of the soak must find.

  plant.py --list                        NAME:SOURCE:RULE for each bug, with ";" between them
  plant.py NAME --source DIR --out FILE  writes the source with that bug
"""
import argparse
import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../plant"))
import planting  # noqa: E402
from planting import after, change, condition, drop, replace  # noqa: E402

# For each bug: the source, the rule (soak_checks.h) that must find it, and what is done at the marker of its name in
# the source (planting.py).
BUGS = {
    "slot_not_freed": ("sched/daemon/board_review.cpp", "slots", drop()),
    "ends_unseen": ("sched/daemon/gpu_arbiter.cpp", "slots", condition("!left")),
    "dead_taken_over": ("sched/daemon/gpu_arbiter.cpp", "slots", replace("(void)0;")),
    "room_for_half": ("sched/daemon/gpu_arbiter.cpp", "slots", change("kBoardSlots", "kBoardSlots / 2")),
    "stale_requests_stay": ("sched/board/yield_protocol.cpp", "held", condition("now_ns != 0")),
    "holds_stay": ("sched/arbiter.cpp", "held", change("!client.launch.granted && ", "")),
    "weights_ignored": ("sched/ffs_policy.cpp", "shares", change("* weight", "* (weight != 0)")),
    "debts_forgiven": ("sched/ffs_policy.cpp", "waits", condition("others && used >= 100 * allowance_ns_")),
    "least_share_ignored": ("sched/arbiter.cpp", "shares", condition("share > 100")),
    "lowest_first": ("sched/hpf_policy.cpp", "waits", change(" > ", " < ")),
    "leases_last": ("sched/board/yield_protocol.cpp", "waits", change("> now_ns", "+ now_ns > 0")),
    "pauses_ignored": ("sched/arbiter.cpp", "settings", drop()),
    "rules_of_yesterday": ("sched/daemon/gpu_arbiter.cpp", "settings", drop()),
    "told_is_lost": ("sched/daemon/told_settings.cpp", "settings", drop()),
    "a_record_for_each": ("sched/daemon/gpu_arbiter.cpp", "memory", after("new std::string(process.executable);")),
    "time_goes_back": ("sched/arbiter.cpp", "time", change("+=", "=")),
    "beat_goes_back": ("sched/daemon/gpu_review.cpp", "time",
                       replace("header.daemon_beat_ns = now_ns - (reviews_ % 64) * 1'000'000'000;")),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--source")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.list:
        print(";".join(f"{name}:{bug[0]}:{bug[1]}" for name, bug in BUGS.items()))
        return
    path, _, action = BUGS[options.name]
    text = (pathlib.Path(options.source) / path).read_text()
    try:
        pathlib.Path(options.out).write_text(planting.planted(text, options.name, action, path))
    except planting.PlantError as error:
        sys.exit(f"plant.py: {error}")


if __name__ == "__main__":
    main()
