#!/bin/bash
# A call from the top of a fiber's stack reads nothing above it, and needs little below: 8 KiB do for a call, and for the
# program's first one; 16 KiB of a thread for opening the driver.
. "$(dirname "$0")/../common.sh"
compile app -x c -O2 "$here/main.c" -lcuda
gcc -o "$work/late" "$here/late.c" -ldl -lpthread || skip "late does not compile"
[ "$(plain 10 "$work/app" 2>/dev/null)" = 0 ] || skip "plain"
check() {  # what, command
  local got
  got=$(under 10 "${@:2}" 2>/dev/null)
  got="$got $?"
  [ "$got" = "0 0" ] && right "$1" || wrong "$1: result and exit code '$got'"
}
all() {
  check "$1" "$work/app"
  [ "$DEVICE" = sim ] || return  # the real driver has needs of its own
  check "$1, 8 KiB" "$work/app" 8
  check "$1, the first call on 8 KiB" "$work/app" 8 first
  check "$1, a thread of 16 KiB" "$work/late"
}
all "no arbiter"
serve
all "with an arbiter"
export CUPOLA_PREEMPT=always
all "with an arbiter, preempt always"
exit $bad
