#!/usr/bin/env bash
# A batch program gives the GPU up, between two blocks, whenever an interactive program needs it.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
size="512 500"
[ "$device" = sim ] || size="100000 5000"
compile batch.cu batch &
compile interactive.cu interactive
wait $! || fail "nvcc: batch.cu"
"$cupola" build --quiet "$work/batch" "$work/interactive" >"$work/built"

# both HOW: the two programs side by side; the batch ends when the interactive program has.
both() {
  mkfifo "$work/end.$1"
  CUPOLA_LABEL=batch "$1" "$work/batch" $size <"$work/end.$1" >"$work/batch.$1" &
  local batch=$!
  exec 3>"$work/end.$1"
  until [ -s "$work/batch.$1" ]; do   # its first round is over
    kill -0 $batch || fail "the batch did not begin"
    sleep 0.05
  done
  CUPOLA_LABEL=interactive "$1" "$work/interactive" 15 >"$work/interactive.$1" 3>&- &
  local interactive=$!
  [ "$1" = plain ] || watch $interactive
  wait $interactive
  [ "$1" = plain ] || preemptions=$(client batch preemptions)
  exec 3>&-
  wait $batch || fail "the batch: $(cat "$work/batch.$1")"
}

# Keeps the priorities that the arbiter shows of both while process $1 runs.
watch() {
  local now
  while kill -0 "$1" 2>/dev/null; do
    now="$(client interactive priority) $(client batch priority)"
    [ "${now% *}" = "" ] || priorities=$now
    sleep 0.1
  done
}

echo "Without Cupola:"
both plain
echo "With it, the interactive program at priority 10:"
serve "$here/cupola.toml"
both with_cupola
for program in batch interactive; do
  cmp "$work/$program.plain" "$work/$program.with_cupola" || fail "the $program prints something else under Cupola"
done
[ "${priorities:-}" = "10 0" ] || fail "the priorities are ${priorities:-unknown}, not 10 and 0"
[ "${preemptions:-0}" -gt 0 ] || fail "the batch was never stopped"
echo "seen: the batch (priority 0) was stopped $preemptions times for the other (10), and finished; the same bits as without Cupola"
