#!/usr/bin/env bash
# Small launches of an unmodified program run as tasks of a resident kernel.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
rounds=200000
if [ "$device" = sim ]; then
  rounds=1000
  export CUPOLA_TASKS=always CUPOLA_TASK_PATIENCE_MS=10000   # whether tasks pay depends on a GPU's times
fi
compile chain.cu chain
"$cupola" build --quiet "$work/chain" >"$work/built"
plain "$work/chain" $rounds | tee "$work/plain"
CUPOLA_LOG=info with_cupola "$work/chain" $rounds >"$work/with" 2>"$work/log"

cmp "$work/plain" "$work/with" || fail "the program prints something else under Cupola: $(cat "$work/with")"
tasks=$(sed -n 's/.*tasks: \([0-9]*\) launches,.*/\1/p' "$work/log")
[ "${tasks:-0}" -gt 0 ] || fail "no launch became a task: $(cat "$work/log")"
echo "seen: $tasks of $((4 * rounds)) launches became tasks; the program printed the same bits as without Cupola"
