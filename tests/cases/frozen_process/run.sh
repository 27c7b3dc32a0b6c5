#!/bin/bash
# Simulated device: a process in a frozen control group (a container that is paused) holds nobody, as one stopped by SIGSTOP.
# Needs root and a freezer.
. "$(dirname "$0")/../common.sh"
[ "$DEVICE" = sim ] || exit 77
root=/sys/fs/cgroup/freezer file=freezer.state on=FROZEN off=THAWED
[ -e "$root/cgroup.procs" ] || root=/sys/fs/cgroup file=cgroup.freeze on=1 off=0
group=$root/cupola-case-$$
mkdir "$group" 2>/dev/null || exit 77
undo() { echo $off >"$group/$file"; kill $app $other 2>/dev/null; wait $app $other 2>/dev/null; rmdir "$group"; cleanup; }
app= other=; trap undo EXIT
[ -e "$group/$file" ] || exit 77
compile app "$here/../launches_for_a_while.cu"
start() {  # what is set for the one that will be frozen
  env "$@" "$CUPOLA" run --device sim -- "$work/app" 9 64 400 0 >"$work/dots" 2>/dev/null & app=$!
  "$CUPOLA" run --device sim -- "$work/app" 9 64 400 0 >"$work/others" 2>/dev/null & other=$!
  for _ in $(seq 60); do [ -s "$work/dots" ] && [ -s "$work/others" ] && break; sleep 0.05; done
}
count() { wc -c <"$work/others"; }
freeze() { echo $app >"$group/cgroup.procs" || exit 77; echo $on >"$group/$file"; }
check() {  # what, its priority afterwards: nobody is held, and it goes on then
  frozen=-1
  for _ in 1 2; do   # it may be frozen while it has not got the device
    freeze; sleep 0.3; f=$(count); sleep 0.4; f=$(($(count) - f)); echo $off >"$group/$file"; sleep 0.1
    [ $frozen = -1 ] || [ $f -lt $frozen ] && frozen=$f
  done
  [ $frozen -gt 1 ] && right "$1: beside a frozen one at least $frozen launches in 0.4 s" || wrong "$1: beside a frozen one $frozen launches in 0.4 s"
  [ -z "${2-}" ] || "$CUPOLA" ctl set $app priority=$2
  before=$(wc -c <"$work/dots"); for _ in $(seq 40); do [ "$(wc -c <"$work/dots")" -gt "$before" ] && break; sleep 0.05; done
  [ "$(wc -c <"$work/dots")" -gt "$before" ] && right "$1: it goes on" || wrong "$1: it does not go on"
}
finish() { kill $app $other; wait $app $other 2>/dev/null; }
start A=a
kill -STOP $app; sleep 0.2; s=$(count); sleep 0.5; s=$(($(count) - s)); kill -CONT $app
[ $s -gt 1 ] || { echo "beside a stopped one $s launches"; exit 77; }
check "without an arbiter"
finish

# Later ones of the kind: under an arbiter, before all others; and one that is frozen while it waits for its turn.
serve
start A=a
"$CUPOLA" ctl set $app priority=9; check "before the other by its priority"
"$CUPOLA" ctl set $app priority=-9; check "behind the other" 9
finish
exit $bad
