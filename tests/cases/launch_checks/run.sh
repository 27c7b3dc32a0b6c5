#!/bin/bash
# A launch that CUDA refuses is refused, with the driver's error, also where launches become something
# else, and by the simulated device. `answers` holds what the driver 580.159 (CUDA 13.0) answers on an
# H100, for each call that launches.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu" -lcuda
compile table "$here/table.cu" -lcuda
variants "$work/app" "$work/table" "$here/required.ptx" "$here/kernels.ptx"
cat >"$work/want" <<'END'
block z 64: cudaSuccess
block z 65: cudaErrorInvalidValue
block z 992: cudaErrorInvalidValue
block x 0: cudaErrorInvalidValue
grid x 0: cudaErrorInvalidValue
96 threads of at most 64: cudaErrorInvalidValue
60000 bytes of shared memory, limit not raised: cudaErrorInvalidValue
32 threads where 64 are required: refused
8 x 8 threads where 64 x 1 are required: refused
count 57664
END
# Earlier runtimes have names of their own for the shapes that are refused here.
alike() { sed 's/ 0: cudaErrorInvalidConfiguration/ 0: cudaErrorInvalidValue/' "$1"; }
check_app() {
  alike "$work/got" >"$work/alike"
  if difference=$(diff "$work/want" "$work/alike"); then
    right "$1"
  else
    wrong "$1 (< right, > got):"
    echo "$difference"
  fi
}
# The simulated device does not know how many registers the compiler takes, and has no clusters of
# several blocks.
lacks='many registers|clusters of (2, grid 2|2, cooperative|8) |by the kernel, 2 said|by an attribute of the kernel'
known() { if [ "$DEVICE" = sim ]; then grep -vE "$lacks" "$1"; else cat "$1"; fi; }
# check_table WHAT [CALL]: of all calls, or of one.
check_table() {
  known "$work/got" >"$work/known"
  known "$here/answers" | grep "^${2:-}" >"$work/answers"
  if difference=$(diff "$work/answers" "$work/known"); then
    right "$1: $(wc -l <"$work/known") launches"
  else
    wrong "$1 (< right, > got), $(grep -c '^[<>]' <<<"$difference") lines:"
    head -20 <<<"$difference"
  fi
}
# used PATTERN: Cupola has done that in the last run.
used() { grep -qE "$1" "$work/err" || wrong "no $1: $(tail -3 "$work/err")"; }
table=("$work/table" "$here/kernels.ptx")
plain 20 "$work/app" "$here/required.ptx" >"$work/got" 2>/dev/null; check_app plain
plain 60 "${table[@]}" >"$work/got" 2>/dev/null; check_table "plain"
for tasks in off always; do
  CUPOLA_TASKS=$tasks under 20 "$work/app" "$here/required.ptx" >"$work/got" 2>/dev/null
  check_app "CUPOLA_TASKS=$tasks"
done
export CUPOLA_LOG=info
CUPOLA_TASKS=always under 60 "${table[@]}" >"$work/got" 2>"$work/err"; check_table "as tasks"
used 'tasks: [1-9][0-9]* launches'
# So many that each kernel's are tasks by the time of the launch that matters: takes a while when simulated.
calls=(kernel)
[ "$DEVICE" = gpu ] && calls=(kernel kernel_ptsz ex ex_ptsz runtime chevrons)
for call in "${calls[@]}"; do
  CUPOLA_TASKS=always under 60 "${table[@]}" 100 $call >"$work/got" 2>"$work/err"
  check_table "as tasks, 100 before each" "$call |"
  used 'tasks: [1-9][0-9]{3} launches'
done
cat >"$work/config" <<'END'
[[rule]]
label = "sliced"
variant = "sliced"
END
serve --config "$work/config"
CUPOLA_TASKS=off CUPOLA_PREEMPT=always under 60 "${table[@]}" >"$work/got" 2>"$work/err"; check_table "preemptible"
used '[1-9][0-9]* launches preemptible'
CUPOLA_TASKS=off CUPOLA_LABEL=sliced under 60 "${table[@]}" >"$work/got" 2>"$work/err"; check_table "in slices"
used '[1-9][0-9]* launches sliced'
exit $bad
