#!/usr/bin/env bash
# A web server for a model beside a training, both PyTorch, on one GPU. PYTHON names a python that has torch.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
python=${PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || skip "$python has no torch"
[ "$device" = gpu ] || skip "PyTorch's kernels are machine code; the simulated device runs PTX"

# both HOW: the server is asked while the training goes on.
both() {
  local program
  for program in train server; do
    mkfifo "$work/end.$program.$1"
    "$1" "$python" "$here/$program.py" <"$work/end.$program.$1" >"$work/$program.$1" 2>"$work/$program.$1.log" &
    eval "$program=$!"
  done
  exec 3>"$work/end.train.$1" 4>"$work/end.server.$1"
  for program in train server; do
    until grep -q ready "$work/$program.$1"; do
      kill -0 "${!program}" || fail "$program.py: $(cat "$work/$program.$1.log")"
      sleep 0.1
    done
  done
  local port
  port=$(awk '/^ready/ {print $2}' "$work/server.$1")
  "$python" "$here/ask.py" "$port" 100 "$work/answers.$1" >/dev/null     # under Cupola the training's pieces are built meanwhile
  read -r median worst < <("$python" "$here/ask.py" "$port" 500 "$work/answers.$1")
  exec 3>&- 4>&-     # their standard input ends, and so do they
  wait "$server" "$train" || fail "$(cat "$work/server.$1.log" "$work/train.$1.log")"
  echo "  an answer: $median ms, 99 % within $worst ms; the training: $(tail -1 "$work/train.$1")"
}

echo "Without Cupola:"
both plain
slow=$median
echo "With it, the server at priority 10:"
serve "$here/cupola.toml"
both with_cupola
cmp "$work/answers.plain" "$work/answers.with_cupola" || fail "the server answers something else under Cupola"
python3 -c 'import sys; sys.exit(float(sys.argv[1]) >= float(sys.argv[2]))' "$median" "$slow" || fail "answers are not sooner"
echo "seen: the same answers, in $median ms in place of $slow"
