#include "planner/core/flat_profile.hpp"

#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"

namespace espalier {

void to_json(Json& json, const FlatProfile& profile) {
  json = {{"step", profile.step},
          {"steps", profile.steps},
          {"compute_ms", profile.compute_ms},
          {"rest_ms", profile.rest_ms},
          {"gradient_bytes", profile.gradient_bytes},
          {"weight_bytes", profile.weight_bytes},
          {"state_bytes", profile.state_bytes},
          {"peak_bytes", profile.peak_bytes},
          {"spread", profile.spread}};
  if (profile.sync_ms) json["sync_ms"] = *profile.sync_ms;
}

void from_json(const Json& json, FlatProfile& profile) {
  const Fields fields(json, "profile.flat");
  fields.get("step", profile.step);
  fields.get("steps", profile.steps);
  fields.get("compute_ms", profile.compute_ms);
  profile.sync_ms.reset();
  if (fields.has("sync_ms")) fields.get("sync_ms", profile.sync_ms.emplace());
  fields.get("rest_ms", profile.rest_ms);
  fields.get("gradient_bytes", profile.gradient_bytes);
  fields.get("weight_bytes", profile.weight_bytes);
  fields.get("state_bytes", profile.state_bytes);
  fields.get("peak_bytes", profile.peak_bytes);
  fields.get("spread", profile.spread);
}

Profile profile_of(const FlatProfile& flat, const Plan& plan, const ModelShape& shape) {
  if (plan.stages.size() != 1 || plan.stages.front().replicas.size() != flat.compute_ms.size())
    throw Error("profile.flat: it tells of " + std::to_string(flat.compute_ms.size()) +
                " replicas, which is not what the plan has");
  Profile profile;
  profile.plan = plan;
  profile.shape = shape;
  profile.step = flat.step;
  profile.steps = flat.steps;
  for (std::size_t i = 0; i < flat.compute_ms.size(); ++i) {
    ReplicaProfile one;
    one.replica = static_cast<int>(i);
    one.fwd = flat.compute_ms[i] / 3;
    one.bwd = flat.compute_ms[i] * 2 / 3;
    one.optim = flat.rest_ms;
    if (flat.compute_ms.size() > 1) one.sync = flat.sync_ms;
    one.gradient_bytes = flat.gradient_bytes;
    one.weight_bytes = flat.weight_bytes;
    one.state_bytes = flat.state_bytes;
    one.peak_bytes = flat.peak_bytes;
    one.spread = flat.spread;
    profile.replicas.push_back(one);
  }
  return profile;
}

}  // namespace espalier
