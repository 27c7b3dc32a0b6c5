#!/bin/bash
# Logs of the driver's compiler are set on success too; PTX of a later version or for a later device, images that are bad
# in other ways, and a folder in a file's place, are refused with the error that an H100's driver (580.159) gives.
. "$(dirname "$0")/../common.sh"
compile app -x c "$here/main.c" -lcuda
check() {  # what, wanted
  got=$(plain 10 "$work/app" "$work" $1 2>"$work/err"); code=$?
  [ "$code $got" = "0 $2" ] && right "$1" || wrong "$1: exit code $code, '$got', $(head -c 200 "$work/err" | tr '\n' ' ')"
}
check log "0, error log ended, info log ended"
for what in version target folder; do check $what refused; done
# A GPU's driver looks at a library's image when a kernel of it is first asked for.
[ "$DEVICE" = sim ] && check library refused

compile bad -x c "$here/bad.c" -lcuda
echo 'extern "C" __global__ void k() {}' >"$work/k.cu"
(cd "$work" && "$NVCC" -cubin -arch=sm_80 -o k80.cubin k.cu &&
  "$NVCC" -fatbin -gencode arch=compute_100,code=sm_100 -o k100.fatbin k.cu &&
  "$NVCC" -shared -Xcompiler -fPIC -arch=sm_90 -o host.so k.cu) || skip "no images"
wanted() { cat <<'END'
good 0 size
good-90a 0 size
good-80 0 size
version-99.0 222 size
version-9.1 222 size
version-0.5 222 size
version-x 218 size
no-version 200 size
no-target 218 size
old-for-target 218 size
32-bit 218 size
sm_100 218 size
sm_100a 218 size
sm_999 218 size
sm_80a 218 size
banana 218 size
twice 218 size
empty 200 size
text 200 size
file-good 0
file-later 222
file-empty 200
file-text 200
file-folder 2
file-folder/ 2
file-missing 301
file-below-a-file 301
file-no-name 1
file-null 1
file-/dev/null 200
file-host-object 200
file-other-gpu 209
file-later-gpu 209
END
}
plain 20 "$work/bad" "$work" 2>/dev/null >"$work/got"; code=$?
if [ $code = 0 ] && difference=$(diff <(wanted) "$work/got"); then right "answers to bad images"
else wrong "answers to bad images (exit code $code): ${difference//$'\n'/, }"; fi

# Other forms of kernels are loaded as the device takes them: it has nothing to say of that.
echo 'int main() { for (int i = 0; i < 100; ++i) k<<<1, 32>>>(); return cudaDeviceSynchronize(); }' >>"$work/k.cu"
compile forms "$work/k.cu"
variants "$work/forms"
serve
for way in CUPOLA_PREEMPT=always CUPOLA_TASKS=always; do
  env $way CUPOLA_LOG=info timeout -k 2 20 "$CUPOLA" run --device "$DEVICE" -- "$work/forms" 2>"$work/err"; code=$?
  used=$(grep -oE "[1-9][0-9]* launches( preemptible|, )" "$work/err" | head -1)
  if [ $code = 0 ] && [ -n "$used" ] && ! grep -q "cannot load" "$work/err"; then right "$way: $used"
  else wrong "$way: exit code $code, $used, $(head -c 300 "$work/err" | tr '\n' ' ')"; fi
done
exit $bad
