#pragma once

#include <string>

#include "sim/core/units.hpp"

namespace parplan::tools {

int host_cores();     ///< that this process may use
Bytes host_memory();  ///< physical memory, or the control group's limit if it is lower
std::string host_name();
std::string processor_name();  ///< as /proc/cpuinfo gives it
std::string iso_date();        ///< now, UTC
std::string library_versions();

}  // namespace parplan::tools
