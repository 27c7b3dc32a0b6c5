#!/bin/bash
# Parameters of large alignment, arrays and small ones between: where they lie in the program's kernel
# and in its other forms, and that each argument arrives, in launches that are stopped and finished
# later, in slices, and as tasks.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
compile packed "$here/packed.cu" -lcuda
compile asker "$here/asker.cu"
variants "$work/app" "$work/packed"
if python3 "$here/layouts.py" "$CUPOLA_STORE" >"$work/layouts"; then
  right "$(tail -1 "$work/layouts")"
else
  wrong "$(tail -1 "$work/layouts"); $(head -1 "$work/layouts" | cut -c1-160)"
fi
# The simulated device takes its time.
app=("$work/app" 20) packed=("$work/packed" 2000)
[ "$DEVICE" = sim ] && app=("$work/app" 2) packed=("$work/packed" 200)
for program in "${app[*]}" "${packed[*]}"; do
  [ "$(plain 60 $program)" = same ] || { echo "not plain: $program"; exit 77; }
done
cat >"$work/config" <<'END'
[[rule]]
label = "high"
priority = 10

[[rule]]
label = "sliced"
variant = "sliced"
END
serve --config "$work/config"
CUPOLA_LABEL=high "$CUPOLA" run --device "$DEVICE" -- "$work/asker" 300 >/dev/null 2>&1 &
jobs_started+=($!)
sleep 1
# try WHAT USED VARIABLES... -- PROGRAM...: the program under the arbiter; what Cupola said is in $work/err, which
# has to match USED.
try() {
  local what=$1 used=$2 code variables=()
  shift 2
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  env "${variables[@]}" CUPOLA_LOG=info timeout -k 2 60 "$CUPOLA" run --device "$DEVICE" -- "$@" \
    >"$work/out" 2>"$work/err"
  code=$?
  if [ "$(tr '\n' ' ' <"$work/out")" != "same " ]; then
    wrong "$what: exit code $code, $(head -c 160 "$work/out" | tr '\n' ' '), $(tail -1 "$work/err" | cut -c1-120)"
  elif ! grep -qE "$used" "$work/err"; then
    wrong "$what: right, but not that way"
  else
    right "$what"
  fi
}
some='[1-9][0-9]* launches'
try "stopped and finished later" "$some preemptible" CUPOLA_PREEMPT=always -- "${app[@]}"
try "packed, stopped and finished later" "$some preemptible" CUPOLA_PREEMPT=always -- "${packed[@]}"
try "packed, in slices" "$some sliced" CUPOLA_LABEL=sliced -- "${packed[@]}"
try "packed, as tasks" "tasks: $some" CUPOLA_TASKS=always -- "${packed[@]}"
try "packed, with side modules of PTX" "tasks: $some" CUPOLA_PREEMPT=always CUPOLA_TASKS=always CUPOLA_SIDE_PTX=1 \
  -- "${packed[@]}"
# A bundle that says otherwise than the driver is not used, and that is told.
python3 "$here/layouts.py" "$CUPOLA_STORE" move 2
try "a bundle that is wrong" "elsewhere than its bundle says" CUPOLA_PREEMPT=always CUPOLA_TASKS=always \
  -- "${packed[@]}"
exit $bad
