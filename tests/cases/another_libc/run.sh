#!/bin/bash
# A program of another C library (musl), without CUDA, that a script under Cupola starts, runs as plain; and what it starts
# runs under Cupola. MUSL_ROOT: where the packages musl and musl-dev were unpacked; else they are fetched into a folder of
# this run.
. "$(dirname "$0")/../common.sh"
root=${MUSL_ROOT:-$work/root}
if [ ! -d "$root" ]; then
  (cd "$work" && timeout 60 apt-get download musl musl-dev >/dev/null 2>&1 && for package in musl*.deb; do dpkg -x "$package" root; done)
fi
loader=$(find "$root" -name libc.so -path '*musl*' 2>/dev/null | head -1)
parts=$(dirname "$(find "$root" -name crt1.o 2>/dev/null | head -1)")
headers=$(dirname "$(find "$root" -name stdio.h 2>/dev/null | head -1)")
[ -n "$loader" ] && [ -f "$parts/crt1.o" ] || skip "no musl here"
ln -s "$(readlink -f "$loader")" "$work/ld-musl-x86_64.so.1"
loader=$work/ld-musl-x86_64.so.1
musl() {  # program, source
  gcc -nostdinc -isystem "$headers" -nostdlib -no-pie -fno-pie -fno-stack-protector -o "$work/$1" "$parts/crt1.o" "$parts/crti.o" \
    "$here/$2" "$loader" "$parts/crtn.o" -Wl,-dynamic-linker,"$loader" || skip "$1 does not compile"
}
check() {  # what, command
  local want got
  want=$(plain 10 "${@:2}" 2>/dev/null) || skip "plain, $1"
  got=$(under 10 "${@:2}" 2>"$work/err")
  got="$? $got"
  [ "$got" = "0 $want" ] && right "$1" || wrong "$1: $got, $(head -c 250 "$work/err" | sed 's|/[^ ]*/||g' | tr '\n' '|')"
}
musl app main.c
check "started by cupola run" "$work/app"
check "started by a script" sh -c "'$work/app'"
musl dynamic dynamic.c
check "the dynamic linker's calls" "$work/dynamic"
check "the dynamic linker's calls, by a script" sh -c "'$work/dynamic'"
musl starts starts.c
compile cuda -x c "$here/../audit_library/main.c" -lcuda
check "what it starts" "$work/starts" "$work/cuda"
maps=$(under 10 "$work/starts" /bin/cat /proc/self/maps 2>/dev/null | grep -c 'libcupola\.so')
[ "$maps" -gt 0 ] && right "what it starts is under Cupola" || wrong "what a musl program starts is not under Cupola"
exit $bad
