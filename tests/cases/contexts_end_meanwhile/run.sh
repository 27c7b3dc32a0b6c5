#!/bin/bash
# Threads end their own contexts while others end theirs, wait for all that there are, or are timed, under
# an arbiter.
. "$(dirname "$0")/../common.sh"
compile app -x c "$here/main.c" -lcuda -lpthread
"$NVCC" -ptx -arch=sm_90 -o "$work/kernels.ptx" "$here/kernels.cu" || skip "kernels.cu does not compile"
variants "$work/kernels.ptx"
# To make and end a context takes a GPU's driver 0.2 s, one after the other, with Cupola or without, and 2 s beside other
# programs that start or end: there each thread makes one, and all but the first kinds are either traced or not.
RUNS=${RUNS:-3} TURNS=10; [ "$DEVICE" = sim ] || { RUNS=1 TURNS=1; }
serve
check() {  # traced or not, kinds
  local timed= died=0 run code what="$2${1:+, traced}"
  [ -z "$1" ] || timed=--trace=$work/trace.json
  for run in $(seq "$RUNS"); do
    CUPOLA_PREEMPT=always timeout -k 2 60 "$CUPOLA" run --device "$DEVICE" $timed -- \
      "$work/app" "$work/kernels.ptx" 4 "$TURNS" $2 >"$work/out" 2>"$work/err"; code=$?
    [ $code = 0 ] || { died=$((died + 1)); echo "run $run: exit code $code, $(grep failures "$work/out"), $(tail -1 "$work/err")"; }
  done
  if [ $died = 0 ]; then right "$what: $RUNS runs"
  elif plain 60 "$work/app" "$work/kernels.ptx" 4 "$TURNS" $2 >"$work/out" 2>&1; then wrong "$what: $died of $RUNS runs"
  else echo "not plain: $2, $(tail -1 "$work/out")"
  fi
}
traced=yes
# In this program no green context is current on two threads, so Cupola must not make one so either.
export CUPOLA_SIM_GREEN_THREADS=1
for kinds in own "own primary" "own reset own own" "own green" "unload own primary green"; do
  [ "$DEVICE" = gpu ] && [ "$kinds" != own ] || { check "" "$kinds"; check yes "$kinds"; continue; }
  check "$traced" "$kinds"
  [ -n "$traced" ] && traced= || traced=yes
done
exit $bad
