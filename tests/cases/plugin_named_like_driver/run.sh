#!/bin/bash
# A program's own plug-in that has the driver's file name is what it gets, by its path or by a name alone.
. "$(dirname "$0")/../common.sh"
gcc -o "$work/app" "$here/main.c" -ldl || skip "app does not compile"
check() {  # what, arguments of the program
  local want got what=$1
  shift
  want=$(cd "$work" && plain 10 "$work/app" "$@" 2>/dev/null) || skip "plain, $what: $want"
  got=$(cd "$work" && under 10 "$work/app" "$@" 2>&1)
  [ "$got" = "$want" ] && right "$what" || wrong "$what: wanted '$want', got '$got'"
}
for name in libcuda.so libcuda.so.2 libcuda.so.backend; do
  gcc -shared -fPIC -o "$work/$name" "$here/plugin.c" || skip "no plug-in"
  check "$name by its path" "$work/$name"
  check "$name by a relative path" "./$name"
  check "$name beside the driver" driver "$work/$name" driver "./$name"
done
# By its name alone, found by the program's RUNPATH and by its RPATH; the driver's own name too.
for tags in --enable-new-dtags --disable-new-dtags; do
  gcc -o "$work/app" "$here/main.c" -ldl -Wl,$tags,-rpath,'$ORIGIN/own' || skip "app does not compile"
  mkdir -p "$work/own"
  for name in libcuda.so libcuda.so.1; do
    gcc -shared -fPIC -o "$work/own/$name" "$here/plugin.c" || skip "no plug-in"
    check "$name by its name, $tags" "$name" "$name"
    rm "$work/own/$name"
  done
done
# A file of that name that is no library at all.
echo text >"$work/libcuda.so.text"
[ "$(under 10 "$work/app" "$work/libcuda.so.text" 2>&1 | head -c 10)" = "no plug-in" ] && right "no library" ||
  wrong "a text file is taken for the driver"
exit $bad
