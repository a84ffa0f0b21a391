#!/usr/bin/env bash
# From nothing to a report: installs what is missing, builds the program, measures this machine, plans the training of a
# transformer for it, predicts the plan, really trains it on ranks of this machine, compares, refits the cost model, and
# predicts again. Prints where the report is.
#
#   tools/quickstart.sh [--no-install] [--steps N] [--output FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

install=1
steps=4
output=build/quickstart
while (($#)); do
  case $1 in
    --no-install) install=0 ;;
    --steps) steps=${2-}; shift ;;
    --output) output=${2-}; shift ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "quickstart.sh: unknown argument '$1'" >&2; exit 2 ;;
  esac
  shift || break
done
if [[ ! $steps =~ ^[1-9][0-9]{0,8}$ ]]; then
  echo "quickstart.sh: --steps needs a number of steps, not '$steps'" >&2
  exit 2
fi
if [[ -z $output ]] || ! mkdir -p "$output"; then
  echo "quickstart.sh: --output needs a folder that can be made, not '$output'" >&2
  exit 2
fi
if ((install)); then tools/install_packages.sh run; fi

say() { printf '\n== %s\n' "$*"; }
run() {  # runs parplan with the arguments, after printing the line that does the same by hand
  printf '\n$ build/release/bin/parplan %s\n' "$*"
  build/release/bin/parplan "$@"
}

say "building build/release/bin/parplan"
cmake --preset release -DPARPLAN_BUILD_TESTS=OFF -DPARPLAN_BUILD_BENCHMARKS=OFF
cmake --build --preset release --parallel "$(nproc)"

say "measuring this machine (one to two minutes)"
run profile -o "$output/machine.json"

say "which layout? (an 8-layer transformer of width 512, 32 sequences of 128 tokens a step)"
run recommend --model seed-transformer --cluster "$output/machine.json" --global-batch 32 --sequence 128 \
  --top 5 -o "$output/plan.json"

say "what will it do?"
run simulate "$output/plan.json" --cluster "$output/machine.json" --trace "$output/predicted.json"

say "what does it really do? ($steps steps of training)"
run execute "$output/plan.json" --steps "$steps" --trace "$output/measured.json"

say "how far apart are the two, and why?"
run compare "$output/predicted.json" "$output/measured.json"

say "refitting the cost model to what was measured, and predicting again"
run calibrate --cluster "$output/machine.json" "$output/measured.json" -o "$output/calibrated.json"
run simulate "$output/plan.json" --cluster "$output/calibrated.json" --trace "$output/calibrated_prediction.json"
run compare "$output/predicted.json" "$output/measured.json" --calibrated "$output/calibrated_prediction.json" \
  --cluster "$output/machine.json" --html "$output/report.html"

say "done"
echo "The report: $(realpath "$output/report.html")"
echo "The traces in $output (predicted, measured, calibrated_prediction) open in Perfetto and chrome://tracing."
