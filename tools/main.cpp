#include <poll.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <new>
#include <vector>

#include "hw/world.hpp"
#include "sim/core/error.hpp"
#include "sim/core/json_scanner.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/nearest.hpp"
#include "tools/cli/command.hpp"
#include "tools/launch/launchers_output.hpp"
#include "tools/printable_text.hpp"

namespace {

using namespace parplan;
using namespace parplan::tools;

/// Under MPI the whole job ends with this rank's reason.
int failed(int code, const std::string& what) {
  constexpr std::size_t kLongestReason = 4000;  // names in it are shortened where they are put in
  const std::string reason = shortened(what, kLongestReason);
  std::cout.flush();
  if (hw::launched_by_mpi()) hw::abort_world(code, printable(reason));
  std::cerr << "parplan: " << reason << "\n";
  return code;
}

/// Names and paths go into our JSON files, which hold nothing else.
void refuse_other_encodings(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (is_utf8(argv[i])) continue;
    throw InputError("the argument " + shortened(quoted_text(argv[i]), 80) +
                     " is not valid UTF-8; give the file or name in UTF-8");
  }
}

std::string names(const std::vector<std::string>& known) {
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  return list;
}

/// A first word that is no command; the option library would call it unexpected.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  const std::string given = argv[1];
  if (std::find(known.begin(), known.end(), given) != known.end()) return;
  throw InputError("there is no command " + quoted_name(given) + did_you_mean(given, known) +
                   " (the commands are " + names(known) + ")");
}

/// "; did you mean '--seed'?" when the first argument that was left over resembles an option.
std::string nearest_option(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    const std::vector<std::string> left = command->remaining();
    if (left.empty()) continue;
    std::vector<std::string> known;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    return did_you_mean(left.front(), known);
  }
  return "";
}

/// Help and version are printed, by one rank; everything else is thrown.
void parse(CLI::App& app, int argc, char** argv, bool& shown) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    shown = true;
    if (hw::launched_rank().value_or(0) == 0) app.exit(request);
  } catch (const CLI::ParseError& error) {
    const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    throw InputError(std::string(error.what()) + (extra ? nearest_option(app) : "") +
                     " (--help shows what there is)");
  }
}

/// Whoever read our output has ended: `parplan presets | head -1`.
bool reader_has_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

int flushed(int code) {
  if (std::cout.flush()) return code;
  if (reader_has_gone()) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  throw HwError("cannot write to standard output");
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
  refuse_other_encodings(argc, argv);
  refuse_unknown_command(app, argc, argv);
  bool shown = false;
  parse(app, argc, argv, shown);
  if (shown) return flushed(kSuccess);
  for (const auto& command : commands) {
    if (!command->app().parsed()) continue;
    return flushed(command->run());
  }
  return kBadInput;
}

}  // namespace

int main(int argc, char** argv) {
  const PrintableOutput out(std::cout);
  const PrintableOutput err(std::cerr);
  // A limit of file sizes is reported by the write that meets it.
  std::signal(SIGXFSZ, SIG_IGN);
  // So that a run's trace and the other files are written when nobody reads what it prints.
  std::signal(SIGPIPE, SIG_IGN);
  take_launchers_output();
  try {
    return run(argc, argv);
  } catch (const InputError& error) {
    return failed(kBadInput, error.what());
  } catch (const std::bad_alloc&) {
    return failed(kInternalFailure,
                  "out of memory; end other programs, or give a smaller model, batch or file");
  } catch (const std::exception& error) {
    return failed(kInternalFailure, error.what());
  }
}
