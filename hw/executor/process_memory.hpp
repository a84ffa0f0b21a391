#pragma once

#include "sim/core/units.hpp"

namespace parplan::hw {

/// Most resident memory this process ever had (VmHWM of /proc/self/status); 0 where the system does
/// not tell. Ranks that are threads of one process share it.
Bytes peak_process_bytes();

}  // namespace parplan::hw
