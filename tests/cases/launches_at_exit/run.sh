#!/bin/bash
# The end of a static object, or of a thread, launches a kernel: a right result, and no crash.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
variants "$work/app"
check() {  # how, code, output
  if [ "$2" = 0 ] && grep -q "^at the end: 32$" <<<"$3" && ! grep "^at the end" <<<"$3" | grep -qv ": 32$"
  then right "$1"; else wrong "$1: exit code $2, ${3//$'\n'/, }"; fi
}
for when in thread early key static atexit; do
  for stream in legacy own per-thread; do
    got=$(MALLOC_PERTURB_=165 plain 20 "$work/app" $when $stream 2>/dev/null); check "plain, $when, $stream" $? "$got"
    got=$(under 20 "$work/app" $when $stream 2>/dev/null); check "under Cupola, $when, $stream" $? "$got"
    got=$(CUPOLA_TASKS=always under 20 "$work/app" $when $stream 2>/dev/null); check "as tasks, $when, $stream" $? "$got"
    got=$(CUPOLA_RECORDS=$work timeout 20 "$CUPOLA" run --device "$DEVICE" --stats -- "$work/app" $when $stream 2>/dev/null)
    check "with records, $when, $stream" $? "$got"
  done
done
serve
for when in thread early key static atexit; do
  for stream in legacy own per-thread; do
    got=$(CUPOLA_PREEMPT=always under 20 "$work/app" $when $stream 2>/dev/null)
    check "with an arbiter, $when, $stream" $? "$got"
  done
done
exit $bad
