#!/usr/bin/env bash
# A PyTorch training runs under Cupola unchanged: the same bits, each launch seen. PYTHON names a python that has torch.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
python=${PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || skip "$python has no torch"
[ "$device" = gpu ] || skip "PyTorch's kernels are machine code; the simulated device runs PTX"
export CUBLAS_WORKSPACE_CONFIG=:4096:8     # cuBLAS then gives the same bits each time

"$python" "$here/train.py" >"$work/plain"
"$cupola" run --trace "$work/trace.json" -- "$python" "$here/train.py" >"$work/with"
cmp "$work/plain" "$work/with" || fail "the training learns something else under Cupola"
launches=$(python3 -c 'import json, sys
print(sum(event.get("cat") == "kernel" for event in json.load(open(sys.argv[1]))["traceEvents"]))' "$work/trace.json")
[ "$launches" -gt 0 ] || fail "no launch was seen"
echo "seen: $launches launches of a PyTorch training, which learned the same bits as without Cupola"
