#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <exception>
#include <iostream>
#include <vector>

#include "hw/world.hpp"
#include "sim/core/error.hpp"
#include "tools/cli/command.hpp"

namespace {

using namespace parplan;
using namespace parplan::tools;

/// Under MPI the whole job ends with this rank's reason.
int failed(int code, const std::string& reason) {
  if (hw::launched_by_mpi()) hw::abort_world(code, reason);
  std::cerr << "parplan: " << reason << "\n";
  return code;
}

int run(int argc, char** argv) {
  CLI::App app{"Plan, simulate and run parallel training, and compare the three.", "parplan"};
  app.set_version_flag("--version", "parplan " PARPLAN_VERSION);
  app.require_subcommand(1);
  app.footer("'parplan COMMAND --help' shows a command's options and an example.");
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make : {make_recommend, make_plan, make_simulate, make_execute, make_profile,
                          make_calibrate, make_compare, make_presets}) {
    commands.push_back(make(app));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kBadInput;
  }
  for (const auto& command : commands) {
    if (!command->app().parsed()) continue;
    const int code = command->run();
    if (!std::cout.flush()) throw InputError("cannot write to standard output");
    return code;
  }
  return kBadInput;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const InputError& error) {
    return failed(kBadInput, error.what());
  } catch (const std::exception& error) {
    return failed(kInternalFailure, error.what());
  }
}
