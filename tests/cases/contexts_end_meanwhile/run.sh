#!/bin/bash
# Threads end their own contexts while others end theirs, wait for all that there are, or are timed, under
# an arbiter.
. "$(dirname "$0")/../common.sh"
compile app -x c "$here/main.c" -lcuda -lpthread
"$NVCC" -ptx -arch=sm_90 -o "$work/kernels.ptx" "$here/kernels.cu" || skip "kernels.cu does not compile"
variants "$work/kernels.ptx"
# To make and end a context takes a GPU's driver 0.2 s, one after the other, with Cupola or without; beside other
# programs that start or end several times as long.
RUNS=${RUNS:-3} TURNS=10; [ "$DEVICE" = sim ] || { RUNS=1 TURNS=2; }
serve
for kinds in own "own primary" "own reset own own" "own green" "unload own primary green"; do
  plain 60 "$work/app" "$work/kernels.ptx" 4 $((TURNS / 2)) $kinds >"$work/out" 2>&1 ||
    { echo "not plain: $kinds, $(tail -1 "$work/out")"; continue; }
  for timed in "" --trace=$work/trace.json; do
    died=0
    for run in $(seq "$RUNS"); do
      CUPOLA_PREEMPT=always timeout -k 2 60 "$CUPOLA" run --device "$DEVICE" $timed -- \
        "$work/app" "$work/kernels.ptx" 4 "$TURNS" $kinds >"$work/out" 2>"$work/err"; code=$?
      [ $code = 0 ] || { died=$((died + 1)); echo "run $run: exit code $code, $(grep failures "$work/out"), $(tail -1 "$work/err")"; }
    done
    what="$kinds${timed:+, traced}"
    [ $died = 0 ] && right "$what: $RUNS runs" || wrong "$what: $died of $RUNS runs"
  done
done
exit $bad
