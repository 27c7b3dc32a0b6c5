#!/bin/bash
# Launches that are held back and go out together (docs/launches-in-batches.md) do what they would one by one, in
# the same order as everything else, tell the same errors, and go out soon where the program makes no call.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu" -lcuda
variants "$work/app"
rounds=60 seeds="1 2 3"
# Graphs are made where the device comes to rest soon, which a busy machine's simulated device may not.
[ "$DEVICE" = sim ] && export CUPOLA_TASK_PATIENCE_MS=2000
[ "$DEVICE" = gpu ] && rounds=700 seeds="1 2 3 4"
check() {  # KIND SEED ROUNDS
  local kind=$1 want got made code tasks batches
  want=$(plain 60 "$work/app" "$@" 2>/dev/null)
  [ -n "$want" ] || { wrong "$*: prints nothing without Cupola"; return; }
  for tasks in auto always; do
    for batches in always auto; do
      [ "$DEVICE $batches" = "sim auto" ] && [ $tasks = always ] && continue
      got=$(CUPOLA_LOG=info CUPOLA_TASKS=$tasks CUPOLA_BATCHES=$batches under 120 "$work/app" "$@" 2>"$work/err"); code=$?
      made=$(grep -o "batches: [0-9]* launches in [0-9]* graphs" "$work/err")
      if [ "$code $got" != "0 $want" ]; then
        wrong "$*, tasks $tasks, batches $batches: exit code $code, $got, not $want; $made"
      elif [ "$tasks $batches" = "auto always" ] && [ -z "$made" ]; then
        wrong "$*: no batches were made"
      else
        right "$*, tasks $tasks, batches $batches: ${made:-no batches}"
      fi
    done
  done
}
for seed in $seeds; do check rows $seed $rounds; done
check pauses 1 $((rounds / 3))
check threads 4 $((rounds / 10))
check faults 1 1
check exit 1 1
check resets 1 4
check modules 1 $((rounds / 3))
check contexts 1 $((rounds / 3))
exit $bad
