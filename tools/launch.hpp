#pragma once

#include <string>
#include <vector>

namespace parplan::tools {

/// Runs this very program again as `ranks` MPI ranks of this host with `arguments` and waits for
/// them. Uses Open MPI's mpirun with what ranks on a shared host need: no binding to cores (it
/// would pin all threads of a rank to one), more ranks than cores and root allowed. Standard output
/// passes through, standard error as JobMessages says.
///
/// The first SIGINT or SIGTERM is passed on to the ranks, which end in order; one that comes more
/// than kOneRequest later (tools/cli/interrupts.hpp) goes to mpirun, which ends them at once.
/// Returns the job's exit code; 128 + signal when a SIGINT or SIGTERM ended it, to whichever of the
/// processes it was sent. Throws InputError when mpirun is not installed, HwError when another
/// signal ended a rank, with the rank and the signal.
int launch_ranks(int ranks, const std::vector<std::string>& arguments);

/// Absolute path of the running program.
std::string own_program();

}  // namespace parplan::tools
