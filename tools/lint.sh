#!/usr/bin/env bash
# Runs clang-tidy 14 (settings and reasons: .clang-tidy) on sources; needs the package clang-tidy-14.
#
#   tools/lint.sh                what differs from branch main, committed or not
#   tools/lint.sh --all          every source
#   tools/lint.sh FILE.cpp...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v clang-tidy-14 >/dev/null; then
  echo "lint.sh: needs clang-tidy-14 (apt-get install clang-tidy-14)" >&2
  exit 1
fi
cmake --preset dev >/dev/null

case ${1:-} in
  -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
  --all) mapfile -t candidates < <(cmake/list_sources.sh) ;;
  '') mapfile -t candidates < <(
        { git diff --name-only --diff-filter=d "$(git merge-base HEAD main)"
          git ls-files --others --exclude-standard; } | sort -u) ;;
  *) candidates=("$@") ;;
esac

# Headers are checked through the sources that include them.
sources=()
for file in "${candidates[@]}"; do
  if [[ $file == *.cpp ]] && grep -q "/$file\"" build/dev/compile_commands.json; then sources+=("$file"); fi
done
echo "lint: ${#sources[@]} sources"
((${#sources[@]} == 0)) ||
  printf '%s\0' "${sources[@]}" |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 --quiet -p build/dev --extra-arg=-Wno-unknown-warning-option
