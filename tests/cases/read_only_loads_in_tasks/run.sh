#!/bin/bash
# What an earlier launch of the stream wrote is what a later one reads by ways that no cache keeps
# coherent: __ldg, const __restrict__, __ldg in a function that is not inlined, ldu, and (on a GPU,
# the simulated device has none) textures and surfaces; and by constants that a copy changes.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
variants "$work/app"
ways="ldg restrict function uniform constant" turns=6000
if [ "$DEVICE" = sim ]; then turns=50; else ways="$ways texture surface"; fi
made_any=0
for way in $ways; do
  for streams in 1 32; do
    [ "$DEVICE:$streams" = sim:32 ] && [ $way != ldg ] && continue
    [ "$(plain 60 "$work/app" $way $streams $turns 2>/dev/null)" = "stale 0" ] || { echo "not plain: $way"; continue; }
    for tasks in auto always; do
      [ "$DEVICE:$tasks:$streams" = sim:auto:1 ] && continue
      got=$(CUPOLA_LOG=info CUPOLA_TASKS=$tasks under 60 "$work/app" $way $streams $turns 2>"$work/err"); code=$?
      made=$(grep -o "tasks: [0-9]* launches, " "$work/err" | grep -o "[0-9]*")
      [ "${made:-0}" -gt 20 ] && made_any=1
      [ "$code $got" = "0 stale 0" ] && right "$way, $streams streams, $tasks: ${made:-0} tasks" || wrong "$way, $streams streams, $tasks: exit code $code, $got of ${made:-0} tasks"
    done
  done
done
# Without tasks the case would say nothing of them.
[ $made_any = 1 ] || wrong "no tasks were made"
exit $bad
