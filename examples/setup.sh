# Sourced by each example's run.sh: finds the command and the device, and makes a folder for what the example writes,
# which goes away with it. An example that cannot run here ends with 77 and says why.
#   CUPOLA  the command (default: cupola, from PATH)      NVCC  the compiler (default: nvcc, from PATH)
#   DEVICE  gpu, sim or auto (default: the GPU where there is one, else the simulated device)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cupola=${CUPOLA:-cupola}
nvcc=${NVCC:-nvcc}
device=${DEVICE:-auto}
unset CUPOLA DEVICE

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "failed: $*"; exit 1; }
command -v "$cupola" >/dev/null || skip "there is no command '$cupola'; set CUPOLA=<build folder>/bin/cupola"

if [ "$device" = auto ]; then
  device=sim
  if [ -e /dev/nvidiactl ] && "$cupola" run --device gpu -- true 2>/dev/null; then device=gpu; fi
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/cupola-example.XXXXXX")
leave() {
  kill $(jobs -p) 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap leave EXIT

# Everything of this example stays in its folder: variants, profiles, the arbiter's socket.
export CUPOLA_STORE=$work/variants CUPOLA_PROFILES=$work/profiles CUPOLA_SOCKET=$work/arbiter.sock
if [ "$device" = sim ]; then
  export CUPOLA_SIM_TOKEN=$work/device                             # the processes of this example share one device
  export CUPOLA_WAIT_LIMIT_MS=3000                                 # its blocks take milliseconds, not microseconds
  sim=$("$cupola" run --device sim -- printenv LD_LIBRARY_PATH)    # the simulated device's driver and runtime
fi

# compile SOURCE PROGRAM [FLAGS]: the simulated device needs the CUDA runtime as a shared library.
compile() {
  command -v "$nvcc" >/dev/null || skip "there is no nvcc; set NVCC"
  local source=$1 program=$2 runtime=static
  shift 2
  [ "$device" = gpu ] || runtime=shared
  "$nvcc" -std=c++20 -gencode arch=compute_90,code=compute_90 -cudart $runtime -I"$examples" "$@" \
    "$here/$source" -o "$work/$program"
}

# Runs a program without Cupola, or with it.
plain() { LD_LIBRARY_PATH=${sim:-}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; }
with_cupola() { "$cupola" run --device "$device" -- "$@"; }

# Starts the arbiter with a configuration, and waits until programs may join.
serve() {
  mkfifo "$work/said"
  "$cupola" serve --config "$1" >"$work/said" 2>"$work/serve.log" &
  read -r line <"$work/said" || fail "cupola serve: $(cat "$work/serve.log")"
  echo "cupola serve: $line"
}

# client LABEL FIELD: what the arbiter knows of a program (`cupola ctl --json show`); nothing where it has not joined.
client() {
  "$cupola" ctl --json show | python3 -c '
import json, sys
for gpu in json.load(sys.stdin)["gpus"]:
    for client in gpu["clients"]:
        if client["label"] == sys.argv[1]: print(client[sys.argv[2]])' "$@"
}
