#!/bin/bash
# Commands say what is wrong, and before the program is run: options without their word, empty words, files that cannot
# be written, folders in a file's place, a full disk, relative folders in the environment, names of files that are no
# text, libraries that are cut short, programs that cannot run on the simulated device.
. "$(dirname "$0")/../common.sh"
compile app "$here/main.cu"
cd "$work" || exit 77
run() { timeout -k 2 20 "$CUPOLA" "$@" 2>err; }
tell() { head -c 300 err | tr '\n' '|'; }

run run --device "$DEVICE" --stats -- "$CUPOLA" run --device "$DEVICE" -- "$work/app" >out
grep -q "Add(" err && right "run --stats of a program that is started by cupola run" || wrong "run --stats of 'cupola run': no table: $(tell)"
run run --device "$DEVICE" --stats -- "$CUPOLA" run --device "$DEVICE" --stats -- "$work/app" >out
grep -q "no CUDA launches seen" err && wrong "nested --stats: the outer one says: no CUDA launches seen" || right "nested run --stats"

run run --device "$DEVICE" --trace -- "$work/app" >out; code=$?
[ -e ./-- ] && wrong "--trace -- CMD: exit code $code, wrote a file named --" || right "--trace -- CMD"
rm -f -- ./--
run run --device "$DEVICE" --trace "" -- "$work/app" >out; code=$?
[ $code = 2 ] && right '--trace ""' || wrong "--trace \"\": exit code $code, said: $(tell)"

mkdir -p "$work/home"
HOME=$work/home XDG_CACHE_HOME='' CUPOLA_STORE=rel run store path >out
if grep -q "/rel$" out || [ -s err ]; then right "relative CUPOLA_STORE"; else wrong "relative CUPOLA_STORE: silently $(sed "s|$work|.|" out)"; fi

rm -f ran; run profile --device "$DEVICE" --out /proc/profile.json -- "$work/app" >out; code=$?
[ ! -e ran ] && [ $code != 0 ] && right "profile --out that cannot be written" || wrong "profile --out that cannot be written: exit code $code after the program was run: $(tell)"

# As in a container with a read-only root: only /dev/shm may be written.
if unshare -m true 2>/dev/null; then
  rm -f ran
  timeout -k 2 20 unshare -m sh -c 'mount --bind /tmp /tmp && mount --bind "$1" "$1" && mount -o remount,bind,ro /tmp && cd "$1" && unset XDG_RUNTIME_DIR TMPDIR && "$2" run --device "$3" --stats -- ./app' - "$work" "$CUPOLA" "$DEVICE" >out 2>err; code=$?
  [ -e ran ] && right "run --stats with a read-only root: exit code $code" || wrong "run --stats with a read-only root: exit code $code, not run: $(tell)"
fi

if [ "$DEVICE" = sim ]; then
  (trap '' XFSZ; ulimit -f 0; CUPOLA_SIM_TOKEN=$work/newtoken timeout -k 2 20 "$CUPOLA" run --device sim -- "$work/app" 2>&1) | cat >out
  grep -q "Success" out && wrong "a full disk: $(grep Success out | sed "s|$work|.|")" || right "a full disk: no 'Success'"
fi

odd=$'odd\xff\e[31m'
cp app "$odd"
run build --list --json "./$odd" >out
python3 -c 'import json; json.load(open("out"))' 2>/dev/null && right "build --json, a file name that is not UTF-8" || wrong "build --json of a file whose name is not UTF-8 is not JSON"
run build --list "./$odd" >out
grep -q $'\e' out && wrong "build writes control characters of a file's name to the terminal" || right "control characters in a file's name"

home=$(dirname "$(dirname "$(readlink -f "$CUPOLA")")")
mkdir -p home2 && cp -r "$home/lib" home2/ && truncate -s 200000 home2/lib/libcupola.so
CUPOLA_HOME=$work/home2 run run --device "$DEVICE" -- "$work/app" >out; code=$?
[ $code -lt 128 ] && right "a truncated library: exit code $code" || wrong "a truncated library: exit code $code: $(tell)"

# From here on all subcommands are asked in turn. refused CODE WHAT COMMAND...: ends so, says why, and runs nothing.
refused() {
  rm -f ran
  timeout -k 2 20 "$CUPOLA" "${@:3}" >out 2>err </dev/null; code=$?
  local want=$1
  [ "$want" = any ] && [ $code -gt 0 ] && [ $code -lt 128 ] && want=$code
  if [ $code = "$want" ] && [ -s err ] && [ ! -e ran ] && [ ! -e ./-- ]; then return; fi
  wrong "$2: cupola ${*:3}: exit code $code, said: $(tell)$([ -e ran ] && echo ' and the program was run')$([ -e ./-- ] && echo ' and wrote a file named --')"
  rm -f -- ./--
  group_bad=1
}
group() { [ "$group_bad" = 0 ] && right "$1"; group_bad=0; }
group_bad=0
D="--device $DEVICE"
"$NVCC" -ptx -arch=sm_90 -o k.ptx "$here/main.cu" || skip "no PTX"
timeout 20 "$CUPOLA" profile $D --with events --out p.json -- ./app >out 2>err || skip "no profile: $(tell)"

for command in "run $D --trace" "run --device" "run $D --timing" "profile $D --out" "profile $D --with" "tune $D --out"; do
  refused 2 "an option without its word" $command -- ./app
done
for command in "build --store -- ./app" "build --with -- ./app" "train --out -- p.json" "inspect --image 0 --extract -- ./app" \
  "ptx write -o -- k.ptx" "serve --socket --" "ctl --socket -- show" "top --socket --"; do
  refused any "an option without its word" $command
done
group "options without their word"

refused 2 "an empty word" run $D --device "" -- ./app
refused 2 "an empty word" profile $D --out "" -- ./app
refused 2 "an empty word" tune $D --out "" -- ./app
refused 2 "an empty word" build ""
refused 2 "an empty word" build --store "" ./app
refused 2 "an empty word" build --with "" ./app
refused 2 "an empty word" profile merge ""
refused 2 "an empty word" profile merge p.json --out ""
refused 2 "an empty word" profile show ""
refused 2 "an empty word" train ""
refused 2 "an empty word" train p.json --out ""
refused 2 "an empty word" inspect ""
refused 2 "an empty word" inspect ./app --image 0 --extract ""
refused 2 "an empty word" ptx parse ""
refused 2 "an empty word" ptx write k.ptx -o ""
refused 2 "an empty word" ptx images ""
refused 2 "an empty word" store evict --limit ""
refused any "an empty word" serve --socket ""
refused any "an empty word" ctl --socket "" show
refused any "an empty word" top --socket "" --once
refused 127 "an empty word" run $D -- ""
group "empty words"

mkdir folder
for out in /proc/none/x folder; do
  refused 125 "an output that cannot be written" run $D --trace $out -- ./app
  refused 125 "an output that cannot be written" profile $D --out $out -- ./app
  refused 125 "an output that cannot be written" tune $D --out $out -- ./app
  refused any "an output that cannot be written" profile merge p.json --out $out
  refused any "an output that cannot be written" train p.json --out $out
  refused any "an output that cannot be written" inspect ./app --image 0 --extract $out
  refused any "an output that cannot be written" ptx write k.ptx -o $out
done
refused any "an output that cannot be written" build --store /proc/none ./app
refused any "an output that cannot be written" build --store p.json ./app
echo "no profile" >damaged.json
refused 125 "a profile that cannot be added to" profile $D --out damaged.json -- ./app
CUPOLA_STORE=/proc/none refused any "an output that cannot be written" store clear
CUPOLA_PROFILES=/proc/none refused 125 "an output that cannot be written" profile $D -- ./app
group "outputs that cannot be written"

full() {
  timeout -k 2 20 "$CUPOLA" "$@" >/dev/full 2>err; code=$?
  [ $code -gt 0 ] && [ $code -lt 128 ] && [ -s err ] && return
  wrong "cupola $* >/dev/full: exit code $code, said: $(tell)"; group_bad=1
}
full --version; full --help; full run --help
full inspect ./app; full inspect ./app --json; full inspect ./app --image 0 --extract -
full ptx parse k.ptx; full ptx parse --json k.ptx; full ptx write k.ptx; full ptx images ./app
full profile show p.json; full profile merge p.json; full train p.json --out full.plan
full build --list ./app; full build --list --json ./app; full build --quiet k.ptx; full store list; full store path
serve
full ctl show; full ctl show --json; full top --once
group "a full disk behind standard output"

CUPOLA_STORE=rel refused 2 "a relative folder" build ./app
CUPOLA_STORE=rel refused 2 "a relative folder" store list
CUPOLA_PROFILES=rel refused any "a relative folder" profile $D -- ./app
CUPOLA_PROFILES=rel refused any "a relative folder" train
CUPOLA_SOCKET=rel refused any "a relative path" ctl show
CUPOLA_STORE=rel run run $D -- ./app >out
grep -q "CUPOLA_STORE=rel" err && [ -e ran ] || { wrong "run with a relative CUPOLA_STORE: $(tell)"; group_bad=1; }
group "relative folders in the environment"

is_json() { python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$1" 2>/dev/null || { wrong "$2 is no JSON"; group_bad=1; }; }
no_controls() { grep -qaP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$1" && { wrong "$2: control characters"; group_bad=1; }; }
worse=$'worse\xc2\x9b31m\x07\xfe'
cp app "$worse"; cp k.ptx "$worse.ptx"; cp "$worse.ptx" "$odd.ptx"
for name in "$odd" "$worse"; do
  run run $D --stats --trace t.json -- "./$name" >out; is_json t.json "the trace of a program with an odd name"; no_controls err "run --stats"
  run profile $D --with events --table --out q.json -- "./$name" >out; is_json q.json "the profile of a program with an odd name"; no_controls err "profile"
  run build --quiet --json --no-libraries "./$name.ptx" >out; is_json out "build --json"
  run build --quiet --no-libraries "./$name.ptx" >out; no_controls out "build"
  run build --list "./$name" >out; no_controls out "build --list"
  run build "./$name.ptx" >out; no_controls err "the progress of build"
  run inspect --json "./$name" >out; is_json out "inspect --json"
  run inspect "./$name" >out; no_controls out "inspect"
  run ptx parse --json "$name.ptx" >out; is_json out "ptx parse --json"
  run ptx parse "$name.ptx" >out; no_controls out "ptx parse"
  for command in "run $D -- ./none" "run $D --trace none/" "profile show none" "train none" "inspect none" "ptx parse none" "build none"; do
    run $command"$name" >out; no_controls err "an error with an odd name: $command"
  done
done
group "names that are no text"

for what in libcupola.so libcupola/libcuda.so.1 sim/libcuda.so.1 sim/libcudart.so.13; do
  [ "$DEVICE" = gpu ] && [[ $what = sim/* ]] && continue
  for how in "truncate -s 100" "truncate -s 5000" "truncate -s -5000" "truncate -s 0" "cp k.ptx"; do
    rm -rf home2; mkdir home2 && cp -r "$home/lib" home2/ && $how home2/lib/$what
    for command in run profile; do
      CUPOLA_HOME=$work/home2 refused 125 "a damaged $what ($how)" $command $D -- ./app
    done
  done
done
group "damaged libraries"

if [ "$DEVICE" = sim ]; then
  "$NVCC" -w -arch=sm_90 -DPROGRAM -o static "$here/static.cu" && strip -o stripped static &&
    "$NVCC" -w -arch=sm_90 -shared -Xcompiler -fPIC -o libstatic.so "$here/static.cu" &&
    "$NVCC" -w -o opens -x c "$here/opens.c" -cudart none -ldl || skip "no static programs"
  for program in static stripped; do
    for command in run profile; do
      refused 125 "a program with the runtime linked in" $command --device sim -- ./$program
      grep -q "cudart shared" err || { wrong "no remedy is told: $(tell)"; group_bad=1; }
    done
  done
  # What is behind a script, or opened later, is told at its first call.
  for command in "sh -c ./static" "./opens ./libstatic.so"; do
    run run --device sim -- $command >out; grep -q "cudart shared" err || { wrong "$command: no remedy is told: $(tell)"; group_bad=1; }
  done
  group "programs with the runtime linked in"
fi
exit $bad
