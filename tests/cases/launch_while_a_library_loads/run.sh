#!/bin/bash
# A launch, or another CUDA call, takes no lock of the dynamic linker: a thread may make one while a library's constructor,
# on another thread, waits for it. (Stand-ins for the runtime and the driver: those of the simulated device take it
# themselves.)
. "$(dirname "$0")/../common.sh"
[ "$DEVICE" = sim ] || skip "a stand-in for the driver"
gcc -O1 -shared -fPIC -o "$work/libruntime.so" "$here/runtime.c" &&
  gcc -O1 -shared -fPIC -o "$work/library.so" "$here/library.c" &&
  gcc -O1 -rdynamic -Wl,-z,now -o "$work/app" "$here/main.c" -L"$work" -lruntime -ldl -lpthread -Wl,-rpath,"$work" ||
  skip "the runtime's program does not compile"
mkdir "$work/driver"
gcc -O1 -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$work/driver/libcuda.so.1" "$here/driver.c" &&
  gcc -O1 -rdynamic -Wl,-z,now -o "$work/calls" "$here/calls.c" "$work/driver/libcuda.so.1" -ldl -lpthread ||
  skip "the driver's program does not compile"
check() {  # what, wanted, time limit, command
  local want=$2 got
  [ "$(LD_LIBRARY_PATH=$work/driver timeout 5 "${@:4}" 2>/dev/null)" = "$want" ] || skip "plain, $1"
  got=$(CUPOLA_DRIVER=$work/driver/libcuda.so.1 timeout -k 2 "$3" "$CUPOLA" run --device gpu -- "${@:4}" 2>"$work/err")
  got="$? $got"
  [ "$got" = "0 $want" ] && right "$1" || wrong "$1: exit code and output '$got'"
}
check "a launch of the runtime" 2 5 "$work/app" "$work/library.so"
check "driver calls" 0 5 "$work/calls" "$work/library.so"
serve
check "driver calls, with an arbiter" 0 5 "$work/calls" "$work/library.so"
export CUPOLA_PREEMPT=always
check "driver calls, preempt always" 0 5 "$work/calls" "$work/library.so"
exit $bad
