#include "planner/cli/simulate_model_table.hpp"

#include <filesystem>
#include <fstream>

#include "planner/core/coefficients_json.hpp"
#include "planner/core/counted.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/published_models.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/sim/paper_jobs.hpp"
#include "planner/wire/toml_keys.hpp"

namespace espalier::cli {
namespace {

constexpr const char* kManual = "espalier-simulate(1)";

sim::JobSize size_of(const std::string& name) {
  return name == "S"   ? sim::JobSize::S
         : name == "M" ? sim::JobSize::M
         : name == "L" ? sim::JobSize::L
                       : sim::JobSize::XL;
}

// Takes the output of `espalier show job ID --json`: the model, its measured coefficients, and the
// options of its start.
void take_measured(const Json& job, const Site& site, sim::JobKind& kind) {
  if (job.at("coefficients").is_null()) throw Error("no coefficients: the job was never profiled");
  kind.coefficients = coefficients_from(job.at("coefficients"), site.hardware);
  job.at("model").get_to(kind.shape);
  kind.micro_batches = kind.shape.micro_batches;
  kind.max_gpus = job.at("max_gpus").get<int>();
  kind.accuracy = accuracy_from(job.at("accuracy").get<std::string>());
  if (kind.pp == 0) {
    for (const Json& held : job.at("anchor")) kind.pp += static_cast<int>(held.at("gpus").size());
    kind.pp /= kind.dp * kind.tp;
  }
  if (kind.shape.layers != kind.coefficients.layers || kind.shape.global_batch != kind.coefficients.global_batch ||
      kind.micro_batches < 1 || kind.pp < 1)
    throw Error("its model, plan and coefficients do not fit each other");
}

void read_measured(const std::string& path, const toml::value& table, const Site& site, const std::string& relative,
                   sim::JobKind& kind) {
  const toml::value& at = table.as_table().at("measured");
  for (const char* key : {"global_batch", "sequence", "utilization", "recompute", "zero1"})
    if (table.as_table().count(key) > 0)
      wire::fail_toml(path, table.as_table().at(key), std::string("jobs.") + key,
                      "not beside measured, which tells it");
  const std::string file = (std::filesystem::path(path).parent_path() / relative).string();
  std::ifstream in = open_input(file);
  if (!in) wire::fail_toml(path, at, "jobs.measured", file + " cannot be read");
  std::string problem;
  try {
    return take_measured(parse_json(in).at("job"), site, kind);
  } catch (const Json::exception& error) {
    problem = std::string("is not what `espalier show job ID --json` prints: ") + error.what();
  } catch (const Error& error) {
    problem = error.what();
  }
  wire::fail_toml(path, at, "jobs.measured", file + ": " + problem);
}

sim::JobKind read_kind(const std::string& path, const toml::value& table, const Site& site) {
  sim::JobKind kind;
  std::string size, measured, accuracy;
  int batch = 0, sequence = 0, max_gpus = 0;
  sim::Assumed assumed;
  const bool is_measured = table.is_table() && table.as_table().count("measured") > 0;
  if (is_measured) kind.pp = 0;  // 0: follows from the number of its GPUs
  wire::read_toml_table(path, "jobs", table,
                        {{"model", wire::toml_text(path, "jobs.model", kind.model, false)},
                         {"size", wire::toml_one_of(path, "jobs.size", size, {"S", "M", "L", "XL"})},
                         {"pp", wire::toml_whole(path, "jobs.pp", kind.pp, 1, 128)},
                         {"dp", wire::toml_whole(path, "jobs.dp", kind.dp, 1, 1 << 16)},
                         {"tp", wire::toml_whole(path, "jobs.tp", kind.tp, 1, 256)},
                         {"global_batch", wire::toml_whole(path, "jobs.global_batch", batch, 1, 1 << 20)},
                         {"sequence", wire::toml_whole(path, "jobs.sequence", sequence, 1, 1 << 24)},
                         {"utilization", wire::toml_real(path, "jobs.utilization", assumed.utilization, 0.001, 1)},
                         {"recompute", wire::toml_truth(path, "jobs.recompute", assumed.recompute)},
                         {"zero1", wire::toml_truth(path, "jobs.zero1", assumed.zero1)},
                         {"max_gpus", wire::toml_whole(path, "jobs.max_gpus", max_gpus, 1, 1 << 20)},
                         {"accuracy", wire::toml_one_of(path, "jobs.accuracy", accuracy, {"bitwise", "relaxed"})},
                         {"measured", wire::toml_text(path, "jobs.measured", measured, false)}},
                        kManual);
  if (is_measured && table.as_table().count("model") == 0)
    wire::fail_toml(path, table, "jobs.model", "missing; give it the name that the trace has for it");
  for (const char* key : {"model", "size", "pp", "dp", "tp", "global_batch"})
    if (!is_measured && table.as_table().count(key) == 0)
      wire::fail_toml(path, table, std::string("jobs.") + key,
                      "missing; a kind needs model, size, pp, dp, tp and global_batch");
  if (!size.empty()) kind.size = size_of(size);
  if (is_measured) read_measured(path, table, site, measured, kind);
  if (max_gpus > 0) kind.max_gpus = max_gpus;
  if (!accuracy.empty()) kind.accuracy = accuracy_from(accuracy);
  if (is_measured) return kind;
  try {
    kind.shape = published_model(kind.model);
  } catch (const Error& error) {
    wire::fail_toml(path, table.as_table().at("model"), "jobs.model", error.what());
  }
  kind.shape.global_batch = batch;
  if (sequence > 0) kind.shape.sequence = sequence;
  kind.coefficients = sim::assumed_coefficients(kind.shape, assumed, site.hardware);
  return kind;
}

}  // namespace

std::vector<sim::JobKind> read_model_table(const std::string& path, const Site& site, const ClusterView& cluster,
                                           std::vector<std::string>& notes) {
  const toml::value root = wire::parse_toml_file(path);
  std::vector<sim::JobKind> kinds;
  for (const auto& [section, content] : root.as_table()) {
    if (section != "jobs") wire::fail_toml(path, content, section, std::string("unknown table; see ") + kManual);
    if (!content.is_array()) wire::fail_toml(path, content, section, "must be a list of tables; write [[jobs]]");
    for (const toml::value& table : content.as_array()) {
      const sim::JobKind kind = read_kind(path, table, site);
      try {
        if (auto made = table.as_table().count("measured") > 0 ? sim::timed(kind, site, cluster)
                                                               : sim::tuned(kind, site, cluster))
          kinds.push_back(std::move(*made));
        else notes.push_back(kind.model + ": the cluster is too small for its " + counted(kind.gpus(), "GPU"));
      } catch (const Error& error) {
        wire::fail_toml(path, table, "jobs", error.what());
      }
    }
  }
  if (kinds.empty()) throw Error(path + ": jobs: none that the cluster can hold; describe them by [[jobs]]");
  return kinds;
}

}  // namespace espalier::cli
