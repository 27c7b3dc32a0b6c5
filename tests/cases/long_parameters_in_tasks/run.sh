#!/bin/bash
# Kernels with up to 160 bytes of parameters become tasks, in one stream with those that have few.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
variants "$work/app"
turns=400; [ "$DEVICE" = gpu ] && turns=100000
[ "$(plain 60 "$work/app" $turns)" = same ] || skip "not plain"
for tasks in auto always; do
  got=$(CUPOLA_LOG=info CUPOLA_TASKS=$tasks under 120 "$work/app" $turns 2>"$work/err"); code=$?
  made=$(sed -n 's/.*tasks: \([0-9]*\) launches,.*/\1/p' "$work/err"); made=${made:-0}
  if [ "$code $got" != "0 same" ]; then
    wrong "$tasks: exit code $code, $(echo "$got" | tail -1 | cut -c1-100)"
  elif [ $tasks = always ] && [ $((made * 2)) -lt $turns ]; then
    wrong "$tasks: $made of $turns launches as tasks: $(sed -n 's/.*tasks: \(.*plain\)/\1/p' "$work/err" | tr '\n' ',')"
  else
    right "$tasks: $made of $turns launches as tasks"
  fi
done
exit $bad
