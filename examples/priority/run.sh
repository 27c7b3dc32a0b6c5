#!/usr/bin/env bash
# A batch program gives the GPU up, between two blocks, whenever an interactive program needs it.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
size="512 500"
[ "$device" = sim ] || size="100000 5000"
compile batch.cu batch &
compile interactive.cu interactive
wait $! || fail "nvcc: batch.cu"
"$cupola" build --quiet "$work/batch" >"$work/built"

# both HOW: the two programs side by side, until the interactive one has made its requests.
both() {
  mkfifo "$work/end.$1"
  CUPOLA_LABEL=batch "$1" "$work/batch" $size <"$work/end.$1" >"$work/batch.$1" &
  local batch=$!
  exec 3>"$work/end.$1"
  await batch "$1" $batch
  CUPOLA_LABEL=interactive "$1" "$work/interactive" 10 <"$work/end.$1" >"$work/interactive.$1" 3>&- &
  local interactive=$!
  await interactive "$1" $interactive
  if [ "$1" = with_cupola ]; then
    priorities="$(client interactive priority) $(client batch priority)"
    preemptions=$(client batch preemptions)
  fi
  exec 3>&-      # their standard input ends, and so do they
  wait $batch && wait $interactive || fail "$(cat "$work/batch.$1" "$work/interactive.$1")"
}

# await PROGRAM HOW PID: until it has printed its first line.
await() {
  until [ -s "$work/$1.$2" ]; do
    kill -0 "$3" || fail "the $1 did not begin"
    sleep 0.05
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
