#include <CLI/Option.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/core/cluster_presets.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/model_presets.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/plan_options.hpp"
#include "tools/text_table.hpp"
#include "tools/units_text.hpp"

namespace parplan::tools {
namespace {

class Presets : public Command {
 public:
  explicit Presets(CLI::App& parent)
      : app_(*parent.add_subcommand("presets", "List the models and clusters known by name")) {
    app_.footer("Example:\n  parplan presets models");
    add_choice(app_, "what", what_, {"models", "clusters"}, "What to list (default: both)");
    add_format_option(app_, format_);
  }

  CLI::App& app() override { return app_; }

  int run() override {
    if (format_ == OutputFormat::kJson) {
      print_json();
      return kSuccess;
    }
    if (what_ != "clusters") print_models();
    if (what_.empty()) std::cout << "\n";
    if (what_ != "models") print_clusters();
    return kSuccess;
  }

 private:
  static void print_models() {
    TextTable table({"model", "what it is", "parameters", "layers", "sequence"}, 2);
    for (const ModelPreset& preset : model_presets()) {
      const Model model = *make_preset(preset.name);
      table.add({std::string(preset.name), std::string(preset.summary),
                 text_of_count(static_cast<double>(model.parameter_count())),
                 std::to_string(model.layers.size()), std::to_string(preset.sequence)});
    }
    table.print(std::cout, colour_on_stdout());
  }

  static void print_clusters() {
    TextTable table({"cluster", "what it is", "devices", "memory"}, 2);
    for (const ClusterPreset& preset : cluster_presets()) {
      const Cluster cluster = *make_cluster_preset(preset.name);
      table.add({std::string(preset.name), std::string(preset.summary),
                 std::to_string(cluster.devices()), text_of(cluster.device.memory)});
    }
    table.print(std::cout, colour_on_stdout());
  }

  void print_json() const {
    nlohmann::ordered_json json{{"format", "parplan/presets"}, {"version", 1}};
    if (what_ != "clusters") {
      nlohmann::ordered_json models = nlohmann::ordered_json::array();
      for (const ModelPreset& preset : model_presets()) {
        models.push_back({{"name", preset.name},
                          {"summary", preset.summary},
                          {"parameters", make_preset(preset.name)->parameter_count()},
                          {"sequence", preset.sequence}});
      }
      json["models"] = std::move(models);
    }
    if (what_ != "models") {
      nlohmann::ordered_json clusters = nlohmann::ordered_json::array();
      for (const ClusterPreset& preset : cluster_presets()) {
        clusters.push_back({{"name", preset.name},
                            {"summary", preset.summary},
                            {"devices", make_cluster_preset(preset.name)->devices()}});
      }
      json["clusters"] = std::move(clusters);
    }
    std::cout << dump(json);
  }

  CLI::App& app_;
  std::string what_;
  OutputFormat format_ = OutputFormat::kText;
};

}  // namespace

std::unique_ptr<Command> make_presets(CLI::App& parent) {
  return std::make_unique<Presets>(parent);
}

}  // namespace parplan::tools
