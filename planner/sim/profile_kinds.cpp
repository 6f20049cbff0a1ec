#include "planner/sim/profile_kinds.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include "planner/core/error.hpp"
#include "planner/core/grid/gpu_pools.hpp"
#include "planner/sim/traces/rows.hpp"

namespace espalier::sim {
namespace {

// The unit of a plan's layers. The table does not tell how its plans split a model.
constexpr int kLayers = 16;
constexpr double kStateBytes = 16;  // per parameter: mixed precision and Adam

struct Measured {
  double fastest = 0, data_parallel = 0;
  bool replicas_fit = false;
};

// One row's place: model, batch; type, GPUs, GPUs of a node.
struct Model {
  std::string name;
  double parameters = 0;
  int batch = 0;
  std::map<std::tuple<int, int, int>, Measured> times;
};

// "1.3B", "760M"
double parameters(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end + 1 != text.data() + text.size() || (*end != 'B' && *end != 'M') || value <= 0)
    throw Damage("params \"" + text + "\" is no size; write 1.3B or 760M");
  return value * (*end == 'B' ? 1e9 : 1e6);
}

void read_row(const Row& row, const Hardware& hardware, std::map<std::string, Model>& models) {
  const int type = hardware.type_index(row.text("gpu_type"));
  const bool best = row.text("source") == "alpa_optimal";
  const bool replicas = row.text("source") == "arena_estimate" && row.text("is_dp_only") == "1";
  if (type < 0 || (!best && !replicas)) return;
  const std::string name = row.text("model") + "-" + row.text("params") + "-" + row.text("global_batch");
  Model& model = models[name];
  model.name = name;
  model.parameters = parameters(row.text("params"));
  model.batch = row.count("global_batch");
  const int gpus = row.count("num_gpus"), per_node = row.count("gpus_per_node");
  if (model.batch < 1 || gpus < 1 || per_node < 1 || gpus > model.batch)
    throw Damage("global_batch, num_gpus and gpus_per_node must be above zero, and each GPU needs a sample");
  if (row.text("feasible") != "1") return;
  Measured& at = model.times[{type, gpus, per_node}];
  const double seconds = row.positive("iter_time_s");
  if (best) {
    at.fastest = seconds;
    at.replicas_fit = row.text("dp_mem_ok") == "1";
  } else {
    at.data_parallel = seconds;
  }
}

JobKind kind_of(const Model& model, std::shared_ptr<const SpeedTable> table, int gpus, const Site& site) {
  JobKind kind;
  kind.model = model.name;
  kind.dp = gpus;
  kind.shape.family = "measured";
  kind.shape.layers = kLayers;
  kind.shape.global_batch = model.batch;
  kind.shape.micro_batches = 1;
  JobCoefficients& sizes = kind.coefficients;
  sizes.layers = kLayers;
  sizes.global_batch = model.batch;
  sizes.param_optim_bytes = kStateBytes * model.parameters / kLayers;
  sizes.gpu.assign(site.hardware.types.size(), {});
  for (GpuCoefficients& gpu : sizes.gpu) gpu.comp = 1;
  kind.measured = std::move(table);
  return kind;
}

}  // namespace

std::vector<JobKind> profile_kinds(const std::string& text, const Site& site, const ClusterView& cluster) {
  static const std::array kNeeded{"source",        "model",      "params",   "global_batch", "gpu_type", "num_gpus",
                                  "gpus_per_node", "is_dp_only", "feasible", "iter_time_s",  "dp_mem_ok"};
  std::istringstream lines(text);
  std::string line;
  // A table may have been written on Windows.
  const auto next_line = [&] {
    if (!std::getline(lines, line)) return false;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return true;
  };
  next_line();
  std::map<std::string, std::size_t> columns;
  const auto names = split(line, ',');
  for (std::size_t c = 0; c < names.size(); ++c) columns[names[c]] = c;
  for (const char* name : kNeeded)
    if (!columns.contains(name)) throw Error(std::string("line 1: no column ") + name + "; see espalier-simulate(1)");
  std::map<std::string, Model> models;
  for (long number = 2; next_line(); ++number) {
    if (line.empty()) continue;
    auto fields = split(line, ',');
    try {
      if (fields.size() != names.size()) throw Damage("has " + std::to_string(fields.size()) + " fields");
      read_row(Row(columns, std::move(fields)), site.hardware, models);
    } catch (const Damage& damage) {
      throw Error("line " + std::to_string(number) + ": " + damage.what());
    }
  }
  std::vector<JobKind> kinds;
  const auto pools = gpu_pools(cluster, site);
  for (const auto& [name, model] : models) {
    const auto table = std::make_shared<SpeedTable>();
    std::set<int> counts;
    for (const auto& [where, at] : model.times) {
      const auto& [type, gpus, per_node] = where;
      if (at.fastest <= 0) continue;
      const double replicas = !at.replicas_fit ? 0 : at.data_parallel > 0 ? at.data_parallel : at.fastest;
      table->add(type, gpus, per_node, at.fastest, replicas);
      counts.insert(gpus);
    }
    for (const int gpus : counts) {
      JobKind kind = kind_of(model, table, gpus, site);
      for (const GpuPool& pool : pools) {
        const double seconds = table->seconds(pool.type, gpus, std::min(gpus, pool.node_gpus));
        if (seconds <= 0 || gpus > pool.gpus) continue;
        kind.on.push_back(
            {pool.type, site.hardware.types[static_cast<std::size_t>(pool.type)].name, 1, gpus, 1, 1, seconds});
      }
      if (kind.on.empty()) continue;
      std::stable_sort(kind.on.begin(), kind.on.end(),
                       [](const BasicPlan& a, const BasicPlan& b) { return a.step_seconds < b.step_seconds; });
      kind.step_seconds = kind.on.front().step_seconds;
      kinds.push_back(std::move(kind));
    }
  }
  if (kinds.empty()) throw Error("no row is of a GPU type of this cluster; name one of its types in gpu_type");
  return kinds;
}

}  // namespace espalier::sim
