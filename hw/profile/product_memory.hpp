#pragma once

#include "sim/core/units.hpp"

namespace parplan::hw {

/// Resident memory that one more shape of float matrix product costs the calling thread for good:
/// code that the library generates, and what describes it. The mean over products of many small
/// shapes that nothing else uses; 0 where the system does not tell. To be called once per process,
/// after a first product, which sets up the library: shapes that are known already cost nothing.
Bytes measure_product_bytes();

}  // namespace parplan::hw
