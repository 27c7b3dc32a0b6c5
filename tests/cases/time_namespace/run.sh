#!/bin/bash
# A program in a time namespace (containers have them): its priority counts, and stopped it holds nobody longer than its
# lease. Needs root.
. "$(dirname "$0")/../common.sh"
unshare -T true 2>/dev/null || exit 77
compile app "$here/../launches_for_a_while.cu"
pids() { "$CUPOLA" ctl show | awk '$1 ~ /^[0-9]+$/ { print $1 }'; }
start() {  # name, what goes before the command; sets pid, which the board has
  local before=" $(pids | tr '\n' ' ')"
  "${@:2}" "$CUPOLA" run --device "$DEVICE" -- "$work/app" 9 64 400 0 >"$work/$1" 2>/dev/null & jobs_started+=($!)
  for _ in $(seq 100); do
    for pid in $(pids); do case $before in *" $pid "*) ;; *) return;; esac; done
    sleep 0.05
  done
}
count() { wc -c <"$work/$1"; }
# A program joins before its kernels are loaded, which takes long on a busy machine.
wait_for_launches() { for _ in $(seq 200); do [ "$(count "$1")" -gt 0 ] && break; sleep 0.05; done; }
check() {  # what; what is looked at; then what goes before the command of the one of higher priority
  start low; low=$pid; start high "${@:3}"; high=$pid
  wait_for_launches low; wait_for_launches high
  "$CUPOLA" ctl set $high priority=10 || exit 77
  case $2 in *first*)
    sleep 0.2; l=$(count low) h=$(count high); sleep 0.6; l=$(($(count low) - l)) h=$(($(count high) - h))
    [ $((4 * l)) -lt $h ] && right "$1: before the other, $h launches to $l" || wrong "$1: not before the other: $h launches to $l"
  esac
  case $2 in *stopped*)
    least=-1
    for _ in 1 2; do   # it may be stopped between two launches
      kill -STOP $high; sleep 0.25; s=$(count low); sleep 0.25; s=$(($(count low) - s)); kill -CONT $high; sleep 0.05
      [ $least = -1 ] || [ $s -lt $least ] && least=$s
    done
    [ $least -gt 1 ] && right "$1: stopped, it holds nobody (at least $least launches of the other in 0.25 s)" ||
      wrong "$1: stopped, it holds the other ($least launches in 0.25 s)"
  esac
  kill $low $high; for _ in $(seq 40); do [ -z "$(pids)" ] && break; sleep 0.05; done
}
# in_time_of SECONDS COMMAND...: with another monotonic clock. Some versions of unshare take none that is behind.
in_time_of() {
  python3 -c '
import ctypes, os, signal, sys
libc, newtime = ctypes.CDLL(None), 0x80
if libc.unshare(newtime): sys.exit("no time namespace")
open("/proc/self/timens_offsets", "w").write(f"monotonic {sys.argv[1]} 0")
child = os.fork()  # before Linux 6.1 only children enter it
if child == 0: libc.prctl(1, signal.SIGKILL) or os.execvp(sys.argv[2], sys.argv[2:])
os.wait()' "$@"
}
clock=$(cut -d. -f1 /proc/uptime)
serve; daemon=${jobs_started[-1]}
check "ahead" first,stopped in_time_of 100000
check "behind" first in_time_of -$((clock / 2))

# Later ones of the kind: by less than a lease of one that is held and by more than a usual one; the daemon itself is in
# one, and the programs are not.
check "ahead by less than what is told apart by time alone" stopped in_time_of 1
kill "$daemon"; wait "$daemon" 2>/dev/null
unshare -T --monotonic 100000 --boottime 100000 "$CUPOLA" serve --socket "$CUPOLA_SOCKET" >"$work/serve.log" 2>&1 & daemon=$!; jobs_started+=($daemon)
for _ in $(seq 100); do "$CUPOLA" ctl show >/dev/null 2>&1 && break; sleep 0.05; done
check "the daemon is ahead" first env
# The next daemon is in none again, and one program brings it the board with the places of both.
start low; low=$pid; start high; high=$pid
wait_for_launches low; wait_for_launches high
kill -STOP $high; kill -9 "$daemon"; wait "$daemon" 2>/dev/null
serve; for _ in $(seq 60); do [ "$(pids | wc -l)" = 2 ] && break; sleep 0.05; done
kill -CONT $high; sleep 0.3
[ "$(pids | sort -n | tr '\n' ' ')" = "$(printf '%s\n' $low $high | sort -n | tr '\n' ' ')" ] && right "the next daemon has taken over both" || wrong "the next daemon has: $(pids | tr '\n' ' ')"
"$CUPOLA" ctl set $high priority=10
sleep 0.2; l=$(count low) h=$(count high); sleep 0.6; l=$(($(count low) - l)) h=$(($(count high) - h))
[ $((4 * l)) -lt $h ] && right "before the other, $h launches to $l" || wrong "not before the other: $h launches to $l"
kill $low $high
exit $bad
