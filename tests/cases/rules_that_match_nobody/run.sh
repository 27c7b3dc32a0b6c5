#!/bin/bash
# Rules apply to a program that was replaced on disk meanwhile (an upgrade), to users by number as [access] has them, and to
# long labels; to a file whose name ends as the kernel writes it of removed ones, to a program by the link or the script by
# which it was started. `ctl rules --for` says which rule fits, and why another does not; what can fit nobody is told.
. "$(dirname "$0")/../common.sh"
compile model-server "$here/main.cu"
cp "$work/model-server" "$work/new"
long=$(printf 'team-%060d-nightly' 7)
cat >"$work/c.toml" <<C
[[rule]]
executable = "model-server"
priority = 10
[[rule]]
user = "$(id -u)"
weight = 6
[[rule]]
label = "$long"
latency_bound_us = 3000
C
serve --config "$work/c.toml"
: >"$work/out"; mkfifo "$work/in"; exec 7<>"$work/in"
CUPOLA_LABEL=$long "$CUPOLA" run --device "$DEVICE" -- "$work/model-server" <"$work/in" >"$work/out" 2>"$work/err" & app=$!; jobs_started+=($app)
wait_for() { for _ in $(seq 100); do grep -q $1 "$work/out" && return; sleep 0.05; done; }
wait_for started; mv "$work/new" "$work/model-server"; echo >&7; wait_for launched
"$CUPOLA" ctl --json show >"$work/show" || exit 77
field() { sed -n "s/^ *\"$1\": \(.*[^,]\),*$/\1/p" "$work/show" | head -1; }
[ "$(field priority)" = 10 ] && right "a program that was replaced" || wrong "a program that was replaced: priority $(field priority), wanted 10; its name: $(field executable | sed "s|.*/||")"
[ "$(field weight)" = 6 ] && right "user = \"$(id -u)\"" || wrong "user = \"$(id -u)\": weight $(field weight), wanted 6 (the user: $(field user))"
[ "$(field latency_bound_us)" = 3000 ] && right "a label of ${#long} bytes" || { grep -qi label "$work/err" "$work/serve.log" && right "a label of ${#long} bytes: told" || wrong "a label of ${#long} bytes: cut to $(($(field label | wc -c) - 3)), no rule fits, nothing is said"; }
echo >&7; kill $app 2>/dev/null; wait $app 2>/dev/null

# One program under other names. A script's interpreter is the program itself.
cp "$work/model-server" "$work/old (deleted)"; cp "$work/model-server" "$work/gone (deleted)"
ln -s model-server "$work/nightly-link"
printf '#!%s\n' "$work/model-server" >"$work/nightly-job"; chmod +x "$work/nightly-job"
cat >"$work/c.toml" <<C
[[rule]]
executable = "old (deleted)"
priority = 11
[[rule]]
executable = "*/gone (deleted)"
priority = 12
[[rule]]
executable = "$work/nightly-link"
priority = 13
[[rule]]
executable = "nightly-job"
priority = 14
C
"$CUPOLA" ctl reload || wrong "these rules are not accepted"
priority=10
for name in "old (deleted)" "gone (deleted)" nightly-link nightly-job; do
  kill $app 2>/dev/null; wait $app 2>/dev/null; : >"$work/out"
  (cd "$work" && exec "$CUPOLA" run --device "$DEVICE" -- "./$name" <"$work/in" >>"$work/out" 2>"$work/err") & app=$!; jobs_started+=($app)
  wait_for started
  [ "$name" != "gone (deleted)" ] || rm "$work/$name"
  echo >&7; wait_for launched
  priority=$((priority + 1))
  "$CUPOLA" ctl rules --for $app >"$work/rules" 2>&1
  grep -q "in force.*priority $priority," "$work/rules" && right "$name has the priority of its rule" || { wrong "$name: the rules say"; cat "$work/rules"; }
done
grep -q "^rule 4 .* fits: " "$work/rules" && grep -A1 "^rule 1 .* does not fit" "$work/rules" | grep -q 'executable is ".*nightly-job.*", not "old (deleted)"' && right "ctl rules says which rules fit, and why others do not" || { wrong "ctl rules says"; cat "$work/rules"; }
"$CUPOLA" ctl show | grep "^ *$app " | grep -q " 4 " && right "ctl show has the rule" || wrong "ctl show has no rule"
kill $app; wait $app 2>/dev/null
printf '[[rule]]\npriority = 1\nuser = "no-such-user"\n' >"$work/c.toml"
"$CUPOLA" ctl reload && "$CUPOLA" ctl rules | grep -q "c.toml:1: this rule fits nobody" && right "a rule for nobody is told" || wrong "a rule for nobody is not told"
printf '[[rule]]\npriority = 1\nexecutable = "bin/serve"\n' >"$work/c.toml"
"$CUPOLA" ctl reload 2>"$work/err" && wrong "a path that none can be is accepted"
grep -q 'c.toml:3:14: .*paths begin with "/"' "$work/err" && right "a path that none can be is told" || wrong "told: $(cat "$work/err")"
exit $bad
