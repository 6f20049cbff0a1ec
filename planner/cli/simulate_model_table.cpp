#include "planner/cli/simulate_model_table.hpp"

#include "planner/core/error.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/published_models.hpp"
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

sim::JobKind read_kind(const std::string& path, const toml::value& table, const Site& site) {
  sim::JobKind kind;
  std::string size;
  int batch = 0, sequence = 0;
  sim::Assumed assumed;
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
                         {"zero1", wire::toml_truth(path, "jobs.zero1", assumed.zero1)}},
                        kManual);
  for (const char* key : {"model", "size", "pp", "dp", "tp", "global_batch"})
    if (table.as_table().count(key) == 0)
      wire::fail_toml(path, table, std::string("jobs.") + key,
                      "missing; a kind needs model, size, pp, dp, tp and global_batch");
  try {
    kind.shape = published_model(kind.model);
  } catch (const Error& error) {
    wire::fail_toml(path, table.as_table().at("model"), "jobs.model", error.what());
  }
  kind.size = size_of(size);
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
        if (auto made = sim::tuned(kind, site, cluster)) kinds.push_back(std::move(*made));
        else
          notes.push_back(kind.model + ": the cluster is too small for its " + std::to_string(kind.gpus()) + " GPUs");
      } catch (const Error& error) {
        wire::fail_toml(path, table, "jobs", error.what());
      }
    }
  }
  if (kinds.empty()) throw Error(path + ": jobs: none that the cluster can hold; describe them by [[jobs]]");
  return kinds;
}

}  // namespace espalier::cli
