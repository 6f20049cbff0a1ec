#include "planner/core/schedule/planning_basis.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/cluster.hpp"
#include "planner/core/coefficients_json.hpp"
#include "planner/core/fields.hpp"
#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/job_site.hpp"

namespace espalier {
namespace {

constexpr std::size_t kMostNames = 1 << 16;
constexpr double kMost = 1e30;

double positive(const Fields& fields, const char* name) {
  double value = 0;
  fields.get(name, value);
  if (!(value > 0 && value <= kMost)) throw Error(std::string("basis.") + name + ": must be finite and above zero");
  return value;
}

double not_negative(const Fields& fields, const char* name) {
  double value = 0;
  fields.get(name, value);
  if (!(value >= 0 && value <= kMost)) throw Error(std::string("basis.") + name + ": must be finite and not negative");
  return value;
}

std::vector<Json> list_of(const Fields& fields, const char* name) {
  Json list;
  fields.get(name, list);
  if (!list.is_array() || list.size() > kMostNames) throw Error(std::string("basis.") + name + ": must be a list");
  return list.get<std::vector<Json>>();
}

GpuType type_from(const Json& json) {
  const Fields fields(json, "basis.type", {"name", "tflops", "memory_bytes", "memory_bandwidth"});
  GpuType type;
  fields.get("name", type.name);
  type.tflops = positive(fields, "tflops");
  type.memory_bytes = positive(fields, "memory_bytes");
  type.memory_bandwidth = not_negative(fields, "memory_bandwidth");
  return type;
}

NodeKind kind_from(const Json& json) {
  const Fields fields(json, "basis.kind", {"tp_bandwidth", "dp_bandwidth", "nic_bandwidth", "nics"});
  NodeKind kind;
  kind.tp_bandwidth = positive(fields, "tp_bandwidth");
  kind.dp_bandwidth = positive(fields, "dp_bandwidth");
  kind.nic_bandwidth = positive(fields, "nic_bandwidth");
  fields.get("nics", kind.nics);
  if (kind.nics < 0) throw Error("basis.nics: must not be negative");
  return kind;
}

// The switches above a node, from the root down. Their names do not matter, so they are numbers.
std::vector<std::string> switches_above(const Topology& topology, int node) {
  std::vector<std::string> path;
  for (int at = topology.leaf(node); at > 0; at = topology.parent(at)) path.push_back(std::to_string(at));
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

Json basis_json(const Site& site, const std::set<std::string>& nodes,
                const std::optional<JobCoefficients>& coefficients) {
  const Hardware& all = site.hardware;
  Json list = Json::array();
  Hardware used;
  std::vector<int> kind_of(all.kinds.size(), -1), type_of(all.types.size(), -1);
  JobCoefficients known = coefficients.value_or(JobCoefficients{});
  known.gpu.clear();
  for (const std::string& name : nodes) {
    const int node = site.topology.find(name);
    if (node < 0) continue;
    const auto kind = static_cast<std::size_t>(site.topology.kind(node));
    if (kind_of[kind] < 0) {
      kind_of[kind] = static_cast<int>(used.kinds.size());
      used.kinds.push_back(all.kinds[kind]);
    }
    std::vector<int> types;
    for (const std::int16_t type : site.topology.gpu_types(node)) {
      const auto index = static_cast<std::size_t>(type);
      if (type_of[index] < 0) {
        type_of[index] = static_cast<int>(used.types.size());
        used.types.push_back(all.types[index]);
        if (coefficients) known.gpu.push_back(coefficients->gpu.at(index));
      }
      types.push_back(type_of[index]);
    }
    list.push_back(
        {{"name", name}, {"kind", kind_of[kind]}, {"types", types}, {"switches", switches_above(site.topology, node)}});
  }
  Json json{{"types", Json::array()},
            {"kinds", Json::array()},
            {"nodes", std::move(list)},
            {"v0", all.v0},
            {"v_sat", all.v_sat},
            {"crossing", all.crossing},
            {"memory_share", all.memory_share},
            {"coefficients", nullptr}};
  for (const GpuType& type : used.types)
    json["types"].push_back({{"name", type.name},
                             {"tflops", type.tflops},
                             {"memory_bytes", type.memory_bytes},
                             {"memory_bandwidth", type.memory_bandwidth}});
  for (const NodeKind& kind : used.kinds)
    json["kinds"].push_back({{"tp_bandwidth", kind.tp_bandwidth},
                             {"dp_bandwidth", kind.dp_bandwidth},
                             {"nic_bandwidth", kind.nic_bandwidth},
                             {"nics", kind.nics}});
  if (coefficients) json["coefficients"] = coefficients_json(known, used);
  return json;
}

PlanningBasis basis_from(const Json& json) {
  const Fields fields(json, "basis",
                      {"types", "kinds", "nodes", "v0", "v_sat", "crossing", "memory_share", "coefficients"});
  PlanningBasis known;
  Hardware& hardware = known.site.hardware;
  hardware.v0 = positive(fields, "v0");
  hardware.v_sat = positive(fields, "v_sat");
  hardware.crossing = positive(fields, "crossing");
  hardware.memory_share = positive(fields, "memory_share");
  for (const Json& type : list_of(fields, "types")) hardware.types.push_back(type_from(type));
  for (const Json& kind : list_of(fields, "kinds")) hardware.kinds.push_back(kind_from(kind));
  for (const Json& node : list_of(fields, "nodes")) {
    const Fields one(node, "basis.node", {"name", "kind", "types", "switches"});
    std::string name;
    int kind = 0;
    std::vector<std::int16_t> types;
    std::vector<std::string> switches;
    one.get("name", name);
    one.get("kind", kind);
    one.get("types", types);
    one.get("switches", switches);
    if (kind < 0 || static_cast<std::size_t>(kind) >= hardware.kinds.size())
      throw Error("basis.node.kind: is none of the kinds");
    if (types.size() > static_cast<std::size_t>(kMostGpusOfNode) ||
        std::any_of(types.begin(), types.end(), [&](std::int16_t type) {
          return type < 0 || static_cast<std::size_t>(type) >= hardware.types.size();
        }))
      throw Error("basis.node.types: names no type");
    known.site.topology.add_node(name, kind, types, switches);
  }
  Json coefficients;
  fields.get("coefficients", coefficients);
  if (!coefficients.is_null()) known.coefficients = coefficients_from(coefficients, hardware);
  return known;
}

std::vector<Candidate> weighed_against(const PlanningBasis& known, const ElasticJob& job, const Plan& next) {
  const Site site = site_for(known.site, job);
  const auto coefficients = known.coefficients ? as_the_job_allows(*known.coefficients, job) : JobCoefficients{};
  const auto ms = [&](const Plan& plan) {
    if (!known.coefficients) return 0.0;
    for (const GpuId& gpu : plan.ranks()) {
      const int node = known.site.topology.find(gpu.node);
      if (node < 0 || static_cast<std::size_t>(gpu.index) >= known.site.topology.gpu_types(node).size()) return 0.0;
    }
    return evaluate_plan(site.hardware, site.topology, coefficients, plan).exact_ms;
  };
  std::vector<Candidate> weighed;
  const double now = job.plan ? ms(*job.plan) : 0, then = ms(next);
  const double scale = now > 0 && job.step_seconds > 0 ? job.step_seconds / now : 1e-3;
  if (job.plan) weighed.push_back({describe(*job.plan), 0, now * scale, 0, "its GPUs are taken"});
  weighed.push_back({describe(next), next.gpu_count() - (job.plan ? job.plan->gpu_count() : 0), then * scale, 0, {}});
  return weighed;
}

}  // namespace espalier
