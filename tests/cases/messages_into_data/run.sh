#!/bin/bash
# What Cupola (and its simulated device) has to say never goes into a file of the program, and neither does what else it
# writes; and saying it never ends or holds a program.
. "$(dirname "$0")/../common.sh"
compile app -x c "$here/main.c" -lcuda
compile many -x c "$here/many.c" -lcuda
check() { [ "$(cat "$work/data")" = data ] && right "$1" || wrong "$1: the file has: $(head -c 200 "$work/data" | tr '\n' '|')"; }
plain 10 "$work/app" "$work/data"; check "plain"
mkdir -m 777 "$work/store"; chmod 777 "$work/store"      # not to be trusted: a warning
under 10 "$work/app" "$work/data"; check "a store that others may write to"
CUPOLA_LOG=debug under 10 "$work/app" "$work/data"; check "CUPOLA_LOG=debug"
CUPOLA_TASKS=maybe under 10 "$work/app" "$work/data"; check "a setting that is not known"
[ "$DEVICE" = sim ] && { plain 10 "$work/app" "$work/data" unsupported; check "a call that the simulated device lacks"; }
under 10 sh -c 'exec "$0" "$1" 2>"$1.err"' "$work/app" "$work/data"; check "standard error is a file"
under 10 sh -c 'rm -f "$1.err"; exec 2>"$1.err"; rm "$1.err"; exec "$0" "$1"' "$work/app" "$work/data"
check "standard error is a file that is gone, whose place on the disk another may get"

# What is said is still heard, where standard error is what it was.
CUPOLA_TASKS=maybe under 10 sh -c 'exec "$0" - 2>"$1"' "$work/app" "$work/err"
grep -q "CUPOLA_TASKS=maybe" "$work/err" && right "heard in a file" || wrong "not heard in a file: $(cat "$work/err")"
CUPOLA_TASKS=maybe under 10 sh -c '"$0" - 2>&1 | cat >"$1"' "$work/app" "$work/err"
grep -q "CUPOLA_TASKS=maybe" "$work/err" && right "heard through a pipe" || wrong "not heard through a pipe: $(cat "$work/err")"

# Nobody reads it any more: no signal. Nobody reads it now, and the pipe is full: no wait.
code=$(under 10 bash -c '{ sleep 0.3; CUPOLA_LOG=debug "$0" - 2>&1 >/dev/null; echo $? >"$1"; } | true' "$work/app" "$work/code"; cat "$work/code")
[ "$code" = 0 ] && right "the reader has left" || wrong "the reader has left: exit code $code"
python3 - "$CUPOLA" "$DEVICE" "$work/app" <<'END' && right "a full pipe" || wrong "a full pipe"
import fcntl, os, subprocess, sys
reading, writing = os.pipe()
os.set_blocking(writing, False)
try:
    while True: os.write(writing, b"x" * 4096)
except BlockingIOError: pass
os.set_blocking(writing, True)
end = subprocess.run([sys.argv[1], "run", "--device", sys.argv[2], "--", sys.argv[3], "-"], stderr=writing,
                     env={**os.environ, "CUPOLA_LOG": "debug"}, timeout=10)
sys.exit(end.returncode)
END
(trap '' XFSZ; ulimit -f 0; trap - XFSZ; CUPOLA_LOG=debug under 10 "$work/app" - 2>"$work/err"); code=$?
[ $code = 0 ] && right "a file that must not grow" || wrong "a file that must not grow: exit code $code"

# Every descriptor is the program's own.
rm -rf "$work/store"; mkdir -m 700 "$work/store"
use() { mkdir "$work/files"; got=$(CUPOLA_LOG=debug timeout 20 "$@" 2>/dev/null); code=$?; rm -rf "$work/files"; }
many() {  # how, the command before it
  use "${@:2}" "$work/many" "$work/files" $when
  [ "$code $got" = "$want" ] && right "$1, $when: $want" || wrong "$1, $when: exit code $code, $got files are not as they were; plain: $want"
}
serve
for when in early late sparing; do
  # A GPU's driver does nothing more where its own descriptors were closed, with Cupola or without.
  use "$CUPOLA" run --device "$DEVICE" -- env -u LD_PRELOAD "$work/many" "$work/files" $when; want="$code $got"
  [ "$want" = "0 0" ] || [ "$DEVICE:$when:$want" = "gpu:late:77 " ] || { wrong "plain, $when: exit code $code, $got files"; continue; }
  many "all descriptors" "$CUPOLA" run --device "$DEVICE" --
  many "with --stats" "$CUPOLA" run --device "$DEVICE" --stats --
  many "profile" "$CUPOLA" profile --device "$DEVICE" --with events --out "$work/profile.json" --
  many "always preemptible" env CUPOLA_PREEMPT=always "$CUPOLA" run --device "$DEVICE" --
done
exit $bad
