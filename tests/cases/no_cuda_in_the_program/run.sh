#!/bin/bash
# A program that has not loaded CUDA finds none of it, as plain: an optional CUDA path stays off.
. "$(dirname "$0")/../common.sh"
check() {  # command
  plain 10 "$@" >"$work/want" 2>/dev/null || skip "plain"
  under 10 "$@" >"$work/got" 2>/dev/null
  while IFS= read -r -u 3 want; do
    IFS= read -r -u 4 got || got="nothing more"
    [ "$want" = "$got" ] && right "$want" || wrong "$got; plain: $want"
  done 3<"$work/want" 4<"$work/got"
}
gcc -o "$work/app" "$here/main.c" -ldl || skip "app does not compile"
check "$work/app"
check sh -c "'$work/app'"
gcc -shared -fPIC -o "$work/libweak.so" "$here/weak_library.c" || skip "no library"
gcc -o "$work/uses_library" "$here/uses_library.c" -L"$work" -lweak -Wl,-rpath,"$work" || skip "no program"
check "$work/uses_library"
LD_BIND_NOW=1 check "$work/uses_library"
gcc -o "$work/later" "$here/later.c" -ldl || skip "later does not compile"
check "$work/later"
exit $bad
