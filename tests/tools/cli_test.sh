#!/usr/bin/env bash
# Drives the program as a user does: cli_test.sh PARPLAN MACHINE_FILE WITH_MPI(ON|OFF)
set -uo pipefail

parplan=$(realpath "$1")
[ -x "$parplan" ] || { echo "no program at $1"; exit 1; }
made_up=$(realpath "$2")
with_mpi=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# Only a trace measured on the device of a machine file can calibrate it.
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
machine=$work/machine.json
sed "s|core of round numbers|${processor:-processor}|" "$made_up" >"$machine"
export NO_COLOR=1

failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# run CODE ARGUMENTS...: runs parplan, keeps what it printed in out and err, checks the exit code.
run() {
  local expected=$1
  shift
  "$parplan" "$@" >out 2>err
  local code=$?
  if [ $code -ne "$expected" ]; then
    fail "parplan $* ended with $code, not $expected"
    sed 's/^/    /' err | head -20
  fi
}
says() { grep -qF -- "$2" "$1" || { fail "$1 has no '$2'"; sed 's/^/    /' "$1" | head -20; }; }
made() { [ -s "$1" ] || fail "$1 was not written"; }
absent() { [ ! -e "$1" ] || fail "$1 is there"; }
only_files() { # DIRECTORY NAMES: exactly these are in it
  local there
  there=$(ls -A "$1" | tr '\n' ' ')
  [ "$there" = "$2" ] || fail "$1 holds '$there', not '$2'"
}
# json FILE KEYS: valid JSON whose members are exactly these, in this order.
json() {
  command -v python3 >/dev/null || return 0
  local keys
  keys=$(python3 -c 'import json, sys; print(" ".join(json.load(open(sys.argv[1]))))' "$1") ||
    fail "$1 is no JSON"
  [ "$keys" = "$2" ] || fail "the keys of $1 are '$keys', not '$2'"
}
number() { sed -n "s/^  \"$2\": \\([-0-9.e+]*\\),*\$/\\1/p" "$1"; } # top-level member of JSON output
check() { awk "BEGIN { exit !($1) }" || fail "$2: $1"; }
# waits up to SECONDS for PID to end; its code is in `code`, 999 when it still runs
ended_within() {
  local i
  code=999
  for ((i = 0; i < $1 * 10; i++)); do
    if ! kill -0 "$2" 2>/dev/null; then
      wait "$2"
      code=$?
      return
    fi
    sleep 0.1
  done
  kill -KILL -- "-$2"
  wait "$2"
}
children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }

simulation_keys="format version layout ranks step_time_s positions_per_s peak_memory_bytes time_from positions"
tiny=(--model gpt2-tiny --global-batch 16 --samples 256)

echo "== help, version, presets"
run 0 --version
says out "parplan "
for command in recommend plan simulate execute profile calibrate compare presets; do
  run 0 "$command" --help
  says out "Example"
done
run 0 presets
says out gpt2-tiny
says out dgx-h100
run 0 presets --format json
json out "format version models clusters"

echo "== plan, simulate"
run 0 plan "${tiny[@]}" --cluster "$machine" --layout single -o one.json
says out "step time"
made one.json
run 0 plan "${tiny[@]}" --cluster "$machine" --layout dp=2 -o two.json --format json
json out "$simulation_keys"
run 0 simulate one.json --cluster "$machine" --trace predicted1.json
run 0 simulate two.json --cluster "$machine" --trace predicted2.json --format json
json out "$simulation_keys"
json predicted2.json "displayTimeUnit traceEvents parplan"
before=$(number out step_time_s)
cp two.json again.json
run 0 plan "${tiny[@]}" --cluster "$machine" --layout dp=2 -o two.json
cmp -s two.json again.json || fail "the same plan gives another file"

echo "== recommend"
run 0 recommend --model gpt2 --cluster dgx-h100 --global-batch 32 --top 2 -o best.json --format json
json out "format version considered simulated pruned cannot_fit refused interrupted layouts dropped"
run 0 simulate best.json
says out dgx-h100
run 0 recommend "${tiny[@]}" --cluster "$machine" --ranks 2 --pin pp=2
says out "recommended: pp=2"

echo "== execute, compare, calibrate"
run 0 execute one.json --steps 3 --trace measured1.json
says out "3"
made measured1.json
run 0 compare predicted1.json measured1.json --html one.html
says out "the gap"
says one.html "</html>"
pair=1
if [ "$with_mpi" = ON ]; then
  pair=2
  run 0 execute two.json --steps 4 --trace measured2.json --format json
  json out "format version layout ranks steps interrupted step_time_s losses step_times_s ranks_memory"
else
  cp one.json two.json
  cp predicted1.json predicted2.json
  before=$(run 0 simulate one.json --cluster "$machine" --format json && number out step_time_s)
  run 0 execute two.json --steps 4 --trace measured2.json --format json
fi
measured=$(number out step_time_s)
run 0 compare predicted2.json measured2.json --html two.html --format json
json out "format version predicted_step_s measured_step_s relative_error measured_spread counted_steps caveats gap steps \
kinds layers operations predicted_ranks measured_ranks memory only_predicted only_measured"
says out '"only_predicted": []'
says out '"only_measured": []'
made two.html
run 0 calibrate --cluster "$machine" measured1.json measured2.json -o calibrated.json --format json
json out "format version events new_shapes refitted_shapes new_transfers refitted_transfers factors"
run 0 simulate two.json --cluster calibrated.json --trace after.json --format json
after=$(number out step_time_s)
# The machine file promises far more than any core has; the fit must come near what was measured.
check "$before * 5 < $measured" "the machine file is too slow to tell anything"
check "$after > $measured / 2 && $after < $measured * 2" "calibration missed the measured step"
run 0 compare predicted2.json measured2.json --calibrated after.json --cluster "$machine" --html after.html
says out "after calibration"

if command -v script >/dev/null; then
  # A terminal sees how far training is, from ranks below a launcher, too.
  for plan in one.json two.json; do
    script -qec "'$parplan' execute $plan --steps 3" typescript >/dev/null </dev/null || fail "no run on a terminal"
    says typescript "step 1 of 3"
    says typescript "loss  "
  done
  "$parplan" execute two.json --steps 3 >out 2>err
  ! grep -q "step 1 of 3" out err || fail "progress was written to a file"
fi

echo "== bad input"
run 2
run 2 plan --model gpt2-tin --cluster "$machine" --global-batch 16 --layout single
says err "did you mean"
run 2 plan "${tiny[@]}" --cluster dgx-h10 --layout single
says err "did you mean"
run 2 plan "${tiny[@]}" --cluster "$machine" --layout single --no-such-flag
says err "no-such-flag"
run 2 plan "${tiny[@]}" --cluster "$machine" --layout microbatches=3
says err "try"
says err "3"
run 2 plan "${tiny[@]}" --cluster "$machine" --layout dp=4
says err "needs 4 ranks"
run 2 plan "${tiny[@]}" --cluster "$machine" --layout dq=2
says err "dq"
printf '{\n  "format": "parplan/plan",\n  "version": 1,\n  oops\n}\n' >broken.json
run 2 simulate broken.json --cluster "$machine"
says err "broken.json:4"
sed 's/"global_batch"/"globel_batch"/' one.json >misspelt.json
run 2 simulate misspelt.json --cluster "$machine"
says err "global_batch"
run 2 simulate one.json --cluster two.json
says err "two.json"
run 2 simulate one.json
says err "--cluster"
run 2 simulate missing.json --cluster "$machine"
says err "missing.json"
head -c 5000 measured2.json >short.json
run 2 compare predicted2.json short.json
says err "short.json"
run 2 compare predicted1.json two.json
says err "two.json"
run 2 compare measured2.json predicted2.json
says err "PREDICTED"
run 2 calibrate --cluster "$machine" predicted1.json -o never.json
says err "predicted1.json"
absent never.json
run 2 execute one.json --device cuda
says err "cuda"
run 2 execute one.json --steps 0
run 2 plan --model gpt2-tiny --cluster "$machine" --layout single --global-batch 1000000000000000000
says err "--global-batch"
run 2 plan "${tiny[@]}" --cluster "$machine" --layout single --learning-rate nan -o never.json
says err "--learning-rate 'nan': expected a number"
absent never.json
sed -n '1,/"traceEvents"/p' measured1.json | sed '$s/$/],/' >empty.json
sed -n 's/^"parplan":/&/p' measured1.json >>empty.json
run 2 compare predicted1.json empty.json
"$parplan" presets >/dev/full 2>err
[ $? -eq 1 ] || fail "lost output was not noticed"
says err "standard output"

echo "== what is read is not written over"
refused() { # OPTION FILE ARGUMENTS...: FILE is read, OPTION names it as the result
  local option=$1 file=$2 before
  shift 2
  before=$(cksum <"$file")
  run 2 "$@"
  says err "$option '"
  says err "give the result another name"
  [ "$(cksum <"$file")" = "$before" ] || fail "$* changed $file"
}
cp "$machine" own.json
ln -s own.json link.json
head -c 4096 /dev/zero >tokens.bin
head -c 400 /dev/zero >few.bin
cat >hf.json <<'END'
{"model_type": "gpt2", "vocab_size": 512, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
END
refused --output own.json calibrate --cluster own.json measured1.json -o own.json
refused --output own.json calibrate --cluster own.json measured1.json -o ./link.json
refused --output measured1.json calibrate --cluster own.json measured2.json measured1.json -o measured1.json
refused --trace one.json execute one.json --trace ./one.json
refused --trace one.json simulate one.json --cluster own.json --trace one.json
refused --trace own.json simulate one.json --cluster own.json --trace own.json
refused --html measured1.json compare predicted1.json measured1.json --html measured1.json
refused --html own.json compare predicted1.json measured1.json --cluster own.json --html own.json
refused --output hf.json plan --model hf.json --sequence 8 --global-batch 4 --cluster own.json --layout single -o hf.json
refused --output tokens.bin plan "${tiny[@]}" --cluster own.json --layout single --data tokens.bin -o tokens.bin
refused --output own.json recommend "${tiny[@]}" --cluster own.json -o link.json
run 0 plan --model gpt2-tiny --global-batch 16 --cluster own.json --layout single --data tokens.bin -o tokens.json
refused --trace tokens.bin execute tokens.json --trace tokens.bin
for command in "plan ${tiny[*]} --cluster own.json --layout single -o" "simulate one.json --trace" \
  "compare predicted1.json measured1.json --html" "calibrate --cluster own.json measured1.json -o" \
  "execute one.json --trace" "profile -o"; do
  # shellcheck disable=SC2086
  run 2 $command ""
  says err "not empty"
done
# before any work: the model and the machine are not even looked at
run 2 recommend --model nothing --cluster nothing --global-batch 1 -o missing/plan.json
says err "missing/plan.json"
run 2 profile -o missing/machine.json
says err "missing/machine.json"
run 2 calibrate --cluster nothing.json nothing.json -o missing/machine.json
says err "missing/machine.json"

echo "== lengths, data, pins"
hf=(plan --model hf.json --global-batch 4 --cluster own.json --layout single)
run 2 "${hf[@]}"
says err "give --sequence (the model allows up to 64)"
run 2 "${hf[@]}" --sequence 65
says err "64 positions"
run 0 "${hf[@]}" --sequence 64
sed 's/"n_layer"/"rope_theta": 1, &/; s/gpt2/llama/; s/n_embd/hidden_size/; s/n_layer/num_hidden_layers/
  s/n_head/num_attention_heads/; s/n_positions/max_position_embeddings/; s/}/, "intermediate_size": 64}/' hf.json >llama.json
run 2 plan --model llama.json --global-batch 4 --cluster own.json --layout single --sequence 65
says err "64 positions"
run 2 plan --model llama-tiny --global-batch 4 --cluster own.json --layout single --sequence 257
says err "256 positions"
run 2 plan --model seed-mlp --global-batch 4 --cluster own.json --layout single --sequence 8
says err "--sequence 8"
run 2 plan --model gpt2-tiny --global-batch 16 --cluster own.json --layout single --data missing.bin
says err "missing.bin"
run 2 plan --model gpt2-tiny --global-batch 16 --cluster own.json --layout single --data few.bin --sequence 128 --data-width uint32 -o never.json
says err "--sequence"
absent never.json
run 2 plan "${tiny[@]}" --cluster own.json --layout single --data $'caf\xe9.bin'
says err "not valid UTF-8"
run 2 recommend "${tiny[@]}" --cluster own.json --pin dp=2 --ranks 1
says err "--pin dp=2"
run 2 plan "${tiny[@]}" --cluster dgx-h100:4x --layout single
says err "dgx-h100:4"
run 2 plan "${tiny[@]}" --cluster dgx-h100:999999999 --layout single
says err "131072"
run 2 recomend
says err "did you mean 'recommend'"
run 2 plan --globl-batch 3
run 2 plan "${tiny[@]}" --cluster own.json --layout single --sed 3
says err "did you mean '--seed'"
run 2 execute one.json --steps 3 --epochs 1
says err "--steps 3 with --epochs 1"
run 2 execute one.json --timeout inf
says err "--timeout 'inf'"
run 2 execute one.json --trace-steps 99999999999
says err "--trace-steps"

run 0 plan --model gpt2-tiny --global-batch 2048 --cluster dgx-h100:256 --layout dp=2048 --precision float64 -o many.json
run 2 execute many.json
says err "2048 ranks"

echo "== options and names that change nothing"
run 2 plan "${tiny[@]}" --cluster own.json --layout single --data tokens.bin
says err "--samples 256: the file of --data says how many there are"
run 2 plan --model gpt2-tiny --global-batch 16 --cluster own.json --layout single --data-width uint32
says err "--data-width uint32: synthetic data has no file"
run 2 plan --model seed-mlp --global-batch 16 --cluster own.json --layout single --dropout 0.1
says err "--dropout 0.1: seed-mlp has no dropout"
run 0 plan --model seed-mlp --global-batch 16 --cluster own.json --layout single --dropout 0
run 0 plan "${tiny[@]}" --cluster own.json --layout single --dropout 0.2
run 2 execute one.json --trace-steps 3
says err "--trace-steps 3: no trace is written"
run 2 plan "${tiny[@]}" --cluster own.json --layout single --decay-steps 5
says err "--decay-steps: the learning rate stays as it is"
run 2 plan "${tiny[@]}" --cluster own.json --layout single --decay cosine
says err "--decay cosine needs --decay-steps"
run 0 plan "${tiny[@]}" --cluster own.json --layout single --decay cosine --decay-steps 100 --warmup-steps 10
run 2 plan "${tiny[@]}" --cluster own.json --layout single --loss-scale 2
says err "only --precision float16 scales the loss"
run 2 plan "${tiny[@]}" --cluster own.json --layout single --max-gradient-norm 0
says err "--max-gradient-norm"
run 0 recommend "${tiny[@]}" --cluster own.json --threads 1024
says err "more than the"

echo "== messages have an end"
sed 's/"devices_per_node": 2/"devices_per_node": 5/' own.json >five.json
run 2 plan --model gpt2 --global-batch 5 --cluster five.json --layout tp=5
says err "do not divide by tp=5"
says err "(try tp=1, 2, 3, 4, 6 or 12)"
[ "$(wc -c <err)" -lt 400 ] || fail "the message has $(wc -c <err) bytes"
run 2 recommend --model gpt2 --global-batch 5 --cluster five.json --pin tp=5
says err "no layout can be planned: 2 considered"
says err "(try tp=1, 2, 3, 4, 6 or 12)"
[ "$(wc -c <err)" -lt 500 ] || fail "the message has $(wc -c <err) bytes"
head -c 100000 /dev/zero | tr '\0' x >long
run 2 plan "${tiny[@]}" --cluster own.json --layout "dp=$(cat long)"
[ "$(wc -c <err)" -lt 400 ] || fail "the message has $(wc -c <err) bytes"
sed "s/\"gpt2-tiny\"/\"\\\\u202Egnol-$(cat long)\"/; s/\"out\": [0-9]*/\"out\": 7/" one.json >named.json
run 2 simulate named.json --cluster own.json
[ "$(wc -c <err)" -lt 1000 ] || fail "the message has $(wc -c <err) bytes"
says err '\u202Egnol'

run 2 plan --model "$(cat long)" --global-batch 4 --cluster own.json --layout single
says err "x...': no preset and no file of that name"
run 2 simulate "$(cat long)"
says err "x...': File name too long"
sed "s/\"two-cores\"/\"$(cat long)\"/" one.json >far.json
run 2 simulate far.json
says err "x...', which is no preset"
[ "$(wc -c <err)" -lt 300 ] || fail "the message has $(wc -c <err) bytes"

echo "== token files"
command -v python3 >/dev/null && {
  ids() { # FORMAT COUNT: ids 1, 2, ... 100, 1, ...
    python3 -c 'import array, sys
array.array(sys.argv[1], [1 + i % 100 for i in range(int(sys.argv[2]))]).tofile(sys.stdout.buffer)' "$@"
  }
  with_data=(--model gpt2-tiny --global-batch 16 --cluster own.json --sequence 16)
  ids I 600 >wide.bin
  run 2 plan "${with_data[@]}" --layout single --data wide.bin
  says err "token file 'wide.bin' has a 0 at every second position"
  says err "--data-width uint32"
  run 0 plan "${with_data[@]}" --layout single --data wide.bin --data-width uint32 -o wide.json
  says wide.json '"tokens": 600'
  ids H 600 >narrow.bin
  run 2 plan "${with_data[@]}" --layout single --data narrow.bin --data-width uint32
  says err "narrow.bin': token 131073 at position 0 is outside the model's vocabulary"
  says err "--data-width"
  layout=single
  [ "$with_mpi" = ON ] && layout=dp=2
  run 0 plan "${with_data[@]}" --layout $layout --data narrow.bin -o narrow.json
  run 0 execute narrow.json --steps 1
  truncate -s 1000 narrow.bin
  run 2 execute narrow.json --steps 1
  [ "$(cat err)" = "parplan: token file 'narrow.bin' has 500 tokens, it had 600 when the plan was made; \
give the file back or plan again" ] || fail "not said once: $(cat err)"
  truncate -s 999 narrow.bin
  run 2 execute narrow.json --steps 1
  says err "999 bytes, not a multiple of the 2 bytes of a token"
  ids H 599 >narrow.bin
  printf '\377\377' >>narrow.bin
  run 2 execute narrow.json --steps 1
  says err "narrow.bin': token 65535 at position 599 is outside"
  [ "$(wc -l <err)" -eq 1 ] || fail "not said once: $(cat err)"
}

echo "== files of another kind"
run 2 simulate measured1.json
says err "this is a trace, a parplan/plan file is needed"
run 2 simulate own.json
says err "this is a parplan/machine file"
run 2 compare one.json measured1.json
says err "this is a parplan/plan file, a trace is needed"
run 2 compare predicted1.json measured1.json --calibrated measured1.json
says err "--calibrated measured1.json is measured"
grep -v '^{"ph":"X"' measured1.json >stepless.json
run 2 calibrate --cluster own.json stepless.json -o never.json
says err "stepless.json: no event of a whole step"
run 2 compare predicted1.json stepless.json
says err "stepless.json: no event of a whole step"
run 2 calibrate --cluster "$made_up" measured1.json -o never.json
says err "describes 'core of round numbers'"
run 2 compare predicted1.json measured1.json --cluster dgx-h100
says err "is a prediction for 'two-cores'"
run 0 execute one.json --steps 3 --threads 2 --trace threads.json
run 0 compare predicted1.json threads.json
says out "predicted for 1 thread per rank, measured with 2"
run 2 calibrate --cluster own.json threads.json -o never.json
says err "its ranks computed with 2 threads each"
cp measured1.json again.json
run 2 calibrate --cluster own.json measured1.json again.json -o never.json
says err "again.json: the same measurement as measured1.json"
absent never.json

echo "== numbers beyond the clock, names beyond the terminal"
sed 's/"operation_overhead_s": 1e-7/"operation_overhead_s": 1e5/' own.json >slow.json
run 2 simulate one.json --cluster slow.json
says err "that can be simulated"
sed 's/"two-cores"/"two\\u001b[31mcores"/' own.json >colour.json
run 0 simulate one.json --cluster colour.json
says out 'two\x1B[31mcores'
run 2 simulate $'no\e[31msuch'
says err 'no\x1B[31msuch'
run 0 execute one.json --steps 1
says out "(the only step)"

echo "== training that diverges"
sed 's/"learning_rate": [0-9.e+-]*/"learning_rate": 1e38/' one.json >wild.json
run 0 execute wild.json --steps 3 --trace wild-trace.json
says err "training diverged: the loss of step 2 is not finite"
says err "--learning-rate below 1e+38"
grep -q -- "-nan" out && fail "a loss is -nan"
run 0 execute wild.json --steps 3 --format json
json out "format version layout ranks steps interrupted step_time_s losses step_times_s ranks_memory"
says out "null"
says err "training diverged"
run 0 simulate wild.json --cluster "$machine" --trace wild-predicted.json
run 0 compare wild-predicted.json wild-trace.json --html wild.html
says wild.html "nan at last"
run 0 calibrate --cluster "$machine" wild-trace.json -o wild-machine.json
run 0 plan "${tiny[@]}" --cluster "$machine" --layout microbatches=2 -o other.json
run 0 simulate other.json --cluster "$machine" --trace other-predicted.json
run 2 compare other-predicted.json measured1.json --html never.html
says err "different plans"
absent never.html

echo "== nothing fits, one device"
sed 's/"memory_bytes": 8000000000/"memory_bytes": 1000000/' "$machine" >small.json
run 3 recommend "${tiny[@]}" --cluster small.json -o never.json
says err "no layout fits"
absent never.json
run 3 simulate one.json --cluster small.json
says out "does not fit"
run 3 simulate one.json --cluster small.json --format json
says err "parplan: does not fit: "
"$parplan" plan "${tiny[@]}" --cluster own.json --layout single --format json -o /dev/stdout | grep parplan/plan >/dev/null ||
  fail "no plan through a pipe"
sed 's/"devices_per_node": 2/"devices_per_node": 1/' "$machine" >single.json
run 0 recommend "${tiny[@]}" --cluster single.json -o only.json
says out "on 1 of 1 devices"
made only.json
run 2 plan "${tiny[@]}" --cluster single.json --layout dp=2
says err "needs 2 ranks"

echo "== more than this host holds"
run 3 plan --model llama-2-70b --cluster dgx-h100 --global-batch 8 --layout tp=8 -o large.json
run 2 execute large.json --steps 1
says err "the tensors of the 8 ranks take"
run 3 recommend --model llama-2-70b --cluster dgx-h100 --global-batch 1024
says err "more ranks, tp or pp, or a smaller model or sequence"
says err "nearest: "

echo "== axes that cannot be pinned"
refuse_pin() { # PIN WHAT ARGUMENTS...
  run 2 recommend --model seed-transformer --cluster dgx-h100 --global-batch 6 --pin "$1" "${@:3}"
  says err "--pin $1"
  says err "$2"
}
refuse_pin dp=5 "global batch 6 does not divide by dp=5"
refuse_pin dp=16 "the product of these axes is 16, dgx-h100 has 8 devices"
refuse_pin dp=2 "the product of these axes is 2, which must divide the number of ranks" --ranks 3
refuse_pin mp=2,microbatches=2 "mp runs one microbatch"
run 2 recommend --model seed-transformer --cluster dgx-h100 --global-batch 6 --pin mp=2,schedule=gpipe
says err "mp has no schedule"
run 2 plan --model seed-transformer --cluster dgx-h100 --global-batch 6 --layout mp=2,schedule=gpipe
says err "mp has no schedule"
run 0 recommend --model seed-transformer --cluster dgx-h100 --global-batch 6 --pin dp=6
says out "recommended: dp=6;"

echo "== more than 256 microbatches"
run 0 recommend --model llama-3.1-8b --cluster dgx-h100:2 --global-batch 4096 --pin tp=8,dp=2 --top 1
says out "recommended: dp=2,tp=8,microbatches=1024"

echo "== output that cannot be written"
mkdir occupied
mkdir occupied/taken
echo "before" >occupied/old
# A place where nothing can be written is bad input, a full disk is not.
unwritable() { # CODE TARGET
  run "$1" plan "${tiny[@]}" --cluster "$machine" --layout single -o "$2"
  says err "$2"
  run "$1" simulate one.json --cluster "$machine" --trace "$2"
  says err "$2"
  run "$1" compare predicted1.json measured1.json --html "$2"
  says err "$2"
  run "$1" execute one.json --steps 1 --trace "$2"
  says err "$2"
  run "$1" calibrate --cluster "$machine" measured1.json -o "$2"
  says err "$2"
}
unwritable 2 missing/plan.json
unwritable 2 occupied/taken
unwritable 1 /dev/full
if [ "$with_mpi" = ON ]; then
  run 1 execute two.json --steps 1 --trace /dev/full
  [ "$(cat err)" = "parplan: rank 0: cannot write '/dev/full': No space left on device" ] ||
    fail "not said once: $(cat err)"
fi
# No file may grow beyond 1 KiB, as on a full disk: what stood there stays.
(ulimit -f 1 && unwritable 1 occupied/old && exit $((failures != 0))) || failures=$((failures + 1))
[ "$(cat occupied/old)" = before ] || fail "a full disk changed occupied/old"
only_files occupied "old taken "
# Whoever reads may end early, and standard output may be full: what goes into files is there.
jobs=one.json
[ "$with_mpi" = ON ] && jobs="one.json two.json"
for job in $jobs; do
  rm -f unread.json
  "$parplan" execute $job --steps 2 --trace unread.json --format json 2>err | head -c 10 >out
  [ ! -s err ] || fail "said to nobody: $(cat err)"
  run 0 calibrate --cluster "$machine" unread.json -o unread_machine.json
  "$parplan" execute $job --steps 2 --trace full.json >/dev/full 2>err
  [ $? -eq 1 ] || fail "a run of $job with a full standard output did not end with 1"
  [ "$(cat err)" = "parplan: cannot write to standard output" ] || fail "not what is said of it: $(cat err)"
  made full.json
done
run 2 execute one.json --steps 1 --trace missing/trace.json
says err "missing"
run 2 calibrate --cluster "$machine" short.json -o occupied/old
[ "$(cat occupied/old)" = before ] || fail "a failed command changed occupied/old"
only_files occupied "old taken "
only_files occupied/taken ""

# Seconds of processor time that PID has used.
processor_time() {
  local ticks
  ticks=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '{ print $12 + $13 }')
  echo $((${ticks:-0} / $(getconf CLK_TCK)))
}
ranks_below() {
  local child
  for child in $(children "$1"); do
    [ "/proc/$child/exe" -ef "$parplan" ] && echo "$child"
    ranks_below "$child"
  done
}
# ranks_of JOB COUNT: waits until the job's ranks have begun to work (starting takes them seconds where the
# name server is slow), and puts them into `ranks`.
ranks_of() {
  local i pid working
  for ((i = 0; i < 600; i++)); do
    ranks=$1
    [ "$2" -eq 1 ] || ranks=$(ranks_below "$1")
    working=0
    for pid in $ranks; do
      [ "$(processor_time "$pid")" -lt 2 ] || working=$((working + 1))
    done
    [ $working -ne "$2" ] || return 0
    sleep 0.1
  done
  fail "expected $2 working ranks, found '$ranks'"
}
# Each job in a process group of its own, as a shell gives one to what it starts.
set -m
# WHAT is evaluated once the ranks work: `job` and `ranks` are theirs.
interrupt() { # PLAN TRACE RANKS CODE WHAT
  rm -f "$2"
  "$parplan" execute "$1" --steps 1000000 --trace "$2" >out 2>err &
  job=$!
  ranks_of $job "$3"
  eval "$5"
  ended_within 10 $job
  [ $code -eq "$4" ] || fail "after '$5' a run of $1 ended with $code, not $4"
}
in_order() { # PLAN TRACE RANKS CODE WHAT
  interrupt "$@"
  says out "(interrupted)"
  says out "loss"
  made "$2"
  run 0 calibrate --cluster "$machine" "$2" -o interrupted.json
}
second_rank() { echo $ranks | cut -d' ' -f2; }
echo "== interrupt"
# Nothing fits for about twenty seconds of processor time, up to 256 microbatches.
"$parplan" recommend --model llama-2-70b --cluster dgx-h100:16 --global-batch 1024 --threads 1 >out 2>err &
job=$!
for ((i = 0; i < 600; i++)); do
  [ "$(processor_time $job)" -lt 2 ] || break
  sleep 0.1
done
kill -INT -- "-$job"
ended_within 30 $job
[ $code -eq 130 ] || fail "an interrupted search ended with $code, not 130"
says err "parplan: interrupted; "
says err "none of them fits"
says err "does not fit into the device's memory"
in_order one.json stopped1.json 1 130 'kill -INT -- -$job'
in_order one.json stopped1.json 1 143 'kill -TERM -- -$job'
in_order one.json stopped1.json 1 129 'kill -HUP $job'
# One Ctrl-C may arrive several times.
in_order one.json stopped1.json 1 130 'kill -INT $job; sleep 0.02; kill -INT $job; kill -INT -- -$job'
if [ "$with_mpi" = ON ]; then
  mkdir deaf
  printf '#!/bin/sh\ntrap "" INT TERM\nwhile :; do sleep 1; done\n' >deaf/mpirun
  chmod +x deaf/mpirun
  # It has a child, but no rank: not waited for longer than the minute that a start may take.
  PATH=$PWD/deaf:$PATH "$parplan" execute two.json --steps 2 >deaf.out 2>deaf.err &
  without_ranks=$!

  in_order two.json stopped2.json 2 130 'kill -INT -- -$job'
  in_order two.json stopped2.json 2 143 'kill -TERM $job'
  in_order two.json stopped2.json 2 129 'kill -HUP $job'
  in_order two.json stopped2.json 2 143 'kill -TERM $(second_rank)'
  [ ! -s err ] || fail "said about a rank that ended in order: $(cat err)"
  in_order two.json stopped2.json 2 130 'kill -INT $job; sleep 0.02; kill -INT $job; kill -INT -- -$job'
  # mpirun, told to end, asks the ranks by SIGTERM and drops what they print through it.
  in_order two.json stopped2.json 2 143 'kill -INT $(children $job)'
  in_order two.json stopped2.json 2 130 'kill -INT $job $(children $job) $ranks'
  interrupt two.json stopped2.json 2 130 'kill -STOP $(children $job); sleep 0.2; kill -INT $job'
  says err "parplan: mpirun had been stopped by a signal; it goes on"
  # A rank that cannot end in order; who asks again later does not wait for it.
  interrupt two.json stopped2.json 2 143 \
    'kill -STOP $(second_rank); kill -INT $job; sleep 2.1; kill -TERM $job'
  [ "$(cat err)" = "parplan: stopping in order; interrupt again after 2 s to end at once" ] ||
    fail "not what is said of an interrupt: $(cat err)"

  echo "== profile"
  run 0 profile --quick --ranks 2 -o profiled.json
  made profiled.json
  run 0 plan "${tiny[@]}" --cluster profiled.json --layout dp=2 -o profiled_plan.json
  says out " 0.0 % data-sheet peaks"
  run 0 execute profiled_plan.json --steps 2

  echo "== an mpirun that locks up"
  mkdir stays heedless
  # It outlives the ranks.
  printf '#!/bin/sh\n%s "$@"\nexec sleep 1000\n' "$(command -v mpirun)" >stays/mpirun
  # It does not heed that its rank has ended.
  printf '#!/bin/sh\n"%s" execute missing.json 2>/dev/null &\nexec sleep 1000\n' "$parplan" >heedless/mpirun
  chmod +x stays/mpirun heedless/mpirun
  for kind in stays heedless; do
    PATH=$PWD/$kind:$PATH "$parplan" execute two.json --steps 2 >$kind.out 2>$kind.err &
    ended_within 60 $!
    [ $code -eq 1 ] || fail "a run whose mpirun $kind ended with $code, not 1"
    says $kind.err "parplan: mpirun did not end although a rank had ended 10 s ago"
  done
  # It cannot make the memory through which ranks find each other: some lock up, others end.
  (ulimit -f 120 && exec "$parplan" execute two.json --steps 2) >out 2>err &
  ended_within 90 $!
  [ $code -eq 1 ] || fail "a run in too small files ended with $code, not 1"
  tail -n 1 err | grep -Eq '^parplan: (mpirun did not end although|rank [01] |mpirun )' ||
    fail "no reason of a run in too small files: $(cat err)"
  PATH=$PWD/deaf:$PATH interrupt two.json deaf.json 0 130 'sleep 1; kill -INT $job'

  echo "== an mpirun that is a script"
  mkdir wrapper idle
  printf '#!/bin/sh\n%s "$@"\nexit $?\n' "$(command -v mpirun)" >wrapper/mpirun
  printf '#!/bin/sh\nexit 0\n' >idle/mpirun
  chmod +x wrapper/mpirun idle/mpirun
  PATH=$PWD/wrapper:$PATH run 0 execute two.json --steps 2 --trace wrapped.json
  made wrapped.json
  PATH=$PWD/wrapper:$PATH in_order two.json wrapped.json 2 130 'kill -INT $job'
  # A script that heeds no signal: who asks again ends the ranks all the same.
  sed -i '2i trap "" INT TERM' wrapper/mpirun
  PATH=$PWD/wrapper:$PATH interrupt two.json wrapped.json 2 143 \
    'kill -STOP $(second_rank); kill -INT $job; sleep 2.1; kill -TERM $job'
  absent wrapped.json
  PATH=$PWD/idle:$PATH run 1 execute two.json --steps 2
  says err "no rank has run; is '$PWD/idle/mpirun' Open MPI's?"
  # Ranks of profile print nothing; that they have run is known all the same.
  printf '#!/bin/sh\n"%s" execute missing.json 2>/dev/null\nexit 0\n' "$parplan" >idle/mpirun
  PATH=$PWD/idle:$PATH run 0 execute two.json --steps 2

  echo "== bad input of ranks that a launcher started"
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  mpirun --oversubscribe -n 3 "$parplan" execute missing.json >out 2>err
  [ $? -eq 2 ] || fail "bad input under mpirun did not end with 2"
  [ "$(grep -c "cannot read 'missing.json'" err)" -eq 1 ] || fail "not said once: $(cat err)"
  # shellcheck disable=SC2016
  mpirun --oversubscribe -n 2 sh -c \
    '[ $OMPI_COMM_WORLD_RANK = 1 ] && exec "$0" execute missing.json; exec "$0" execute two.json' "$parplan" >out 2>err
  [ $? -eq 2 ] || fail "bad input of rank 1 did not end with 2"
  says err "rank 1: cannot read 'missing.json'"

  echo "== ranks that fail together"
  command -v python3 >/dev/null && for launcher in "" "mpirun --oversubscribe -n 2"; do
    ids H 600 >narrow.bin
    $launcher "$parplan" execute narrow.json --steps 1000000 >out 2>err &
    job=$!
    if [ -z "$launcher" ]; then ranks_of $job 2; else sleep 4; fi
    truncate -s 100 narrow.bin
    ended_within 10 $job
    [ $code -eq 2 ] || fail "ranks whose data was cut short ended with $code, not 2"
    count=$(grep -c "rank [01]: token file 'narrow.bin' was cut short" err)
    # Our launcher says it once; another may be too slow to end the second rank before it has spoken.
    [ "$count" -eq 1 ] || { [ -n "$launcher" ] && [ "$count" -eq 2 ]; } || fail "not said once: $(cat err)"
    [ -n "$launcher" ] || [ "$(wc -l <err)" -eq 1 ] || fail "more than that is said: $(cat err)"
  done

  echo "== a rank dies"
  "$parplan" execute two.json --steps 1000000 --trace died.json >out 2>err &
  job=$!
  ranks_of $job 2
  if [ "$(echo $ranks | wc -w)" -eq 2 ]; then
    kill -KILL "$(echo $ranks | cut -d' ' -f2)"
    ended_within 10 $job
    [ $code -eq 1 ] || fail "a job whose rank died ended with $code, not 1"
    says err "parplan: rank 1 was ended by signal 9 (Killed)"
    [ "$(wc -l <err)" -eq 1 ] || fail "more than that is said: $(cat err)"
  else
    fail "expected two ranks below the launcher, found '$ranks'"
    kill -KILL -- -$job
  fi
  absent died.json

  ended_within 80 $without_ranks
  [ $code -eq 1 ] || fail "a run whose mpirun starts nothing ended with $code, not 1"
  says deaf.err "parplan: mpirun started no rank within 60 s"
fi
set +m

[ $failures -eq 0 ] && echo "all passed"
exit $((failures != 0))
