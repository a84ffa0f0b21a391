#!/usr/bin/env bash
# Release check: runs the README's commands on a bare Debian 12, in a chroot made by debootstrap, and prints the time and
# the disk space that each took. Each command gets its own fresh root. Needs root and the package debootstrap.
#
#   tools/check_fresh_machine.sh [--user] [--keep] [COMMAND...]
#
#   COMMAND   run from the top of a clone of the committed HEAD; default: tools/quickstart.sh and tools/test.sh
#   --user    as an ordinary user with passwordless sudo, not as root
#   --keep    leaves the roots in place (no mount stays in any case) and prints where they are
#
# The bare root (git and sudo added) is kept as a tarball under ${XDG_CACHE_HOME:-~/.cache}/parplan; delete it to renew.
# The machine's own apt settings and name server are copied in. All mounts are made in a private mount namespace, which
# ends with the command that runs in it, however that ends.
set -euo pipefail
suite=bookworm
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/parplan

as_user=0
keep=0
commands=()
while (($#)); do
  case $1 in
    --user) as_user=1 ;;
    --keep) keep=1 ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) echo "check_fresh_machine.sh: unknown option '$1'" >&2; exit 2 ;;
    *) commands+=("$1") ;;
  esac
  shift
done
((${#commands[@]})) || commands=(tools/quickstart.sh tools/test.sh)

if ((EUID != 0)); then
  echo "check_fresh_machine.sh: needs root (chroot and mounts)" >&2
  exit 1
fi
if ! command -v debootstrap >/dev/null; then
  echo "check_fresh_machine.sh: needs debootstrap (apt-get install debootstrap)" >&2
  exit 1
fi

roots=()
remove_roots() {
  ((keep)) && return
  for root in "${roots[@]}"; do
    rm -rf --one-file-system "$root"
  done
}
trap remove_roots EXIT

new_root() {  # new_root NAME: makes an empty folder and names it in $root
  root=$(mktemp -d "${TMPDIR:-/var/tmp}/parplan-$1.XXXXXX")
  chmod 755 "$root"
  roots+=("$root")
}

make_bare_tarball() {
  echo "== debootstrap $suite"
  mkdir -p "$cache"
  new_root bare
  debootstrap --variant=minbase --include=git,sudo,ca-certificates "$suite" "$root" >"$root.log" 2>&1 ||
    { tail -20 "$root.log" >&2; return 1; }
  rm -f "$root.log" "$root"/var/cache/apt/archives/*.deb
  tar -C "$root" -cf "$cache/$suite.tar.part" .
  mv "$cache/$suite.tar.part" "$cache/$suite.tar"
}

copy_apt_settings() {  # copy_apt_settings ROOT: what this machine needs to reach its mirror
  # shellcheck source=/dev/null
  if [[ $(. /etc/os-release && echo "${VERSION_CODENAME:-}") == "$suite" ]]; then
    rm -f "$1/etc/apt/sources.list"
    for name in sources.list sources.list.d preferences.d trusted.gpg.d keyrings; do
      [[ -e /etc/apt/$name ]] && cp -a "/etc/apt/$name" "$1/etc/apt/"
    done
  fi
  local file
  for file in /etc/apt/apt.conf.d/*; do
    if grep -q '^ *Acquire' "$file"; then cp -a "$file" "$1/etc/apt/apt.conf.d/"; fi
  done
  cp -L /etc/resolv.conf "$1/etc/resolv.conf"
  # debootstrap leaves this out, the installer does not; without it every start of MPI waits for the name server.
  printf '127.0.0.1\tlocalhost %s\n' "$(hostname)" >"$1/etc/hosts"
}

mebibytes() { du -s -m -x "$1" | cut -f 1; }

# Runs inside the private namespaces: $1 root, $2 user, $3 home, $4 command.
# shellcheck disable=SC2016
inside='
  set -euo pipefail
  mount -t proc proc "$1/proc"
  mount --rbind /sys "$1/sys"
  mount --rbind /dev "$1/dev"
  exec chroot --userspec="$2" "$1" /usr/bin/env -i HOME="$3" USER="$2" LANG=C.UTF-8 TERM=dumb \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -c "cd \"\$HOME/parplan\" && $4" </dev/null
'

check() {  # check COMMAND
  local user=root home=/root commit before started seconds status=0
  new_root fresh
  tar -C "$root" -xf "$cache/$suite.tar"
  copy_apt_settings "$root"
  if ((as_user)); then
    user=newcomer home=/home/newcomer
    chroot "$root" useradd --create-home --shell /bin/bash "$user"
    echo "$user ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/newcomer"
  fi
  git clone -q --no-local "$repository" "$root$home/parplan"
  commit=$(git -C "$root$home/parplan" rev-parse --short HEAD)
  chroot "$root" chown -R "$user:$user" "$home/parplan"

  before=$(mebibytes "$root")
  echo "== $1, as $user, on a bare root of $before MiB"
  started=$SECONDS
  unshare --mount --propagation private --pid --fork --kill-child \
    bash -c "$inside" inside "$root" "$user" "$home" "$1" || status=$?
  seconds=$((SECONDS - started))
  results+=("$commit: $1, as $user: exit status $status, $seconds s; root grew from $before to $(mebibytes "$root") MiB, of which \
the clone with its builds $(mebibytes "$root$home/parplan") MiB")
  ((status == 0)) || failed=1
  if ((keep)); then
    echo "kept: $root"
  else
    rm -rf --one-file-system "$root"
  fi
}

results=()
failed=0
[[ -e $cache/$suite.tar ]] || make_bare_tarball
for command in "${commands[@]}"; do
  check "$command"
done
echo "== fresh Debian 12 ($suite)"
printf '%s\n' "${results[@]}"
exit "$failed"
