#pragma once

#include "sim/core/units.hpp"

namespace parplan::hw {

/// Most resident memory this process had since the last reset (VmHWM of /proc/self/status); 0 where
/// the system does not tell. Ranks that are threads of one process share it.
Bytes peak_process_bytes();

/// The same at this moment (VmRSS).
Bytes resident_process_bytes();

/// Starts a new peak at what is resident now, so that one process can measure several runs. Does
/// nothing where the system cannot.
void reset_peak_process_bytes();

}  // namespace parplan::hw
