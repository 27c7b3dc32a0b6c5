#!/bin/bash
# What `ctl set` and `ctl pause` say of a process holds until the process ends, also where it becomes another program,
# and before that one uses CUDA; of its children rules say what counts.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
serve
mkfifo "$work/in"; exec 7<>"$work/in"
"$CUPOLA" run --device "$DEVICE" -- "$work/app" 2 <"$work/in" >"$work/out" 2>/dev/null & app=$!; jobs_started+=($app)
launched() { for _ in $(seq 100); do [ "$(grep -c launched "$work/out")" -ge $1 ] && return; sleep 0.05; done; }
row() { "$CUPOLA" ctl show | awk -v p=$app '$1 == p { print $3, $4 }'; }
launched 1; "$CUPOLA" ctl set $app priority=7 weight=5 || exit 77
[ "$(row)" = "7 5" ] || { echo "not set: $(row)"; exit 77; }
echo >&7; launched 2
[ "$(row)" = "7 5" ] && right "priority and weight after exec" || wrong "priority and weight after exec: $(row), wanted 7 5"
"$CUPOLA" ctl pause $app; echo >&7; sleep 1.5
"$CUPOLA" ctl show | grep "^ *$app " | grep -q paused && right "paused after exec" || wrong "not paused after exec"
"$CUPOLA" ctl resume $app 2>/dev/null; kill $app; wait $app 2>/dev/null

# What is set before the next program uses CUDA counts, and a pause can be ended then.
start() { : >"$work/out"; "$CUPOLA" run --device "$DEVICE" -- "$work/app" "$@" <"$work/in" >>"$work/out" 2>/dev/null & app=$!; jobs_started+=($app); }
seen() { for _ in $(seq 100); do [ "$(grep -c $1 "$work/out")" -ge $2 ] && return; sleep 0.05; done; wrong "the program did not come to \"$1\""; }
start 1 late
seen waits 1; echo >&7; seen launched 1
"$CUPOLA" ctl pause $app; echo >&7; seen waits 2
"$CUPOLA" ctl set $app weight=9 && "$CUPOLA" ctl resume $app && right "a program that has not used CUDA yet can be set and resumed" || wrong "a program that has not used CUDA yet is not known"
echo >&7; seen launched 2
[ "$(row)" = "0 9" ] && ! "$CUPOLA" ctl show | grep "^ *$app " | grep -q paused && right "and then it is so" || wrong "then it is: $("$CUPOLA" ctl show | grep "^ *$app ")"
kill $app; wait $app 2>/dev/null

start child
seen launched 1; "$CUPOLA" ctl set $app priority=8; echo >&7; seen launched 2
child=$(awk 'NR == 2 { print $2 }' "$work/out")
"$CUPOLA" ctl show >"$work/show"
grep "^ *$child " "$work/show" | grep -q " 0 *1 " && grep "^ *$app " "$work/show" | grep -q " 8 *1 " && right "a child is another process" || { wrong "the child $child of $app"; cat "$work/show"; }
echo >&7; wait $app
exit $bad
