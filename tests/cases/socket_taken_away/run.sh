#!/bin/bash
# The socket's folder is emptied under a daemon (the end of a login, a cleaner of /tmp), or its usual place becomes another:
# one daemon is found, and the end of one takes nothing from another.
. "$(dirname "$0")/../common.sh"
ctl() { timeout 5 "$CUPOLA" ctl show >"$work/ctl.log" 2>&1; }
said() { head -c 200 "$work/ctl.log" | sed "s|$work|.|g" | tr '\n' '|'; }
serve; first=${jobs_started[-1]}
rm -f "$CUPOLA_SOCKET" "$CUPOLA_SOCKET.lock"
for _ in $(seq 40); do ctl && break; kill -0 "$first" 2>/dev/null || break; sleep 0.1; done
if ctl; then right "the first is found again"; elif kill -0 "$first" 2>/dev/null
then wrong "4 s later the first runs on and is not found: $(said)"; else right "the first has ended"; fi

rm -f "$CUPOLA_SOCKET" "$CUPOLA_SOCKET.lock"   # once more, and a second starts at once
"$CUPOLA" serve --socket "$CUPOLA_SOCKET" >"$work/second.log" 2>&1 & second=$!; jobs_started+=($second); sleep 1
if ! kill -0 "$first" 2>/dev/null || ! kill -0 "$second" 2>/dev/null; then ctl && right "one of the two is in charge" || wrong "one of the two has ended, the other is not found: $(said)"; fi
kill "$first" 2>/dev/null; for _ in $(seq 30); do kill -0 "$first" 2>/dev/null || break; sleep 0.1; done; sleep 0.5
kill -0 "$second" 2>/dev/null && { ctl && right "the second is found after the first has ended" || wrong "the first ends and takes the second's socket away; the second runs on: $(said)"; }

# Started before its user's first login: /tmp/cupola-UID. Then /run/user/UID comes to be.
place=/tmp/cupola-$(id -u)
if [ ! -e "$place" ] && unshare -m true 2>/dev/null; then
  timeout 20 unshare -m bash -c 'mount -t tmpfs none /run || exit 77; unset CUPOLA_SOCKET XDG_RUNTIME_DIR
    "$1" serve >/dev/null & for _ in $(seq 50); do "$1" ctl show >/dev/null 2>&1 && break; sleep 0.1; done
    "$1" ctl show >/dev/null || { kill $!; exit 77; }
    mkdir -p -m 700 "/run/user/$(id -u)"; sleep 1.5; "$1" ctl show >"$2" 2>&1; code=$?; kill $!; wait $!; exit $code' - "$CUPOLA" "$work/ctl.log" 2>/dev/null; code=$?
  rm -rf "$place"
  case $code in 0) right "found after /run/user/UID came to be";; 77) ;; *) wrong "not found after /run/user/UID came to be (a login): $(said)";; esac
fi

# Later ones of the kind: only the lock goes; the whole folder goes; something else takes the place, then goes.
found() { for _ in $(seq 30); do ctl && return; sleep 0.1; done; return 1; }
for job in "${jobs_started[@]}"; do kill "$job" 2>/dev/null; wait "$job" 2>/dev/null; done
export CUPOLA_SOCKET=$work/folder/arbiter.sock; serve; first=${jobs_started[-1]}
rm "$CUPOLA_SOCKET.lock"; sleep 0.7
timeout 5 "$CUPOLA" serve --socket "$CUPOLA_SOCKET" >"$work/second.log" 2>&1
[ $? = 1 ] && found && right "without its lock the first is in charge" || wrong "the lock went, and: $(cat "$work/second.log" "$work/ctl.log")"
rm -r "$work/folder"
found && right "found again when its folder went" || wrong "its folder went: $(said)"
rm "$CUPOLA_SOCKET"; echo text >"$CUPOLA_SOCKET"; sleep 0.7
kill -0 "$first" 2>/dev/null && [ "$(cat "$CUPOLA_SOCKET")" = text ] || wrong "a file in its place: it has ended, or taken the file away"
rm "$CUPOLA_SOCKET"; found && right "found again when a file has left its place" || wrong "a file was in its place and is gone: $(said)"
python3 -c 'import os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.bind(sys.argv[1] + ".new"); s.listen(9)
os.rename(sys.argv[1] + ".new", sys.argv[1]); time.sleep(20)' "$CUPOLA_SOCKET" & jobs_started+=($!)   # another's, though the lock is not
for _ in $(seq 40); do kill -0 "$first" 2>/dev/null || break; sleep 0.1; done
! kill -0 "$first" 2>/dev/null && [ -S "$CUPOLA_SOCKET" ] && right "another is in its place: it ends, and leaves that" ||
  wrong "another is in its place: it goes on, or has removed that"

# A second one where another of the usual places was taken before; that place goes with all below it; programs find it too.
if unshare -m true 2>/dev/null; then
  compile app "$here/main.cu"
  mkdir -m 700 "$work/login"
  timeout 30 unshare -m bash -c 'mount -t tmpfs none /run || exit 77; unset CUPOLA_SOCKET; export XDG_RUNTIME_DIR=$2/login
    "$1" serve >/dev/null 2>"$2/err" & first=$!; for _ in $(seq 50); do "$1" ctl show >/dev/null 2>&1 && break; sleep 0.05; done
    bad=0; unset XDG_RUNTIME_DIR; "$1" ctl show >/dev/null 2>&1 && echo "found by who does not look there" && bad=1
    export XDG_RUNTIME_DIR=$2/login; rm -r "$XDG_RUNTIME_DIR"
    for _ in $(seq 30); do "$1" ctl show >/dev/null 2>&1 && break; sleep 0.1; done
    "$1" ctl show >/dev/null || { echo "its place went for good: $(cat "$2/err")"; bad=1; }
    mkdir -p -m 700 "/run/user/$(id -u)" "$XDG_RUNTIME_DIR"
    timeout 5 "$1" serve >/dev/null 2>"$2/second"; code=$?
    [ $code = 1 ] && grep -q "in charge here" "$2/second" || { echo "a second in another place: code $code"; bad=1; }
    "$1" run --device sim -- "$2/app" & app=$!; for _ in $(seq 60); do "$1" ctl show | grep -q "^ *$app " && break; sleep 0.05; done
    "$1" ctl show | grep -q "^ *$app " || { echo "a program does not find it"; bad=1; }
    kill $app $first; wait; exit $bad' - "$CUPOLA" "$work" >"$work/ctl.log" 2>&1; code=$?
  rm -rf "$place"
  case $code in 0) right "its place goes, another comes: one is in charge, and found";; 77) ;; *) wrong "its place went: $(said)";; esac
fi
exit $bad
