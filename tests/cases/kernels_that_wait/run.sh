#!/bin/bash
# Kernels whose blocks wait for one another, or for the host, end under Cupola too, however the word is
# read (also in code for debuggers, where all is a call); and a call of the host that plain returns
# returns.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu" & compile debug "$here/main.cu" -G & wait
[ -x "$work/app" ] && [ -x "$work/debug" ] || exit 77
variants "$work/app" "$work/debug"
ways="volatile atomic ldcg call deeper reference lambda recursion ring bounded"
declare -A ends
check() {  # what, setting, program, arguments
  local key="${*:3}" limit=4
  [ "$DEVICE" = gpu ] && limit=20
  [ "${ends[$key]:=$(plain $limit "$work/$3" "${@:4}" 2>/dev/null)}" = done ] || { echo "not plain: $key"; return; }
  got=$(under $limit env $2 "$work/$3" "${@:4}" 2>/dev/null); code=$?
  [ "$got" = done ] && right "$key, $1" || wrong "$key, $1: exit code $code, '$got'"
}
for way in $ways; do
  check "as tasks" CUPOLA_TASKS=always app grid $way
  check "no arbiter, by default" CUPOLA_TASKS=auto app host $way attributes
  check "no arbiter, as tasks" CUPOLA_TASKS=always debug host $way attributes
done
for way in ldcg call; do
  for call in occupancy instantiate; do
    check "no arbiter, by default" CUPOLA_TASKS=auto app host $way $call
    check "no arbiter, as tasks" CUPOLA_TASKS=always app host $way $call
  done
done
serve_beside "$work/app" sleep
for way in $ways; do
  check "preemptible" CUPOLA_PREEMPT=always app grid $way
done
check "preemptible" CUPOLA_PREEMPT=always debug grid call
check "beside a program of higher priority, by default" CUPOLA_PREEMPT=auto app grid ldcg
exit $bad
