#!/bin/bash
# A call that waits for nothing of a long narrow launch returns while that runs, also where it is a task, and
# what comes behind the launch does so.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
variants "$work/app"
calls="attributes large_copy full destroy" modes=always
[ "$DEVICE" = sim ] || calls="$calls new_stream copy event" modes="always auto"
for call in $calls; do
  [ "$(plain 10 "$work/app" $call 2>/dev/null)" = done ] || { echo "not plain: $call"; continue; }
  for tasks in $modes; do
    got=$(CUPOLA_LOG=info CUPOLA_TASKS=$tasks under 10 "$work/app" $call 2>"$work/err"); code=$?
    made=$(grep -o "tasks: [0-9]* launches" "$work/err" | head -1 | cut -c8-)
    [ "$code $got" = "0 done" ] && right "$call, $tasks: ${made:-no tasks}" || wrong "$call, $tasks: exit code $code, '$got', ${made:-no tasks}"
  done
done
exit $bad
