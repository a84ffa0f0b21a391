#!/usr/bin/env bash
# Installs what is missing, builds and runs every test. Fails if any part fails; ends with ctest's summary.
#
#   tools/test.sh [--no-install] [--jobs N]
#
# Parts: `tsan` (thread sanitizer, the tests with label "threads"), `asan` (address and undefined-behaviour sanitizers,
# without MPI, all tests but long comparisons of numbers) and `release` (what users run; warnings are errors; all tests:
# unit, MPI, end-to-end, layers, format, file sizes).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

install=1
jobs=$(nproc)
while (($#)); do
  case $1 in
    --no-install) install=0 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "test.sh: unknown argument '$1'" >&2; exit 2 ;;
  esac
  shift
done
((install)) && tools/install_packages.sh test

build() {  # build PRESET [TARGET...]: a build that fails ends the script
  local preset=$1 started=$SECONDS
  shift
  echo "== build $preset"
  cmake --preset "$preset" -DPARPLAN_WARNINGS_AS_ERRORS=ON -DPARPLAN_BUILD_TESTS=ON
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
  echo "== build $preset: $((SECONDS - started)) s"
}

failed=()
run_tests() {  # run_tests PRESET [CTEST ARGUMENT...]: a failure is remembered, so that the other parts run too
  local preset=$1 started=$SECONDS
  shift
  echo "== test $preset"
  if ! ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@" 2>&1 |
    tee "build/$preset/test.log"; then
    failed+=("$preset")
  fi
  echo "== test $preset: $((SECONDS - started)) s"
}

build tsan thread_tests
run_tests tsan --parallel "$jobs" --label-regex threads
build asan
run_tests asan --parallel "$jobs" --label-exclude repository
build release
run_tests release --parallel "$jobs"

# The last lines are a summary: release's, or that of what failed.
summary_of=release
for preset in "${failed[@]}"; do
  echo "== FAILED: $preset"
  summary_of=$preset
done
sed -n '/tests passed/,$p' "build/$summary_of/test.log"
((${#failed[@]} == 0))
