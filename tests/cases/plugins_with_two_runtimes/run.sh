#!/bin/bash
# Plug-ins that need different versions of the runtime each launch by their own.
. "$(dirname "$0")/../common.sh"
gcc -o "$work/app" "$here/main.c" -ldl || skip "app does not compile"
for i in 1 2; do
  mkdir "$work/$i"
  gcc -O1 -shared -fPIC -DWHICH=$i -Wl,-soname,libcudart.so.100$i -o "$work/$i/libcudart.so.100$i" "$here/runtime.c" &&
    gcc -O1 -shared -fPIC -o "$work/$i/plugin.so" "$here/plugin.c" "$work/$i/libcudart.so.100$i" -Wl,-rpath,"$work/$i" ||
    skip "no plug-in"
done
check() {  # wanted, words: 1 and 2 for plug-ins
  local want=$1 words=() word got
  for word in "${@:2}"; do [ -d "$work/$word" ] && words+=("$work/$word/plugin.so") || words+=("$word"); done
  [ "$(plain 5 "$work/app" "${words[@]}" 2>/dev/null)" = "$want " ] || skip "plain, ${*:2}"
  got=$(under 5 "$work/app" "${words[@]}" 2>/dev/null)
  [ "$got" = "$want " ] && right "${*:2}" || wrong "plug-ins ${*:2} launch by the runtimes $got"
}
check "1 2 1" 1 2 1
check "2 1" 2 1
check "1 1 2" 1 1 2
check "1 2 1 2" keep 1 2 again
check "1 2 1 2 2" keep deep 1 2 again 2
exit $bad
