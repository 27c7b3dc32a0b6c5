#!/bin/bash
# Programs built with sanitizers, by gcc and clang, with the shared runtime or linked with it, run under Cupola as plain, and
# their sanitizer still works.
. "$(dirname "$0")/../common.sh"
flags=(-g -I"$toolkit/include" -I"$toolkit/targets/x86_64-linux/include")
libraries=(-L"$toolkit/lib64/stubs" -L"$toolkit/targets/x86_64-linux/lib/stubs" -lcuda -ldl -lpthread)
export ASAN_OPTIONS=detect_leaks=0
check() {  # what, command
  local want got
  want=$(plain 20 "${@:2}" 2>/dev/null)
  want="$? $want"
  got=$(under 20 "${@:2}" 2>"$work/err")
  got="$? $got"
  [ "$got" = "$want" ] && right "$1" || wrong "$1: wanted '$want', got '$got', $(head -c 200 "$work/err")"
}
tried=0
build() {  # sources, compiler and options
  local source
  command -v "$2" >/dev/null || return 1
  for source in $1; do
    "${@:2}" "${flags[@]}" -o "$work/$source" "$here/$source.c" "${libraries[@]}" 2>/dev/null || return 1
  done
  # Its shared runtime may be where the linker does not look.
  LD_LIBRARY_PATH=$("$2" -print-file-name=libclang_rt.asan-x86_64.so 2>/dev/null | xargs dirname):${LD_LIBRARY_PATH:-}
  export LD_LIBRARY_PATH
  tried=$((tried + 1))
}
# With the shared runtime of AddressSanitizer, which looks at what comes before it.
for how in "gcc -fsanitize=address" "clang -fsanitize=address -shared-libasan"; do
  build "main own_options late" $how || { echo "not tried: $how"; continue; }
  check "$how" "$work/main"
  check "$how, by a script with options of its own" sh -c "ASAN_OPTIONS=detect_leaks=0 '$work/main'"
  check "$how, options in the program" "$work/own_options"
  check "$how, driver opened late, an error is found" "$work/late" wrong
  grep -q heap-buffer-overflow "$work/err" || wrong "$how: the error is not reported"
done
# And the others.
for how in "gcc -fsanitize=address -static-libasan" "clang -fsanitize=address" "gcc -fsanitize=undefined,leak" \
  "gcc -fsanitize=thread"; do
  build "main late" $how || { echo "not tried: $how"; continue; }
  check "$how" "$work/main"
  check "$how, driver opened late" "$work/late"
done
[ $tried -gt 0 ] || skip "no sanitizers"
exit $bad
