#pragma once

#include <CLI/App.hpp>
#include <memory>

namespace parplan::tools {

/// Exit codes of the program.
inline constexpr int kSuccess = 0;
inline constexpr int kInternalFailure = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kNothingFits = 3;

/// A subcommand: its options are declared by the constructor, `run` does the work and returns the
/// exit code. Errors are thrown (sim/core/error.hpp); main turns them into messages and exit codes.
class Command {
 public:
  virtual ~Command() = default;
  virtual CLI::App& app() = 0;
  virtual int run() = 0;
};

std::unique_ptr<Command> make_recommend(CLI::App& parent);
std::unique_ptr<Command> make_plan(CLI::App& parent);
std::unique_ptr<Command> make_simulate(CLI::App& parent);
std::unique_ptr<Command> make_execute(CLI::App& parent);
std::unique_ptr<Command> make_profile(CLI::App& parent);
std::unique_ptr<Command> make_calibrate(CLI::App& parent);
std::unique_ptr<Command> make_compare(CLI::App& parent);
std::unique_ptr<Command> make_presets(CLI::App& parent);

}  // namespace parplan::tools
