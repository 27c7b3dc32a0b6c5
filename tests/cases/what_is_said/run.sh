#!/bin/bash
# Exit codes and messages of the commands for operators: an answer that could not be written, a place that is too long, no
# descriptors left.
. "$(dirname "$0")/../common.sh"
[ -e /dev/full ] || exit 77
serve
for what in "ctl show" "ctl --json show" "top --once"; do
  timeout 10 "$CUPOLA" $what >/dev/full 2>"$work/err"; code=$?
  [ $code != 0 ] && right "$what >/dev/full: code $code" || wrong "$what >/dev/full: exit code 0, nothing is said"
done
long=$work/$(printf 'd%.0s' $(seq 100)); mkdir "$long"
(unset CUPOLA_SOCKET; XDG_RUNTIME_DIR=$long timeout 2 "$CUPOLA" serve >/dev/null 2>"$work/err")
grep -q XDG_RUNTIME_DIR "$work/err" && right "XDG_RUNTIME_DIR is too long" || wrong "XDG_RUNTIME_DIR is too long, CUPOLA_SOCKET is not set; said: $(cat "$work/err")"

# A daemon with room for 16 descriptors, silent connections until there is no more.
command -v python3 >/dev/null || exit $bad
(ulimit -n 16; exec "$CUPOLA" serve --socket "$work/small.sock" >"$work/small.log" 2>"$work/small.err") & jobs_started+=($!)
for _ in $(seq 200); do grep -q listening "$work/small.log" && break; sleep 0.05; done
python3 - "$work/small.sock" "$CUPOLA" >"$work/err" 2>&1 <<'P'
import socket, subprocess, sys
held = []
for _ in range(12):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); held.append(s)
print(subprocess.run([sys.argv[2], "ctl", "--socket", sys.argv[1], "show"], capture_output=True, text=True).stderr)
P
grep -q "cannot see" "$work/err" && wrong "no descriptors left; said: $(tr -d '\n' <"$work/err")" || right "no descriptors left: $(tr -d '\n' <"$work/err")"

# With more that wait, all of whom speak, so that none makes room: each is answered, or told why not.
python3 - "$work/small.sock" "$CUPOLA" >"$work/err" 2>&1 <<'P'
import json, socket, struct, subprocess, sys
held = []
for _ in range(40):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(10); s.connect(sys.argv[1]); held.append(s)
    text = json.dumps({"command": "rules"}).encode()
    try:
        s.send(struct.pack("<IHHII", 0x4D504F43, 1, 3, 16 + len(text), 0) + text)
    except BrokenPipeError:  # it was told already
        pass
    answer = s.recv(65536)
    told = answer[16:] if answer[6] == 4 else answer[32:272].rstrip(b"\0")
    print("answered" if told.startswith(b"{") else told.decode())
done = subprocess.run([sys.argv[2], "ctl", "--socket", sys.argv[1], "show"], capture_output=True, text=True)
print("ctl:", done.returncode, done.stderr)
P
if grep -q "^answered" "$work/err" && grep -q "^the daemon has no file descriptors left" "$work/err" && grep -q "^ctl: 1 .*no file descriptors left" "$work/err"; then
  right "40 that stay, no descriptors left: each has an answer"
else
  wrong "40 that stay, no descriptors left; said: $(sort "$work/err" | uniq -c)"
fi
"$CUPOLA" ctl set 1 priority=99999999999999999999 2>"$work/err"
grep -q "large" "$work/err" && right "a number that is too large" || wrong "a number that is too large; said: $(cat "$work/err")"
timeout 10 "$CUPOLA" ctl rules >/dev/full 2>"$work/err" && wrong "ctl rules >/dev/full: exit code 0" || right "ctl rules >/dev/full"
exit $bad
