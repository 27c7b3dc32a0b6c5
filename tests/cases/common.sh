# Sourced by each case's run.sh. CUPOLA is the path of the cupola command, NVCC the compiler (default:
# nvcc), DEVICE where kernels run: sim (default) or gpu. Each case has a work folder, a store, a
# simulated device and an arbiter's socket of its own, and leaves nothing behind. README.md says more.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
: "${CUPOLA:?set CUPOLA to the path of the cupola command}"
NVCC=${NVCC:-nvcc}
DEVICE=${DEVICE:-sim}
work=$(mktemp -d)
jobs_started=()
bad=0
cleanup() {
  local job
  for job in "${jobs_started[@]:-}"; do [ -n "$job" ] && kill "$job" 2>/dev/null; done
  for _ in $(seq 20); do
    local alive=0
    for job in "${jobs_started[@]:-}"; do [ -n "$job" ] && kill -0 "$job" 2>/dev/null && alive=1; done
    [ $alive = 0 ] && break
    sleep 0.05
  done
  for job in "${jobs_started[@]:-}"; do [ -n "$job" ] && kill -9 "$job" 2>/dev/null; done
  rm -rf "$work"
}
trap cleanup EXIT
export CUPOLA_STORE=$work/store CUPOLA_SOCKET=$work/arbiter.sock CUPOLA_SIM_TOKEN=$work/token
unset CUPOLA_LOG CUPOLA_PREEMPT CUPOLA_TASKS CUPOLA_BOARD LD_AUDIT LD_PRELOAD
# A busy machine's simulated device may do nothing for longer than a wait of Cupola's own may be stuck.
[ "$DEVICE" != sim ] || export CUPOLA_WAIT_LIMIT_MS=${CUPOLA_WAIT_LIMIT_MS-200}

skip() { echo "not tried: $*"; exit 77; }
needs_gpu() { [ "$DEVICE" = gpu ] || skip "only a GPU can show this"; }
command -v "$NVCC" >/dev/null || skip "no nvcc"
toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v "$NVCC")")")")
# compile PROGRAM NVCC-ARGUMENTS...: builds $work/PROGRAM with the shared runtime. Where there is ccache, it keeps the object of
# a single source.
compile() {
  local program=$work/$1 sources=() others=() word
  shift
  for word in "$@"; do
    if [[ $word == *.cu ]]; then sources+=("$word"); else others+=("$word"); fi
  done
  if [ ${#sources[@]} = 1 ] && command -v ccache >/dev/null; then
    ccache "$NVCC" -w -arch=sm_90 "${others[@]}" -c "${sources[0]}" -o "$program.o" || skip "$program does not compile"
    sources=("$program.o")
  fi
  "$NVCC" -w -cudart shared -arch=sm_90 -Xlinker -rpath="$toolkit/lib64" -Xlinker -rpath="$toolkit/lib" -o "$program" \
    "${sources[@]}" "${others[@]}" || skip "$program does not compile"
}
# variants FILE...: makes the second forms of the kernels in FILE and puts them into the case's store.
variants() { "$CUPOLA" build --quiet "$@" >"$work/build.log" 2>&1 || { cat "$work/build.log"; skip "no variants"; }; }
# under SECONDS COMMAND...: runs a command under Cupola, with a time limit.
under() { timeout -k 2 "$1" "$CUPOLA" run --device "$DEVICE" -- "${@:2}"; }
# plain SECONDS COMMAND...: the same on the same device without Cupola's library.
plain() { timeout -k 2 "$1" "$CUPOLA" run --device "$DEVICE" -- env -u LD_PRELOAD "${@:2}"; }
wrong() { echo "WRONG: $*"; bad=1; }
right() { echo "right: $*"; }
# serve OPTIONS...: starts an arbiter on this case's socket and waits until it listens.
serve() {
  : >"$work/serve.log"
  "$CUPOLA" serve --socket "$CUPOLA_SOCKET" "$@" >"$work/serve.log" 2>&1 &
  jobs_started+=($!)
  for _ in $(seq 100); do grep -q listening "$work/serve.log" && return; sleep 0.05; done
  cat "$work/serve.log"
  skip "the arbiter does not start"
}
# serve_beside COMMAND...: the same, and the command as a program of higher priority than the case's.
serve_beside() {
  printf '[[rule]]\nlabel = "high"\npriority = 10\n' >"$work/config"
  serve --config "$work/config"
  CUPOLA_LABEL=high "$CUPOLA" run --device "$DEVICE" -- "$@" >/dev/null 2>&1 &
  jobs_started+=($!)
  sleep 1
}
