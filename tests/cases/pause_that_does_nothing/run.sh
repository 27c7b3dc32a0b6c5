#!/bin/bash
# `ctl pause` of a program that cannot be stopped: it is refused, or said, and not shown as paused.
. "$(dirname "$0")/../common.sh"
compile app "$here/../launches_for_a_while.cu"
serve
shown() { "$CUPOLA" ctl show | grep "^ *$app "; }
start() {  # settings of it
  env "$@" "$CUPOLA" run --device "$DEVICE" -- "$work/app" 9 8 1 2000 >"$work/dots" 2>/dev/null & app=$!; jobs_started+=($app)
  for _ in $(seq 60); do shown >/dev/null && [ -s "$work/dots" ] && break; sleep 0.05; done
}
moves() { sleep 0.3; before=$(wc -c <"$work/dots"); sleep 0.5; [ "$(wc -c <"$work/dots")" != "$before" ]; }
finish() { kill $app; wait $app 2>/dev/null; }

start CUPOLA_GATE_EVERY=0
"$CUPOLA" ctl pause $app >"$work/ctl" 2>&1; code=$?
moves && goes=1 || goes=0; state=$(shown)
[ $goes$code = 11 ] && grep -q "cannot be stopped" "$work/ctl" && right "ctl pause says: $(cat "$work/ctl")" ||
  wrong "ctl pause: code $code, says '$(cat "$work/ctl")', it $([ $goes = 1 ] && echo goes on || echo is held)"
! grep -q "paused" <<<"$state" && right "shown as: $state" || wrong "shown as: $state"
"$CUPOLA" top --once | grep "^ *$app " | grep -q paused && wrong "top shows it as paused"
finish

# Later ones of the kind. One that can be stopped.
start A=a
"$CUPOLA" ctl pause $app || wrong "ctl pause of one that can be stopped: code $?"
moves && wrong "paused, it goes on: $(shown)" || right "paused, it is held"
shown | grep -q " paused  " && right "shown as paused" || wrong "shown as: $(shown)"
"$CUPOLA" ctl resume $app || wrong "ctl resume: code $?"
moves && right "resumed, it goes on" || wrong "resumed, it is held"
finish

# Changes that do nothing now, by the policy in force, say so; those that do something say nothing.
start A=a
for words in "hpf weight=3 ffs" "ffs priority=4 hpf" "fifo latency_bound_us=100 hpf" "hpf priority=4 -" "ffs weight=3 -"; do
  set -- $words; "$CUPOLA" ctl policy $1
  "$CUPOLA" ctl set $app $2 >"$work/ctl" 2>&1; code=$?
  if [ $3 = - ]; then [ $code = 0 ] && [ ! -s "$work/ctl" ]; else [ $code = 0 ] && grep -q "under $3; the policy is $1" "$work/ctl"; fi &&
    right "$2 under $1: $(cat "$work/ctl")" || wrong "$2 under $1: code $code, says '$(cat "$work/ctl")'"
done
finish
exit $bad
