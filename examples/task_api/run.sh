#!/usr/bin/env bash
# A program of its own tasks, without a launch for each; it needs Cupola's headers and one source file, no preloading.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
rows=100000
[ "$device" = gpu ] || rows=200
root=$(dirname "$examples")
compile rows.cu rows -I"$root" -I"$root/include" "$root/device/runtime/task_table.cpp"
plain "$work/rows" $rows >"$work/said" || fail "$(cat "$work/said")"
[ "$(cat "$work/said")" = "$((2 * rows)) tasks, results as computed by the host" ] || fail "$(cat "$work/said")"
echo "seen: $(cat "$work/said")"
