#!/usr/bin/env bash
# Measures a program's kernel at several sizes, trains a model of it, and chooses how often its variant looks.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
unit=1000000 more=(--rounds 3)
[ "$device" = gpu ] || unit=1000 more=(--rounds 1 --batches 1,8 --most-runs 1)
compile scale.cu scale
"$cupola" build --quiet "$work/scale" >"$work/built"

for size in 4 8 12 16 24 32; do
  "$cupola" profile --device "$device" -- "$work/scale" $((size * unit)) 3 >>"$work/checksums"
done
"$cupola" train
"$cupola" tune --device "$device" "${more[@]}" -- "$work/scale" $((32 * unit)) 12 >/dev/null
"$cupola" train --json >"$work/trained.json"

python3 - "$work/trained.json" "$work/profiles" <<'CHECK'
import json, pathlib, sys
(kernel,) = json.loads(pathlib.Path(sys.argv[1]).read_text())["kernels"]
(plan,) = pathlib.Path(sys.argv[2]).glob("*.plan")
assert plan.read_bytes().startswith(b"CUPPLAN1"), plan
assert kernel["launches"] >= 6 and kernel["tuned"], kernel
print(f"seen: a model of {kernel['launches']} launches of {kernel['name']}, its variant tuned to L = {kernel['batch']}, "
      f"in the plan {plan.name} of {plan.stat().st_size} bytes")
CHECK
