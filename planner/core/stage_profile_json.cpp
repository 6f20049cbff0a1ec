#include "planner/core/stage_profile_json.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/fields.hpp"

namespace espalier {
namespace {

struct UnitFigure {
  const char* name;
  double UnitProfile::*value;
};
constexpr UnitFigure kUnitFigures[] = {{"forward_ms", &UnitProfile::forward},
                                       {"backward_ms", &UnitProfile::backward},
                                       {"weight_gradient_ms", &UnitProfile::weight_gradient},
                                       {"optimizer_ms", &UnitProfile::optimizer},
                                       {"spread", &UnitProfile::spread},
                                       {"weight_bytes", &UnitProfile::weight_bytes},
                                       {"state_bytes", &UnitProfile::state_bytes},
                                       {"gradient_bytes", &UnitProfile::gradient_bytes},
                                       {"accumulator_bytes", &UnitProfile::accumulator_bytes},
                                       {"held_bytes", &UnitProfile::held_bytes},
                                       {"pending_bytes", &UnitProfile::pending_bytes},
                                       {"working_bytes", &UnitProfile::working_bytes}};
struct StageFigure {
  const char* name;
  double StageProfile::*value;
};
constexpr StageFigure kStageFigures[] = {{"input_bytes", &StageProfile::input_bytes},
                                         {"output_bytes", &StageProfile::output_bytes},
                                         {"boundary_bytes_per_sample", &StageProfile::boundary_bytes},
                                         {"tied_bytes", &StageProfile::tied_bytes},
                                         {"static_bytes", &StageProfile::static_bytes},
                                         {"peak_bytes", &StageProfile::peak_bytes},
                                         {"device_seconds", &StageProfile::device_seconds}};
// Of all units; they follow from `units`.
struct Total {
  const char* name;
  double UnitProfile::*value;
};
constexpr Total kTotals[] = {{"forward_ms", &UnitProfile::forward},
                             {"backward_ms", &UnitProfile::backward},
                             {"weight_gradient_ms", &UnitProfile::weight_gradient},
                             {"optimizer_ms", &UnitProfile::optimizer}};

constexpr int kMostUnits = 1 << 20;  // no model has as many layers; sums of counts must not overflow

double figure(const Fields& fields, const std::string& what, const char* name) {
  double value = 0;
  fields.get(name, value);
  if (!std::isfinite(value) || value < 0) throw Error(what + "." + name + ": must be finite and not negative");
  return value;
}

Json sums_json(const AbsentSums& sums) { return {{"count", sums.count}, {"bytes", sums.bytes}}; }

AbsentSums sums_from(const Fields& unit, const char* name) {
  const std::string what = std::string("stage profile.units.") + name;
  Json json;
  unit.get(name, json);
  const Fields fields(json, what, {"count", "bytes"});
  AbsentSums sums;
  fields.get("count", sums.count);
  if (sums.count < 0) throw Error(what + ".count: must not be negative");
  sums.bytes = figure(fields, what, "bytes");
  return sums;
}

Json unit_json(const UnitProfile& unit) {
  Json json{{"kind", to_string(unit.kind)},
            {"count", unit.count},
            {"forward_sums", sums_json(unit.forward_sums)},
            {"backward_sums", sums_json(unit.backward_sums)}};
  for (const UnitFigure& one : kUnitFigures) json[one.name] = unit.*one.value;
  return json;
}

UnitProfile unit_from(const Json& json) {
  const std::string what = "stage profile.units";
  const Fields fields(json, what,
                      {"kind", "count", "forward_sums", "backward_sums", "forward_ms", "backward_ms",
                       "weight_gradient_ms", "optimizer_ms", "spread", "weight_bytes", "state_bytes", "gradient_bytes",
                       "accumulator_bytes", "held_bytes", "pending_bytes", "working_bytes"});
  UnitProfile unit;
  std::string kind;
  fields.get("kind", kind);
  const auto found =
      std::find_if(std::begin(kUnitKinds), std::end(kUnitKinds), [&](UnitKind one) { return to_string(one) == kind; });
  if (found == std::end(kUnitKinds))
    throw Error(what + ".kind: is \"" + kind + "\"; known are embedding, block and head");
  unit.kind = *found;
  fields.get("count", unit.count);
  if (unit.count < 0 || unit.count > kMostUnits)
    throw Error(what + ".count: must be between 0 and " + std::to_string(kMostUnits));
  unit.forward_sums = sums_from(fields, "forward_sums");
  unit.backward_sums = sums_from(fields, "backward_sums");
  for (const UnitFigure& one : kUnitFigures) unit.*one.value = figure(fields, what, one.name);
  return unit;
}

// The units that the plan gives the stage: a figure for each kind, and as many as the plan has.
void check_units(const StageProfile& profile) {
  const auto chunks = profile.plan.model_chunks();
  for (const UnitKind kind : kUnitKinds) {
    int count = kind == UnitKind::block ? profile.plan.stages[static_cast<std::size_t>(profile.stage)].layers
                : (kind == UnitKind::embedding ? chunks.front() : chunks.back()).stage == profile.stage ? 1
                                                                                                        : 0;
    for (const UnitProfile& unit : profile.units)
      if (unit.kind == kind) count -= unit.count;
    const auto entries = std::count_if(profile.units.begin(), profile.units.end(),
                                       [kind](const UnitProfile& unit) { return unit.kind == kind; });
    if (count != 0 || entries > 1)
      throw Error("stage profile.units: are not those of stage " + std::to_string(profile.stage) + " of its plan (" +
                  to_string(kind) + ")");
  }
}

}  // namespace

Json stage_profile_json(const StageProfile& profile) {
  Json json{{"plan", profile.plan},           {"stage", profile.stage},
            {"replica", profile.replica},     {"shape", profile.shape},
            {"recompute", profile.recompute}, {"zero1", profile.zero1},
            {"units", Json::array()},         {"warmup", profile.warmup},
            {"steps", profile.steps},         {"not_measured", profile.not_measured}};
  for (const StageFigure& one : kStageFigures) json[one.name] = profile.*one.value;
  Json& totals = json["totals"] = Json::object();
  for (const Total& total : kTotals) {
    double sum = 0;
    for (const UnitProfile& unit : profile.units) sum += unit.count * unit.*total.value;
    totals[total.name] = sum;
  }
  for (const UnitProfile& unit : profile.units) json["units"].push_back(unit_json(unit));
  return json;
}

// The sums of a hostile plan's numbers would overflow.
static void bound(const Plan& plan) {
  constexpr std::int64_t kMost = 1 << 30;
  std::int64_t sum = std::abs(static_cast<std::int64_t>(plan.global_batch));
  for (const Stage& stage : plan.stages) {
    sum += std::abs(static_cast<std::int64_t>(stage.layers)) + std::abs(static_cast<std::int64_t>(stage.tp));
    for (const Replica& replica : stage.replicas) sum += std::abs(static_cast<std::int64_t>(replica.share));
  }
  for (const Chunk& chunk : plan.chunks) sum += std::abs(static_cast<std::int64_t>(chunk.layers));
  if (sum > kMost || std::abs(static_cast<std::int64_t>(plan.micro_batches)) > kMost)
    throw Error("stage profile.plan: its numbers are larger than those of any plan");
}

StageProfile stage_profile_from(const Json& json) {
  const std::string what = "stage profile";
  const Fields fields(json, what,
                      {"plan", "stage", "replica", "shape", "recompute", "zero1", "units", "warmup", "steps",
                       "not_measured", "totals", "input_bytes", "output_bytes", "boundary_bytes_per_sample",
                       "tied_bytes", "static_bytes", "peak_bytes", "device_seconds"});
  StageProfile profile;
  fields.get("plan", profile.plan);
  fields.get("stage", profile.stage);
  fields.get("replica", profile.replica);
  fields.get("shape", profile.shape);
  fields.get("recompute", profile.recompute);
  fields.get("zero1", profile.zero1);
  fields.get("warmup", profile.warmup);
  fields.get("steps", profile.steps);
  fields.get("not_measured", profile.not_measured);
  for (const StageFigure& one : kStageFigures) profile.*one.value = figure(fields, what, one.name);
  Json units;
  fields.get("units", units);
  if (!units.is_array()) throw Error("stage profile.units: must be a list");
  for (const Json& one : units) profile.units.push_back(unit_from(one));
  bound(profile.plan);
  if (const auto broken = validate(profile.plan); !broken.empty()) throw Error("stage profile.plan: " + broken.front());
  must_agree({profile});
  check_units(profile);
  return profile;
}

}  // namespace espalier
