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
build() {  # compiler and options
  local source
  command -v "$1" >/dev/null || return 1
  for source in main own_options late; do
    "$@" "${flags[@]}" -o "$work/$source" "$here/$source.c" "${libraries[@]}" 2>/dev/null || return 1
  done
  # Its shared runtime may be where the linker does not look.
  LD_LIBRARY_PATH=$("$1" -print-file-name=libclang_rt.asan-x86_64.so 2>/dev/null | xargs dirname):${LD_LIBRARY_PATH:-}
  export LD_LIBRARY_PATH
  tried=$((tried + 1))
}
for how in "gcc -fsanitize=address" "gcc -fsanitize=address -static-libasan" "clang -fsanitize=address" \
  "clang -fsanitize=address -shared-libasan" "gcc -fsanitize=undefined,leak" "gcc -fsanitize=thread"; do
  read -r -a words <<<"$how"
  build "${words[@]}" || { echo "not tried: $how"; continue; }
  [ "$(plain 20 "$work/main" 2>/dev/null)" = "0 1" ] || [ "$DEVICE" = gpu ] || { echo "not tried: $how, plain"; continue; }
  check "$how" "$work/main"
  check "$how, driver opened late" "$work/late"
  case "$how" in *address*) ;; *) continue ;; esac
  check "$how, by a script with options of its own" sh -c "ASAN_OPTIONS=detect_leaks=0 '$work/main'"
  check "$how, options in the program" "$work/own_options"
  check "$how, an error is found" "$work/late" wrong
  under 20 "$work/late" wrong 2>&1 | grep -q heap-buffer-overflow || wrong "$how: the error is not reported"
done
[ $tried -gt 0 ] || skip "no sanitizers"
exit $bad
