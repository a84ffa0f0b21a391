#pragma once

namespace parplan::tools {

/// Ranks write their standard output right to the launcher that started mpirun: what they have
/// found out does not depend on mpirun, which drops it when it is told to end.
///
/// In the process that becomes mpirun: `descriptor` is the writing end of a pipe, which this
/// process's parent keeps open. Set in the environment.
void offer_launchers_output(int descriptor);

/// What a rank writes there first, and never again; the launcher leaves it out.
inline constexpr char kRankHasStarted = '\0';

/// In a rank, before it writes anything. Where nothing is offered, or the rank runs on another
/// host than the launcher, standard output stays as it is.
void take_launchers_output();

}  // namespace parplan::tools
