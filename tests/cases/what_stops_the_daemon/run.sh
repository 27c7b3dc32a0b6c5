#!/bin/bash
# The daemon goes on, and ends when told, whatever becomes of its log, its limits and its configuration's file.
. "$(dirname "$0")/../common.sh"
command -v python3 >/dev/null || exit 77
start() {  # where the log goes, arguments; sets daemon
  : >"$work/out"
  "$CUPOLA" serve --socket "$CUPOLA_SOCKET" "${@:2}" >"$work/out" 2>"$1" & daemon=$!; jobs_started+=($daemon)
  for _ in $(seq 60); do grep -q listening "$work/out" && return; kill -0 $daemon 2>/dev/null || return; sleep 0.05; done
}
check() {  # name: it answers, and ends when told
  if ! kill -0 $daemon 2>/dev/null; then wait $daemon; wrong "$1: the daemon has ended, code $?"; return; fi
  timeout 5 "$CUPOLA" ctl show >"$work/ctl" 2>&1 && answers=1 || answers=0
  kill $daemon; for _ in $(seq 30); do kill -0 $daemon 2>/dev/null || break; sleep 0.1; done
  kill -0 $daemon 2>/dev/null && ends=0 || ends=1
  [ $answers$ends = 11 ] && right "$1" || wrong "$1: $([ $answers = 1 ] || echo "does not answer") $([ $ends = 1 ] || echo "does not end by SIGTERM in 3 s")"
  kill -9 $daemon 2>/dev/null; wait $daemon 2>/dev/null; rm -f "$CUPOLA_SOCKET"*
}
nonsense() { python3 - "$CUPOLA_SOCKET" "$1" <<'P'
import socket, sys
for _ in range(int(sys.argv[2])):
    try:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); s.settimeout(1)
        s.send(b"no message at all, no message at all"); s.recv(4096); s.close()
    except OSError: break
P
}
mkfifo "$work/log"; echo '[policy]' >"$work/c.toml"
sleep 30 <"$work/log" & reader=$!; jobs_started+=($reader)
start "$work/log" --config "$work/c.toml"; kill $reader; wait $reader 2>/dev/null
echo '[polic' >"$work/c.toml"; kill -HUP $daemon; sleep 0.5; check "the log's reader is gone, SIGHUP with a wrong configuration"

sleep 60 <"$work/log" & reader=$!; jobs_started+=($reader)
CUPOLA_LOG=info start "$work/log"; nonsense 3000; check "the log's reader does not read (CUPOLA_LOG=info)"
kill $reader; wait $reader 2>/dev/null

: >"$work/out"
(trap - XFSZ; ulimit -f 20; exec "$CUPOLA" serve --socket "$CUPOLA_SOCKET" >"$work/out" 2>"$work/err") & daemon=$!; jobs_started+=($daemon)
for _ in $(seq 40); do grep -q listening "$work/out" && break; sleep 0.05; done
compile app "$here/main.cu"; under 10 "$work/app" >/dev/null 2>&1; check "a program comes, files of 20 KB at most (ulimit -f 20)"

echo '[policy]' >"$work/c.toml"; start "$work/err" --config "$work/c.toml"
rm "$work/c.toml"; mkfifo "$work/c.toml"; kill -HUP $daemon; sleep 0.3; check "the configuration's file does not answer"

# Later ones of the kind.
"$CUPOLA" serve --socket "$CUPOLA_SOCKET" 2>/dev/full > >(exec <&-; sleep 5) & daemon=$!; jobs_started+=($daemon)
for _ in $(seq 40); do "$CUPOLA" ctl show >/dev/null 2>&1 && break; sleep 0.05; done
check "nobody reads standard output, and the log's disk is full"

mkfifo "$work/log2"; sleep 60 <"$work/log2" & reader=$!; jobs_started+=($reader)
exec 9<>"$work/log2"; CUPOLA_LOG=info start "$work/log2"; nonsense 2000
"$CUPOLA" ctl --json show >"$work/json"; lost=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["log_lines_lost"])' "$work/json")
[ "$lost" -gt 0 ] && right "lines of the log that nobody reads are lost, and counted" || wrong "$lost lines are lost"
kill $reader; cat <&9 >"$work/read" & reader=$!; jobs_started+=($reader)
for _ in $(seq 60); do grep -q "lines of the log before this are lost" "$work/read" 2>/dev/null && break; sleep 0.05; nonsense 1; done
grep -q "lines of the log before this are lost" "$work/read" && right "the log says so when it is read again" || wrong "the log does not say that lines are lost"
exec 9>&-; check "the log is read again"; kill $reader

for file in /dev/zero "$work/large" "$work/log"; do   # a device, 3 GB, a FIFO: refused at the start
  truncate -s 3G "$work/large"
  timeout 5 "$CUPOLA" serve --socket "$CUPOLA_SOCKET" --config "$file" >"$work/out" 2>"$work/err"; code=$?
  [ $code = 1 ] && grep -q "$file: is " "$work/err" && right "refused: $(sed "s|$work/||" "$work/err")" || wrong "--config $file: code $code, $(cat "$work/err")"
done

# A peer sends a descriptor whose last close waits for 30 s, and peers that do not read what they have asked for.
start "$work/err"; kill -STOP $daemon
python3 - "$CUPOLA_SOCKET" <<'P' & peer=$!; jobs_started+=($peer)
import array, json, socket, struct, sys, time
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); s.setblocking(False); return s
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen(1)
full = socket.socket(); full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 30))
full.connect(listener.getsockname()); taken, _ = listener.accept(); full.setblocking(False)
try:
    while True: full.send(bytes(65536))
except BlockingIOError: pass
peer = connect(); peer.sendmsg([b"no message"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [full.fileno()]))])
full.close()
text = json.dumps({"command": "show", "state": True}).encode()
deaf = [connect() for _ in range(20)]
for one in deaf:
    try:
        while True: one.send(struct.pack("<IHHII", 0x4D504F43, 1, 3, 16 + len(text), 0) + text)
    except OSError: pass
time.sleep(20)
P
sleep 0.7; kill -CONT $daemon; check "a descriptor that does not close, peers that do not read"; kill $peer
exit $bad
