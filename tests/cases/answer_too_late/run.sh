#!/bin/bash
# The daemon is stopped for a second while a program starts: afterwards it is scheduled, or it is not said to be.
. "$(dirname "$0")/../common.sh"
compile app "$here/../launches_for_a_while.cu"
start() { "$CUPOLA" run --device "$DEVICE" -- "$work/app" 9 8 1 2000 >"$work/dots" 2>"$work/err" & app=$!; jobs_started+=($app); }
rows() { "$CUPOLA" ctl show >"$work/show" 2>&1; grep -c "^ *$1 " "$work/show"; }
check() {  # what: the program is held when it is paused, or refused and not shown
  if "$CUPOLA" ctl pause $app >"$work/ctl" 2>&1; then
    sleep 0.3; before=$(wc -c <"$work/dots"); sleep 0.5; after=$(wc -c <"$work/dots")
    [ "$after" = "$before" ] && right "$1: scheduled, held when paused" ||
      wrong "$1: ctl pause says done, and the program makes $((after - before)) launches in half a second; it said: $(head -c 120 "$work/err")"
    "$CUPOLA" ctl resume $app
    for _ in $(seq 60); do [ "$(wc -c <"$work/dots")" -gt "$after" ] && break; sleep 0.05; done
    [ "$(wc -c <"$work/dots")" -gt "$after" ] || wrong "$1: it does not go on"
  else
    [ "$(rows $app)" = 0 ] && right "$1: not shown" || wrong "$1: shown, not to be paused: $(cat "$work/ctl")"
  fi
}
finish() { kill $app; wait $app 2>/dev/null; }
serve; daemon=${jobs_started[-1]}
kill -STOP "$daemon"; start; sleep 1; kill -CONT "$daemon"
for _ in $(seq 40); do [ "$(rows $app)" = 1 ] && break; sleep 0.05; done
check "the daemon was stopped for a second"
[ "$(rows $app)" = 1 ] && right "it has one place" || wrong "rows of it: $(cat "$work/show")"
finish

# Later ones of the kind. It ends before the daemon goes on: nobody is there.
kill -STOP "$daemon"; start; sleep 0.6; kill -9 $app; wait $app 2>/dev/null; kill -CONT "$daemon"; sleep 0.2
[ "$(rows $app)" = 0 ] && right "one that has ended meanwhile is not shown" || wrong "one that has ended meanwhile is shown: $(cat "$work/show")"

# Nobody answers where a daemon was killed; another comes.
kill -9 "$daemon"; wait "$daemon" 2>/dev/null; start
for _ in $(seq 60); do [ -s "$work/dots" ] && break; sleep 0.05; done
serve; daemon=${jobs_started[-1]}
for _ in $(seq 60); do [ "$(rows $app)" = 1 ] && break; sleep 0.05; done
[ "$(rows $app)" = 1 ] || wrong "started beside a dead daemon's socket it never joins the next one"
check "the daemon came later"; finish

# Connections on which a place was asked for, and whose peer did not wait for the answer, are served after one whose peer did.
if command -v python3 >/dev/null; then
  kill -STOP "$daemon"
  python3 - "$CUPOLA_SOCKET" >"$work/joined" <<'P' & peer=$!; jobs_started+=($peer)
import os, socket, struct, sys, time
message = struct.pack("<IHHIIIIII", 0x4D504F43, 1, 1, 416, 0, 1, 132, 0xFFFFFFFF, 0) + b"SIM-0".ljust(64, b"\0") + bytes(320)
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); return s
held = connect(); gone = [connect() for _ in range(8)]
held.send(message)
for one in gone: one.send(message)
print("sent", flush=True)
for one in gone: one.close()
held.recv(65536); print("joined", flush=True); time.sleep(20)
P
  for _ in $(seq 40); do grep -q sent "$work/joined" && break; sleep 0.05; done
  kill -CONT "$daemon"; for _ in $(seq 40); do grep -q joined "$work/joined" && break; sleep 0.05; done; sleep 0.2
  [ "$(rows $peer)" = 1 ] && right "who has waited keeps its place" || wrong "who has waited: $(cat "$work/show")"
  python3 - "$CUPOLA_SOCKET" >"$work/left" <<'P' & peer=$!; jobs_started+=($peer)
import os, select, socket, struct, sys, time
message = struct.pack("<IHHIIIIII", 0x4D504F43, 1, 1, 416, 0, 1, 132, 0xFFFFFFFF, 0) + b"SIM-0".ljust(64, b"\0") + bytes(320)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1])
s.send(message); select.select([s], [], [], 10); s.close(); print("left", flush=True); time.sleep(20)
P
  for _ in $(seq 60); do grep -q left "$work/left" && break; sleep 0.05; done
  for _ in $(seq 20); do [ "$(rows $peer)" = 0 ] && break; sleep 0.05; done
  [ "$(rows $peer)" = 0 ] && right "who has not read the answer is not shown" || wrong "who has not read the answer: $(cat "$work/show")"
fi
exit $bad
