#!/usr/bin/env bash
# A rank fails in every way there is: the job must end by itself within seconds, with an exit code
# that is not 0, and stderr must name the rank and the reason.
#
#   mpi_failure_test.sh MPIEXEC NUMPROC_FLAG PROGRAM [MODE...]
set -uo pipefail
mpiexec=$1
numproc=$2
program=$3
shift 3
limit_s=${PARPLAN_TEST_LIMIT_S:-30}
failed=0

check() {  # check MODE PATTERN: PATTERN is an extended regular expression
  local mode=$1 pattern=$2 output code started=$SECONDS
  ((${#modes[@]} == 0)) || [[ " ${modes[*]} " == *" $mode "* ]] || return 0
  output=$(timeout --kill-after=5 "$limit_s" "$mpiexec" --bind-to none "$numproc" 3 "$program" "$mode" 2>&1)
  code=$?
  if ((code == 0 || code == 124 || code == 137 && SECONDS - started >= limit_s)); then
    echo "FAILED $mode: exit code $code after $((SECONDS - started)) s"
    failed=1
  elif ! grep -Eq "$pattern" <<<"$output"; then
    echo "FAILED $mode: no line matches '$pattern'"
    failed=1
  else
    echo "passed $mode: exit code $code after $((SECONDS - started)) s:" \
      "$(grep -Eo -m 1 "$pattern" <<<"$output")"
    return
  fi
  sed 's/^/    /' <<<"$output"
}

modes=("$@")
check throw '^parplan: rank 1: disk full$'
check exit '^parplan: rank 1: exited before World::finish; the other ranks cannot go on$'
check return '^parplan: rank 1: left the job without World::finish; the other ranks cannot go on$'
check finish '^parplan: rank [02] \(group world, all_reduce #[0-9]+ of 400\.0 kB\) waited .* for rank 1: .* rank 1 has finished and will send nothing more$'
check _exit 'rank 1 .*(has ended|without calling|exiting improperly)|process rank 1|rank 1 with PID'
check kill 'process rank 1 .*signal 9|rank 1 \(process [0-9]+ on host .*\) has ended'
check segv 'process rank 1 .*signal 11'
check stop '^parplan: rank [02] \(group world, all_reduce #[0-9]+ of 400\.0 kB\) waited .* for rank 1: .*; rank 1 \(process [0-9]+ on host .*\) is stopped$'
check count '^parplan: rank [012]: group world: ranks do not do the same: .*all_reduce of 999 float32 as #4'
check size '^parplan: rank [01]: group world: ranks do not do the same: .*a transfer of (7|100000) float32 with tag 1'
check busy '^parplan: rank [02] \(group world, all_reduce #[0-9]+ of 400\.0 kB\) waited [23]\.[0-9] s for rank 1: '
exit "$failed"
