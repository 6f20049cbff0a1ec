#include <cmath>

#include "planner/core/fields.hpp"
#include "planner/core/json.hpp"

namespace espalier {
namespace {

struct Figure {
  const char* name;
  double ReplicaProfile::*value;
};
constexpr Figure kFigures[] = {{"fwd", &ReplicaProfile::fwd},
                               {"comm_fwd", &ReplicaProfile::comm_fwd},
                               {"bwd", &ReplicaProfile::bwd},
                               {"bwd_weights", &ReplicaProfile::bwd_weights},
                               {"optim", &ReplicaProfile::optim},
                               {"gradient_bytes", &ReplicaProfile::gradient_bytes},
                               {"weight_bytes", &ReplicaProfile::weight_bytes},
                               {"state_bytes", &ReplicaProfile::state_bytes},
                               {"edge_gradient_bytes", &ReplicaProfile::edge_gradient_bytes},
                               {"edge_state_bytes", &ReplicaProfile::edge_state_bytes},
                               {"peak_bytes", &ReplicaProfile::peak_bytes}};

void check(const std::string& what, double value) {
  if (!std::isfinite(value) || value < 0) throw Error(what + ": must be finite and not negative");
}

Json to_json(const ReplicaProfile& one) {
  Json json{{"stage", one.stage}, {"replica", one.replica}};
  for (const Figure& figure : kFigures) json[figure.name] = one.*figure.value;
  json["sync"] = one.sync ? Json(*one.sync) : Json(nullptr);
  if (one.spread) json["spread"] = *one.spread;
  return json;
}

ReplicaProfile replica_from(const Json& json) {
  const Fields fields(
      json, "profile.replicas",
      {"stage", "replica", "fwd", "comm_fwd", "bwd", "bwd_weights", "optim", "sync", "gradient_bytes", "weight_bytes",
       "state_bytes", "edge_gradient_bytes", "edge_state_bytes", "peak_bytes", "spread"});
  ReplicaProfile one;
  fields.get("stage", one.stage);
  fields.get("replica", one.replica);
  for (const Figure& figure : kFigures) {
    fields.get(figure.name, one.*figure.value);
    check(std::string("profile.replicas.") + figure.name, one.*figure.value);
  }
  Json sync;
  fields.get("sync", sync);
  if (!sync.is_null()) {
    fields.get("sync", one.sync.emplace());
    check("profile.replicas.sync", *one.sync);
  }
  if (fields.has("spread")) {
    fields.get("spread", one.spread.emplace());
    check("profile.replicas.spread", *one.spread);
  }
  return one;
}

// As measured by a program; whether they can be is said by profile_check.hpp.
std::vector<LayerTime> layer_times_from(const Fields& profile) {
  Json list;
  profile.get("layer_times", list);
  if (!list.is_array()) throw Error("profile.layer_times: must be a list");
  std::vector<LayerTime> times;
  for (const Json& one : list) {
    const Fields fields(one, "profile.layer_times", {"tp", "samples", "ms"});
    LayerTime& time = times.emplace_back();
    fields.get("tp", time.tp);
    fields.get("samples", time.samples);
    fields.get("ms", time.ms);
    check("profile.layer_times.ms", time.ms);
  }
  return times;
}

EdgeTimes edge_times_from(const Json& json) {
  const Fields fields(json, "profile.edge_times", {"tp", "samples", "first_ms", "last_ms"});
  EdgeTimes times;
  fields.get("tp", times.tp);
  fields.get("samples", times.samples);
  fields.get("first_ms", times.first_ms);
  fields.get("last_ms", times.last_ms);
  check("profile.edge_times.first_ms", times.first_ms);
  check("profile.edge_times.last_ms", times.last_ms);
  return times;
}

}  // namespace

void to_json(Json& json, const Profile& profile) {
  json = {{"plan", profile.plan},
          {"shape", profile.shape},
          {"boundary_bytes", profile.boundary_bytes},
          {"recompute", profile.recompute},
          {"zero1", profile.zero1},
          {"replicas", Json::array()},
          {"step", profile.step}};
  if (profile.steps != 0) json["steps"] = profile.steps;
  if (!profile.driver.empty()) json["driver"] = profile.driver;
  for (const LayerTime& one : profile.layer_times)
    json["layer_times"].push_back({{"tp", one.tp}, {"samples", one.samples}, {"ms", one.ms}});
  if (const auto& ends = profile.edge_times)
    json["edge_times"] = {
        {"tp", ends->tp}, {"samples", ends->samples}, {"first_ms", ends->first_ms}, {"last_ms", ends->last_ms}};
  for (const ReplicaProfile& one : profile.replicas) json["replicas"].push_back(to_json(one));
}

void from_json(const Json& json, Profile& profile) {
  const Fields fields(json, "profile",
                      {"plan", "shape", "boundary_bytes", "recompute", "zero1", "replicas", "step", "steps", "driver",
                       "layer_times", "edge_times"});
  fields.get("plan", profile.plan);
  fields.get("shape", profile.shape);
  fields.get("boundary_bytes", profile.boundary_bytes);
  check("profile.boundary_bytes", profile.boundary_bytes);
  fields.get("recompute", profile.recompute);
  fields.get("zero1", profile.zero1);
  fields.get("step", profile.step);
  profile.steps = 0;
  if (fields.has("steps")) fields.get("steps", profile.steps);
  profile.driver.clear();
  if (fields.has("driver")) fields.get("driver", profile.driver);
  profile.layer_times.clear();
  if (fields.has("layer_times")) profile.layer_times = layer_times_from(fields);
  profile.edge_times.reset();
  if (fields.has("edge_times")) {
    Json ends;
    fields.get("edge_times", ends);
    profile.edge_times = edge_times_from(ends);
  }
  Json list;
  fields.get("replicas", list);
  if (!list.is_array()) throw Error("profile.replicas: must be a list");
  profile.replicas.clear();
  for (const Json& one : list) profile.replicas.push_back(replica_from(one));
}

}  // namespace espalier
