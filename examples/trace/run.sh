#!/usr/bin/env bash
# Writes each launch of a program into a file for https://ui.perfetto.dev. trace/run.sh [FILE keeps it there]
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
trace=${1:-$work/trace.json}
rounds=20
compile pipeline.cu pipeline
plain "$work/pipeline" $rounds >"$work/plain"
"$cupola" run --device "$device" --trace "$trace" -- "$work/pipeline" $rounds >"$work/with"
cmp "$work/plain" "$work/with" || fail "the program prints something else under Cupola"

python3 - "$trace" $rounds <<'CHECK'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
rounds = int(sys.argv[2])
kernels = [event for event in events if event.get("cat") == "kernel"]
for name in "Produce", "Consume":
    seen = sum(name in event["name"] for event in kernels)
    assert seen == rounds, f"{seen} launches of {name}, not {rounds}"
assert all(event["ph"] == "X" and event["dur"] >= 0 for event in kernels), kernels[0]
rows = {(event["pid"], event["tid"]) for event in kernels}
assert len(rows) == 2, rows
print(f"seen: a valid trace of {len(kernels)} kernels in {len(rows)} rows, one for each stream; the program's output is the same")
CHECK
[ $# = 0 ] || echo "open $trace in https://ui.perfetto.dev"
