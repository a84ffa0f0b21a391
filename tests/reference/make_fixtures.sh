#!/usr/bin/env bash
# Regenerates tests/reference/fixtures from current PyTorch, in an environment of its own.
#
#   make_fixtures.sh [--check] [--upgrade] [ENVIRONMENT]
#
#   --check      compare with the committed fixtures instead of writing them
#   --upgrade    bring an existing environment to the current versions first
#   ENVIRONMENT  the virtual environment, made if absent (6 GB; default
#                ${XDG_CACHE_HOME:-$HOME/.cache}/parplan/pytorch)
#
# Needs Python 3.10 or later with venv (Debian: python3-venv); PYTHON names another interpreter.
set -euo pipefail

environment=${XDG_CACHE_HOME:-$HOME/.cache}/parplan/pytorch
upgrade=()
arguments=()
for argument in "$@"; do
  case $argument in
    --check) arguments+=(--check) ;;
    --upgrade) upgrade=(--upgrade) ;;
    -h | --help)
      sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    -*)
      echo "make_fixtures.sh: unknown option $argument (see --help)" >&2
      exit 2
      ;;
    *) environment=$argument ;;
  esac
done

folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$environment/bin/python
if [ ! -x "$python" ]; then
  mkdir -p "$(dirname "$environment")"
  "${PYTHON:-python3}" -m venv "$environment" || {
    echo "make_fixtures.sh: no virtual environment at $environment; is python3-venv installed?" >&2
    exit 1
  }
fi
if [ ${#upgrade[@]} -gt 0 ] || ! "$python" -c 'import torch, numpy, transformers' 2>/dev/null; then
  "$python" -m pip install "${upgrade[@]}" torch numpy transformers
fi

# No look at the model hub is wanted: every model is built from its configuration.
export HF_HUB_OFFLINE=1
exec "$python" "$folder/make_fixtures.py" "${arguments[@]}"
