#pragma once

#include <string>
#include <vector>

namespace parplan::tools {

/// Runs this very program again as `ranks` MPI ranks of this host with `arguments` and waits for
/// them. Uses Open MPI's mpirun with what ranks on a shared host need: no binding to cores (it
/// would pin all threads of a rank to one), more ranks than cores and root allowed. Output passes
/// through; the first SIGINT or SIGTERM is passed on to the ranks, which end in order, later ones
/// to mpirun, which does not wait; whoever sent it, the return value is then 128 + the signal.
/// Otherwise returns the job's exit code. Throws InputError when mpirun is not installed.
int launch_ranks(int ranks, const std::vector<std::string>& arguments);

/// Absolute path of the running program.
std::string own_program();

}  // namespace parplan::tools
