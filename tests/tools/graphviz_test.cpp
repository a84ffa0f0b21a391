#include "tools/report/graphviz.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/catch2_compat.hpp"
#include "tools/report/html_report.hpp"

using namespace parplan::tools;
namespace fs = std::filesystem;

namespace {

/// An executable shell script that lives as long as the object.
class Script {
 public:
  explicit Script(const std::string& body) {
    std::string name = (fs::temp_directory_path() / "parplan-dot-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    std::ofstream(path()) << "#!/bin/sh\n" << body << "\n";
    REQUIRE(chmod(path().c_str(), 0755) == 0);
  }
  ~Script() { fs::remove_all(folder_); }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  fs::path path() const { return folder_ / "dot"; }

 private:
  fs::path folder_;
};

}  // namespace

TEST_CASE("of dot's output the svg element is kept, without namespaces", "[tools]") {
  const Script script(
      "echo '<?xml version=\"1.0\"?><!-- c --><svg width=\"1pt\" "
      "xmlns=\"http://www.w3.org/2000/svg\" "
      "xmlns:xlink=\"http://www.w3.org/1999/xlink\"><!-- n --><g/></svg>'");
  CHECK(run_dot(script.path(), "digraph {}") == "<svg width=\"1pt\"><g/></svg>");
}

TEST_CASE("dot reads the text that was given", "[tools]") {
  const Script script("[ \"$1\" = -Tsvg ] && echo \"<svg>$(cat)</svg>\"");
  CHECK(run_dot(script.path(), "digraph {}") == "<svg>digraph {}</svg>");
}

TEST_CASE("a dot that is missing, fails, hangs or draws nothing gives nothing", "[tools]") {
  CHECK(!run_dot("", "digraph {}"));
  CHECK(!run_dot("/nonexistent/dot", "digraph {}"));
  CHECK(!run_dot(Script("echo '<svg></svg>'; exit 1").path(), "digraph {}"));
  CHECK(!run_dot(Script("echo nothing").path(), "digraph {}"));
  CHECK(!run_dot(Script("kill -9 $$").path(), "digraph {}"));
  const auto start = std::chrono::steady_clock::now();
  CHECK(!run_dot(Script("exec sleep 60").path(), "digraph {}", std::chrono::milliseconds(100)));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
}

TEST_CASE("the installed dot draws a plan-like graph and refuses a broken one", "[tools]") {
  const fs::path dot = find_dot();
  if (dot.empty()) {
    WARN("Graphviz is not installed");
    return;
  }
  const auto svg = run_dot(dot, "digraph { a [class=\"layer\"]; a -> b }");
  REQUIRE(svg);
  CHECK(svg->find("class=\"node layer\"") != std::string::npos);
  CHECK(svg->find("http") == std::string::npos);
  CHECK(!run_dot(dot, "digraph {"));
}
