#pragma once

#include <string>
#include <vector>

namespace parplan::tools {

/// Runs this very program again as `ranks` MPI ranks of this host with `arguments` and waits for
/// them. Uses Open MPI's mpirun with what ranks on a shared host need: no binding to cores (it
/// would pin all threads of a rank to one), more ranks than cores and root allowed. Standard output
/// passes through (std::cout is bad afterwards when that failed; the job is not disturbed),
/// standard error as JobMessages says.
///
/// The first of interrupting_signals() (tools/interrupts.hpp) is passed on to the ranks, which
/// end in order; one that comes more than kOneRequest later goes to mpirun, which ends them at
/// once; if it does not, all are killed. Returns the job's exit code; 128 + signal when one of
/// these signals ended it, to whichever of the processes it was sent. Throws InputError when mpirun
/// is not installed; HwError when another signal ended a rank, with the rank and the signal, and
/// when mpirun has locked up (MpirunWatch).
int launch_ranks(int ranks, const std::vector<std::string>& arguments);

/// Absolute path of the running program.
std::string own_program();

}  // namespace parplan::tools
