#!/bin/bash
# Part of a warp returns or leaves a loop, the rest goes on to barriers: with preemptible variants and as tasks. On a GPU
# every shape of shapes.cu too, which the tests of the passes (tests/unit/passes) run on the stepped device.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
variants "$work/app"
serve

for shape in return loop nested; do
  want=$(plain 60 "$work/app" $shape)
  for way in "CUPOLA_PREEMPT=always" "CUPOLA_TASKS=always"; do
    got=$(env $way timeout -k 2 25 "$CUPOLA" run --device "$DEVICE" -- "$work/app" $shape 2>"$work/err"); code=$?
    [ "$code $got" = "0 $want" ] && right "$shape, $way" || wrong "$shape, $way: exit code $code, ${got:-nothing}, plain $want"
  done
done

[ "$DEVICE" = gpu ] || exit $bad

# shapes_as WAY BLOCKS: all shapes; those after one that hangs or fails are not looked at.
compile shapes "$here/shapes.cu"
variants "$work/shapes"
plain 60 "$work/shapes" 0 999 20 >"$work/want"
shapes_as() {
  env CUPOLA_LOG=info "$1" timeout -k 2 60 "$CUPOLA" run --device "$DEVICE" -- "$work/shapes" 0 999 "$2" >"$work/got" 2>"$work/err"
  code=$?
  made=$(grep -oE "[0-9]+ launches preemptible|tasks: [0-9]+ launches" "$work/err" | head -1)
  [ $code = 0 ] && cmp -s "$work/want" "$work/got" && [ -n "$made" ] && right "$1: $made" && return
  wrong "$1: exit code $code, ${made:-none}; the first that differs: $(diff "$work/want" "$work/got" | sed -n 2p)"
}
shapes_as CUPOLA_PREEMPT=always 20
shapes_as CUPOLA_TASKS=always 5
exit $bad
