#!/usr/bin/env bash
# Fails when a source is not formatted as .clang-format says; exits 77 (skipped) where clang-format 14 is absent, since
# other versions format differently. `cmake/check_format.sh --fix` formats instead of checking.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

formatter=
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
    formatter=$candidate
    break
  fi
done
if [[ -z $formatter ]]; then
  echo "format: skipped, clang-format 14 is not installed"
  exit 77
fi

mapfile -t sources < <(cmake/list_sources.sh)
if [[ ${1:-} == --fix ]]; then
  "$formatter" -i "${sources[@]}"
elif ! "$formatter" --dry-run -Werror "${sources[@]}"; then
  echo "format: run cmake/check_format.sh --fix" >&2
  exit 1
fi
echo "format: ${#sources[@]} files"
