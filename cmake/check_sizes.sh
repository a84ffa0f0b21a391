#!/usr/bin/env bash
# Fails when a source file is longer than 800 lines: past that it is split.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
limit=800

mapfile -t sources < <(cmake/list_sources.sh; find tools cmake -type f \( -name '*.sh' -o -name '*.cmake' \))
failed=0
for source in "${sources[@]}"; do
  lines=$(wc -l <"$source")
  if ((lines > limit)); then
    echo "$source: $lines lines, the limit is $limit" >&2
    failed=1
  fi
done
echo "sizes: ${#sources[@]} files"
exit "$failed"
