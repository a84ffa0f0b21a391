#pragma once

#include <string_view>

namespace parplan::tools {

/// report.css and report.js of this folder, put into the program at build time.
std::string_view report_css();
std::string_view report_js();

}  // namespace parplan::tools
