#!/usr/bin/env bash
# Prints our C++ and CUDA sources, one path a line, relative to the repository root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
find sim planner hw traces tools tests -type f \
  \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | LC_ALL=C sort
