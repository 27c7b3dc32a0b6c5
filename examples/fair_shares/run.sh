#!/usr/bin/env bash
# One program, started twice under different labels, gets the GPU's time in the ratio 3 to 1.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
size="256 64 200"
[ "$device" = sim ] || size="8192 8192 4000"
compile render.cu render
"$cupola" build --quiet "$work/render" >"$work/built"
plain "$work/render" $size </dev/null >"$work/plain" 2>/dev/null

serve "$here/cupola.toml"
mkfifo "$work/end"
for label in gold silver; do
  CUPOLA_LABEL=$label with_cupola "$work/render" $size <"$work/end" >"$work/$label" 2>"$work/$label.pictures" &
done
exec 3>"$work/end"

# Both have joined and are at work before their times are read for the first time.
until [ -n "$(client gold launches)" ] && [ -n "$(client silver launches)" ]; do
  kill -0 $! || fail "a program ended: $(cat "$work"/*.pictures)"
  sleep 0.1
done
gold=$(client gold ran_ns) silver=$(client silver ran_ns)
sleep 1.5
gold=$(($(client gold ran_ns) - gold)) silver=$(($(client silver ran_ns) - silver))
"$cupola" top --once
exec 3>&-
wait $(jobs -p | tail -n 2)
for label in gold silver; do
  cmp "$work/plain" "$work/$label" || fail "$label drew another picture"
  echo "$label:$(cat "$work/$label.pictures")"
done
[ "$gold" -gt $((2 * silver)) ] && [ "$gold" -lt $((4 * silver)) ] || fail "shares are $gold and $silver ns, not 3 to 1"
echo "seen: the GPU's time went $((gold / 1000000)) ms to gold and $((silver / 1000000)) ms to silver, near 3 to 1; all pictures are the same bits"
