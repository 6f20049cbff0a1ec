#include "planner/core/coefficients_json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "planner/core/fields.hpp"

namespace espalier {
namespace {

template <class Owner, class Value>
struct Named {
  const char* name;
  Value Owner::*value;
};

constexpr Named<JobCoefficients, double> kSizes[] = {{"activ_bytes", &JobCoefficients::activ_bytes},
                                                     {"param_bytes", &JobCoefficients::param_bytes},
                                                     {"param_optim_bytes", &JobCoefficients::param_optim_bytes},
                                                     {"weight_bytes", &JobCoefficients::weight_bytes},
                                                     {"activ_p_bytes", &JobCoefficients::activ_p_bytes},
                                                     {"activ_np_bytes", &JobCoefficients::activ_np_bytes},
                                                     {"tied_bytes", &JobCoefficients::tied_bytes},
                                                     {"deferred", &JobCoefficients::deferred}};
constexpr Named<JobCoefficients, bool> kFacts[] = {{"recompute", &JobCoefficients::recompute},
                                                   {"zero1", &JobCoefficients::zero1},
                                                   {"boundary_assumed", &JobCoefficients::boundary_assumed},
                                                   {"memory_assumed", &JobCoefficients::memory_assumed}};
// Absent in older records.
constexpr Named<JobCoefficients, double> kAddedLater[] = {{"sync_beyond", &JobCoefficients::sync_beyond},
                                                          {"rail_ms_per_byte", &JobCoefficients::rail_ms_per_byte},
                                                          {"fixed_samples", &JobCoefficients::fixed_samples},
                                                          {"traffic_per_flop", &JobCoefficients::traffic_per_flop}};
constexpr Named<EdgeCoefficients, double> kEdge[] = {{"compute_layers", &EdgeCoefficients::compute_layers},
                                                     {"param_bytes", &EdgeCoefficients::param_bytes},
                                                     {"param_optim_bytes", &EdgeCoefficients::param_optim_bytes},
                                                     {"activation_bytes", &EdgeCoefficients::activation_bytes}};
constexpr Named<GpuCoefficients, double> kTimes[] = {{"comp", &GpuCoefficients::comp},
                                                     {"backward", &GpuCoefficients::backward},
                                                     {"optim", &GpuCoefficients::optim},
                                                     {"overlap", &GpuCoefficients::overlap}};
constexpr Named<GpuCoefficients, bool> kAssumed[] = {{"assumed_comp", &GpuCoefficients::assumed_comp},
                                                     {"assumed_backward", &GpuCoefficients::assumed_backward},
                                                     {"assumed_optim", &GpuCoefficients::assumed_optim},
                                                     {"assumed_overlap", &GpuCoefficients::assumed_overlap}};

template <class Owner, class Value, std::size_t count>
void put(Json& json, const Owner& owner, const Named<Owner, Value> (&fields)[count]) {
  for (const auto& field : fields) json[field.name] = owner.*field.value;
}

// Upper limit of a coefficient. Products and sums of such values, as plans form them, stay finite.
constexpr double kMost = 1e30;

template <class Owner, std::size_t count>
void take(const Fields& from, const std::string& what, Owner& owner, const Named<Owner, double> (&fields)[count]) {
  for (const auto& field : fields) {
    double& value = owner.*field.value;
    from.get(field.name, value);
    if (!(value >= 0 && value <= kMost)) throw Error(what + "." + field.name + ": must be finite and not negative");
  }
}
template <class Owner, std::size_t count>
void take(const Fields& from, Owner& owner, const Named<Owner, bool> (&fields)[count]) {
  for (const auto& field : fields) from.get(field.name, owner.*field.value);
}

EdgeCoefficients edge_from(const Json& json, const std::string& what) {
  const Fields fields(json, what,
                      {"compute_layers", "param_bytes", "param_optim_bytes", "activation_bytes", "assumed_compute"});
  EdgeCoefficients edge;
  take(fields, what, edge, kEdge);
  fields.get("assumed_compute", edge.assumed_compute);
  return edge;
}

GpuCoefficients gpu_from(const Json& json, const std::string& what) {
  const Fields fields(
      json, what,
      {"comp", "backward", "optim", "overlap", "assumed_comp", "assumed_backward", "assumed_optim", "assumed_overlap"});
  GpuCoefficients gpu;
  take(fields, what, gpu, kTimes);
  take(fields, gpu, kAssumed);
  if (gpu.comp <= 0) throw Error(what + ".comp: must be above zero");
  if (gpu.overlap < 1) throw Error(what + ".overlap: must be at least 1");
  return gpu;
}

// {"2": 1.0, "4": 1.1}
std::vector<DegreeFactor> degree_factors_from(const Fields& fields, const std::string& what) {
  Json table;
  fields.get("degree_factors", table);
  if (!table.is_object()) throw Error(what + ": must be a JSON object");
  std::vector<DegreeFactor> factors;
  for (const auto& [degree, factor] : table.items()) {
    DegreeFactor one;
    const auto read = std::from_chars(degree.data(), degree.data() + degree.size(), one.tp);
    if (read.ec != std::errc() || read.ptr != degree.data() + degree.size() || one.tp < 1)
      throw Error(what + ": \"" + degree + "\" is no number of GPUs");
    if (!factor.is_number() || !((one.factor = factor.get<double>()) > 0 && one.factor <= kMost))
      throw Error(what + "." + degree + ": must be finite and above zero");
    factors.push_back(one);
  }
  std::sort(factors.begin(), factors.end(), [](const auto& a, const auto& b) { return a.tp < b.tp; });
  return factors;
}

}  // namespace

Json coefficients_json(const JobCoefficients& job, const Hardware& hardware) {
  Json json{{"layers", job.layers}, {"global_batch", job.global_batch}, {"tp_degrees", job.tp_degrees}};
  put(json, job, kSizes);
  put(json, job, kFacts);
  if (job.boundary_tensors != 1) json["boundary_tensors"] = job.boundary_tensors;
  if (job.sync_beyond > 0) json["sync_beyond"] = job.sync_beyond;
  if (job.integer_sums) json["integer_sums"] = true;
  if (job.sums_by_unit) json["sums_by_unit"] = true;
  if (job.fixed_samples > 0) json["fixed_samples"] = job.fixed_samples;
  if (job.traffic_per_flop > 0) json["traffic_per_flop"] = job.traffic_per_flop;
  if (!job.assumed_rail || job.rail_ms_per_byte > 0) {
    json["rail_ms_per_byte"] = job.rail_ms_per_byte;
    json["assumed_rail"] = job.assumed_rail;
  }
  for (const DegreeFactor& one : job.degree_factors) json["degree_factors"][std::to_string(one.tp)] = one.factor;
  for (const auto& [name, edge] : {std::pair("first", &job.first), std::pair("last", &job.last)}) {
    put(json[name], *edge, kEdge);
    json[name]["assumed_compute"] = edge->assumed_compute;
  }
  json["gpu"] = Json::object();
  for (std::size_t t = 0; t < job.gpu.size(); ++t) {
    Json& gpu = json["gpu"][hardware.types.at(t).name];
    put(gpu, job.gpu[t], kTimes);
    put(gpu, job.gpu[t], kAssumed);
  }
  return json;
}

JobCoefficients coefficients_from(const Json& json, const Hardware& hardware) {
  const std::string what = "coefficients";
  const Fields fields(json, what,
                      {"layers",
                       "global_batch",
                       "tp_degrees",
                       "activ_bytes",
                       "param_bytes",
                       "param_optim_bytes",
                       "weight_bytes",
                       "activ_p_bytes",
                       "activ_np_bytes",
                       "tied_bytes",
                       "deferred",
                       "recompute",
                       "zero1",
                       "boundary_assumed",
                       "memory_assumed",
                       "boundary_tensors",
                       "degree_factors",
                       "first",
                       "last",
                       "gpu",
                       "sync_beyond",
                       "rail_ms_per_byte",
                       "assumed_rail",
                       "fixed_samples",
                       "integer_sums",
                       "sums_by_unit",
                       "traffic_per_flop"});
  JobCoefficients job;
  fields.get("layers", job.layers);
  fields.get("global_batch", job.global_batch);
  if (job.layers < 1 || job.global_batch < 1) throw Error(what + ": layers and global_batch must be above zero");
  fields.get("tp_degrees", job.tp_degrees);
  if (job.tp_degrees.empty()) throw Error(what + ".tp_degrees: must hold at least one");
  take(fields, what, job, kSizes);
  if (job.deferred > 1) throw Error(what + ".deferred: must be at most 1");
  take(fields, job, kFacts);
  for (const auto& [name, value] : kAddedLater) {
    if (!fields.has(name)) continue;
    fields.get(name, job.*value);
    if (!(job.*value >= 0 && job.*value <= kMost)) throw Error(what + "." + name + ": must be finite and not negative");
  }
  if (fields.has("integer_sums")) fields.get("integer_sums", job.integer_sums);
  if (fields.has("sums_by_unit")) fields.get("sums_by_unit", job.sums_by_unit);
  if (fields.has("assumed_rail")) fields.get("assumed_rail", job.assumed_rail);
  if (fields.has("boundary_tensors")) {  // added later
    fields.get("boundary_tensors", job.boundary_tensors);
    if (!(job.boundary_tensors >= 1 && job.boundary_tensors <= 2))
      throw Error(what + ".boundary_tensors: must lie between 1 and 2");
  }
  if (fields.has("degree_factors")) job.degree_factors = degree_factors_from(fields, what + ".degree_factors");
  Json part;
  fields.get("first", part);
  job.first = edge_from(part, what + ".first");
  fields.get("last", part);
  job.last = edge_from(part, what + ".last");
  fields.get("gpu", part);
  if (!part.is_object()) throw Error(what + ".gpu: must be a JSON object");
  for (const GpuType& type : hardware.types) {
    const auto found = part.find(type.name);
    if (found == part.end()) throw Error(what + ".gpu: nothing of type \"" + type.name + "\", which the cluster has");
    job.gpu.push_back(gpu_from(*found, what + ".gpu." + type.name));
  }
  return job;
}

}  // namespace espalier
