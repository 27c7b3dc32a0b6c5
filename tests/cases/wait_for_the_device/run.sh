#!/bin/bash
# A program that waits for the device after each launch, as many do. The resident kernel that runs its launches as tasks
# need not go for that: it is started a few times, not for each launch. And all that is to be waited for is: kernels in
# streams beside, and what kernels print.
# Alone on a GPU: it counts starts of a resident kernel that leaves where the program is slow.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
variants "$work/app"
turns=160 late=2000; [ "$DEVICE" = gpu ] && turns=20000 late=100000
few=9; [ "$DEVICE" = gpu ] && few=90  # 9 starts for so many launches, at most
for form in each beside print; do
  [ $form = print ] && turns=40
  want=$(plain 60 "$work/app" $form $turns $late) || skip "not plain: $form"
  for tasks in auto always; do
    for try in 1 2 3; do  # on a busy machine it leaves by itself between two launches
      got=$(CUPOLA_LOG=info CUPOLA_TASKS=$tasks under 120 "$work/app" $form $turns $late 2>"$work/err"); code=$?
      made=$(sed -n 's/.*tasks: \([0-9]*\) launches,.*/\1/p' "$work/err"); made=${made:-0}
      starts=$(sed -n 's/.* \([0-9]*\) starts of.*/\1/p' "$work/err"); starts=${starts:-0}
      [ $((starts * few)) -lt $((made * 9)) ] && break
    done
    if [ "$code" != 0 ] || [ "$got" != "$want" ]; then
      wrong "$form, $tasks: exit code $code, $(echo "$got" | tail -1 | cut -c1-100)"
    elif [ "$form $tasks" = "each always" ] && [ $((starts * few)) -ge $((made * 9)) ]; then
      wrong "$form, $tasks: $starts starts for $made launches"
    else
      right "$form, $tasks: $made launches as tasks, $starts starts"
    fi
  done
done
exit $bad
