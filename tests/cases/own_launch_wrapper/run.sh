#!/bin/bash
# Whatever a user puts between the program and what it calls sees each call, in every order of preloading: wrappers of
# the runtime's launch calls, of driver calls, and of dlopen and dlsym.
. "$(dirname "$0")/../common.sh"
gcc -shared -fPIC -I"$toolkit/include" -I"$toolkit/targets/x86_64-linux/include" -o "$work/libwrapper.so" "$here/wrapper.c" -ldl ||
  skip "no wrapper"
compile app "$here/main.cu"
compile linked "$here/main.cu" -Xlinker --no-as-needed -L"$work" -lwrapper -Xlinker -rpath="$work"
check() {  # what, wanted, got
  [ "$3" = "$2" ] && right "$1" || wrong "$1: wanted '${2//$'\n'/, }', got '${3//$'\n'/, }'"
}
in_every_order() {  # what, wrapper, program
  local want got
  want=$(plain 10 env LD_PRELOAD="$2" "$3" 2>/dev/null)
  case "$want" in *"wrapper saw"*[1-9]*) ;; *) skip "plain: $want" ;; esac
  # A command that is built with AddressSanitizer does not start behind another preloaded library itself.
  if ! grep -q __asan_init "$CUPOLA"; then
    got=$(LD_PRELOAD="$2" under 10 "$3" 2>/dev/null | sort -u)
    check "$1, preloaded before cupola is started" "$(sort -u <<<"$want")" "$got"
  fi
  got=$(under 10 sh -c "LD_PRELOAD='$2':\$LD_PRELOAD exec '$3'" 2>/dev/null)
  check "$1, preloaded before Cupola's library" "$want" "$got"
  got=$(under 10 sh -c "LD_PRELOAD=\$LD_PRELOAD:'$2' exec '$3'" 2>/dev/null)
  check "$1, preloaded behind Cupola's library" "$want" "$got"
}
in_every_order "the runtime's launch call" "$work/libwrapper.so" "$work/app"
check "linked before libcudart" "$(plain 10 "$work/linked" 2>/dev/null)" "$(under 10 "$work/linked" 2>/dev/null)"
gcc -shared -fPIC -o "$work/libdriver_wrapper.so" "$here/driver_wrapper.c" -ldl || skip "no wrapper of driver calls"
compile uses_driver -x c "$here/uses_driver.c" -lcuda
in_every_order "driver calls" "$work/libdriver_wrapper.so" "$work/uses_driver"
gcc -o "$work/opens_driver" "$here/opens_driver.c" -ldl || skip "opens_driver does not compile"
for by_dlsym in 0 1; do
  gcc -shared -fPIC -DWRAPS_BY_DLSYM=$by_dlsym -o "$work/liblinker_wrapper$by_dlsym.so" "$here/linker_wrapper.c" -ldl ||
    skip "no wrapper of the linker's calls"
  in_every_order "dlopen and dlsym ($by_dlsym)" "$work/liblinker_wrapper$by_dlsym.so" "$work/opens_driver"
done
exit $bad
