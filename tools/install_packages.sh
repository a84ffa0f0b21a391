#!/usr/bin/env bash
# Installs from apt what parplan needs, and only what is missing. Needs Debian 12 or a relative of it, and root or sudo.
#
#   tools/install_packages.sh run         what building and running the program needs
#   tools/install_packages.sh test        the above, and what the tests need (default)
#   tools/install_packages.sh --list ...  only prints the names
set -euo pipefail

run_packages=(
  g++ cmake ninja-build
  libopenmpi-dev openmpi-bin        # ranks as processes, and what launches them
  libdnnl-dev                       # oneDNN: float32 matrix products and layers on the CPU
  nlohmann-json3-dev libsimdjson-dev libcli11-dev
  graphviz                          # draws the plan in the report
  libjs-chart.js                    # memory curves in the report
)
test_packages=(
  catch2 libbenchmark-dev clang-format-14
  iproute2 procps                   # links shaped to a given rate, and looking at processes
)

usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

only_list=0
scope='test'
for argument in "$@"; do
  case $argument in
    run | test) scope=$argument ;;
    --list) only_list=1 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "install_packages.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done

packages=("${run_packages[@]}")
[[ $scope == run ]] || packages+=("${test_packages[@]}")
if ((only_list)); then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install_packages.sh: this is no Debian (no apt-get). Install what corresponds to these, then run with --no-install:" >&2
  echo "  ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "packages: all ${#packages[@]} are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install_packages.sh: needs root, or sudo, to install: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@"
}
install_missing() {
  apt install --no-install-recommends "${missing[@]}"
}

echo "packages: installing ${missing[*]}"
# The lists are fetched only if they do not know a package, or if what they name is not there any more.
if apt-cache show --no-all-versions "${missing[@]}" >/dev/null 2>&1; then
  install_missing || { apt update; install_missing; }
else
  apt update
  install_missing
fi
