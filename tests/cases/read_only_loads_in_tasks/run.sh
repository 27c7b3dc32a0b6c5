#!/bin/bash
# What an earlier launch of the stream wrote is what a later one reads by ways that no cache keeps
# coherent: __ldg, const __restrict__, __ldg in a function that is not inlined, ldu, and (on a GPU,
# the simulated device has none) textures and surfaces; and by constants that a copy changes.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
variants "$work/app"
ways="ldg restrict function uniform constant" turns=6000 pairs="1:auto 32:always"
if [ "$DEVICE" = sim ]; then turns=50 pairs=1:always; else ways="$ways texture surface"; fi
made_any=0
# With 32 streams each has a hardware queue, whatever was learned before: without, launches do not become tasks.
use() {  # streams, the command
  [ "$1" = 1 ] && unset CUDA_DEVICE_MAX_CONNECTIONS || export CUDA_DEVICE_MAX_CONNECTIONS=32
  "${@:2}"
}
check() {  # way, streams, tasks
  local rounds=$turns
  [ "$2:$DEVICE" != 32:gpu ] || rounds=2000
  got=$(CUPOLA_LOG=info CUPOLA_TASKS=$3 use "$2" under 60 "$work/app" "$1" "$2" $rounds 2>"$work/err"); code=$?
  made=$(grep -o "tasks: [0-9]* launches, " "$work/err" | grep -o "[0-9]*")
  [ "${made:-0}" -gt 20 ] && made_any=1
  if [ "$code $got" = "0 stale 0" ]; then right "$1, $2 streams, $3: ${made:-0} tasks"
  elif [ "$(use "$2" plain 60 "$work/app" "$1" "$2" $rounds 2>/dev/null)" != "stale 0" ]; then echo "not plain: $1"
  else wrong "$1, $2 streams, $3: exit code $code, $got of ${made:-0} tasks"
  fi
}
for way in $ways; do
  for pair in $pairs; do check $way ${pair%:*} ${pair#*:}; done
done
if [ "$DEVICE" = sim ]; then check ldg 32 auto; check ldg 32 always; else check ldg 1 always; check ldg 32 auto; fi
# Without tasks the case would say nothing of them.
[ $made_any = 1 ] || wrong "no tasks were made"
exit $bad
