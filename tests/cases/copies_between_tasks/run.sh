#!/bin/bash
# Small launches, copies on the device and fills of one stream keep their order. For a GPU
# (DEVICE=gpu); it runs on the simulated device too, with fewer turns.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
variants "$work/app"
turns=200000 seeds="1 2 3"; [ "$DEVICE" = sim ] && turns=300 seeds=1
for stream in own legacy per-thread; do
  for seed in $seeds; do
    [ "$(plain 60 "$work/app" $turns $seed $stream 2>/dev/null)" = same ] || { echo "not plain: $stream $seed"; continue; }
    for tasks in auto always; do
      got=$(CUPOLA_LOG=info CUPOLA_TASKS=$tasks under 120 "$work/app" $turns $seed $stream 2>"$work/err"); code=$?
      made=$(grep -o "tasks: [0-9]* launches, [0-9]* copies" "$work/err" | cut -c8-)
      [ "$code $got" = "0 same" ] && right "$stream, seed $seed, $tasks: ${made:-no tasks}" || wrong "$stream, seed $seed, $tasks: exit code $code, $got; ${made:-no tasks}"
    done
  done
done
exit $bad
