#!/bin/bash
# A program runs under Cupola while an audit library (a profiler, a tracer) is in the environment.
. "$(dirname "$0")/../common.sh"
gcc -shared -fPIC -o "$work/audit.so" "$here/audit.c" || skip "no audit library"
g++ -shared -fPIC -o "$work/audit_cpp.so" "$here/audit_cpp.cpp" || skip "no audit library"
gcc -shared -fPIC -o "$work/takes_static_tls.so" "$here/takes_static_tls.c" || skip "no library"
compile app -x c "$here/main.c" -lcuda
gcc -o "$work/late" "$here/late.c" -ldl || skip "late does not compile"
late=("$work/late" "$work/takes_static_tls.so")
check() {  # what, wanted, got
  [ "$3" = "$2" ] && right "$1" || wrong "$1: wanted '$2', got: $3"
}
for audit in "$work/audit.so" "$work/audit_cpp.so" "$work/audit.so:$work/audit_cpp.so"; do
  what=$(sed "s|$work/||g" <<<"$audit")
  want=$(plain 10 env LD_AUDIT="$audit" "$work/app" 2>/dev/null) || skip "plain with $what"
  check "$what" "$want" "$(under 10 env LD_AUDIT="$audit" "$work/app" 2>&1)"
  check "$what, cupola itself" "$want" "$(LD_AUDIT="$audit" under 10 "$work/app" 2>&1)"
  want=$(plain 10 env LD_AUDIT="$audit" "${late[@]}" 2>/dev/null) || skip "plain late with $what"
  check "$what, driver opened late" "$want" "$(under 10 env LD_AUDIT="$audit" "${late[@]}" 2>&1)"
done
exit $bad
