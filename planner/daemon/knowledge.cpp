#include "planner/daemon/knowledge.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "planner/core/coefficients_json.hpp"
#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"
#include "planner/core/model/coefficient_window.hpp"
#include "planner/core/model/degree_factor.hpp"
#include "planner/core/model/roofline.hpp"
#include "planner/daemon/kept_coefficients.hpp"

namespace espalier {
namespace {

Json to_json(const Estimate& estimate) {
  return {{"count", estimate.count}, {"mean", estimate.mean}, {"variance", estimate.variance}};
}

Estimate estimate_from(const Json& json, const std::string& what) {
  const Fields fields(json, what, {"count", "mean", "variance"});
  Estimate estimate;
  fields.get("count", estimate.count);
  fields.get("mean", estimate.mean);
  fields.get("variance", estimate.variance);
  return estimate;
}

Json to_json(const StageProfiling& profiled) {
  return {{"job", profiled.job},
          {"stages", profiled.stages},
          {"device_seconds", profiled.device_seconds},
          {"plans", profiled.plans},
          {"foreseen", profiled.foreseen}};
}

StageProfiling profiling_from(const Json& json) {
  const Fields fields(json, "knowledge.profiled", {"job", "stages", "device_seconds", "plans", "foreseen"});
  StageProfiling profiled;
  fields.get("job", profiled.job);
  fields.get("stages", profiled.stages);
  fields.get("device_seconds", profiled.device_seconds);
  fields.get("plans", profiled.plans);
  fields.get("foreseen", profiled.foreseen);
  return profiled;
}

std::vector<std::string> split(const std::string& types) {
  std::vector<std::string> parts;
  std::istringstream in(types);
  for (std::string part; std::getline(in, part, '+');) parts.push_back(part);
  return parts;
}

bool measured_on(const JobCoefficients& job, const Hardware& hardware, const std::string& type) {
  const int index = hardware.type_index(type);
  return index >= 0 && !job.gpu[static_cast<std::size_t>(index)].assumed_comp;
}

}  // namespace

void Estimate::add(double value) {
  count = std::min(count + 1, 1'000'000'000);
  const double weight = 1.0 / std::min(count, kMemory), off = value - mean;
  mean += weight * off;
  variance = count == 1 ? 0 : (1 - weight) * (variance + weight * off * off);
}

double Estimate::spread() const { return count >= 2 && mean > 0 ? std::sqrt(variance) / mean : 0; }

Json record_of(const Knowledge& row) {
  Json record{{"coefficients", row.coefficients}, {"speed", to_json(row.speed)}, {"spread", row.spread},
              {"pause", to_json(row.pause)},      {"start", to_json(row.start)}, {"first", row.first}};
  if (row.profiled) record["profiled"] = to_json(*row.profiled);
  return record;
}

void read_record(const Json& record, Knowledge& row) {
  const Fields fields(record, "knowledge", {"coefficients", "speed", "spread", "pause", "start", "first", "profiled"});
  fields.get("coefficients", row.coefficients);
  Json part;
  for (const auto& [name, estimate] :
       {std::pair("speed", &row.speed), std::pair("pause", &row.pause), std::pair("start", &row.start)}) {
    fields.get(name, part);
    *estimate = estimate_from(part, std::string("knowledge.") + name);
  }
  fields.get("spread", row.spread);
  fields.get("first", row.first);
  if (fields.has("profiled")) {
    fields.get("profiled", part);
    row.profiled = profiling_from(part);
  }
}

std::string description(const ElasticJob& job) {
  const ModelShape& model = job.model;
  if (model.layers <= 0) return "";
  const TrainingSetting setting = model.setting.value_or(TrainingSetting());
  if (data_parallel_only(job) && setting.program.empty()) return "";  // it may be any model
  Json text = {{"family", model.family},
               {"layers", model.layers},
               {"hidden", model.hidden},
               {"heads", model.heads},
               {"key_value_heads", model.key_value_heads},
               {"intermediate", model.intermediate},
               {"sequence", model.sequence},
               {"vocabulary", model.vocabulary},
               {"global_batch", model.global_batch},
               {"accuracy", to_string(job.accuracy)},
               {"program", setting.program},
               {"runtime", setting.runtime},
               {"precision", setting.precision},
               {"schedule", setting.schedule},
               {"recompute", setting.recompute},
               {"zero1", setting.zero1}};
  if (model.mtp_layers > 0) text["mtp_layers"] = model.mtp_layers;
  if (!model.units.empty()) text["units"] = model.units;
  if (model.keeps_scores.value_or(false)) text["keeps_scores"] = true;  // their memory and speed are others
  return text.dump();
}

std::string gpu_types(const Site& site, const std::vector<GpuId>& gpus) {
  std::set<std::string> names;
  for (const GpuId& gpu : gpus) {
    const int node = site.topology.find(gpu.node);
    if (node < 0 || gpu.index < 0) continue;
    const auto& types = site.topology.gpu_types(node);
    if (static_cast<std::size_t>(gpu.index) >= types.size()) continue;
    names.insert(site.hardware.types[static_cast<std::size_t>(types[static_cast<std::size_t>(gpu.index)])].name);
  }
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : "+") + name;
  return all;
}

void learn(Knowledge& row, const JobCoefficients& measured, double spread, const Site& site) {
  const Hardware& hardware = site.hardware;
  JobCoefficients merged = measured;
  if (const auto known = stored_coefficients(row.coefficients, hardware))
    merged = blend(*known, measured, 1.0 / std::min(row.speed.count + 1, Estimate::kMemory));
  for (const std::string& type : split(row.gpus))
    if (measured_on(measured, hardware, type)) {
      // Of one GPU, so that jobs of several TP degrees compare.
      const JobCoefficients alone = degree_is_measured(measured, 1) ? told_for_degree(measured, 1) : measured;
      row.speed.add(alone.gpu[static_cast<std::size_t>(hardware.type_index(type))].comp);
      break;
    }
  row.spread = spread;
  row.coefficients = kept_coefficients(merged, hardware);
}

std::optional<JobCoefficients> stored_coefficients(const Json& stored, const Hardware& hardware) {
  try {
    if (!stored.is_object() || !stored.contains("gpu") || !stored["gpu"].is_object()) return std::nullopt;
    Json known = stored;
    known.erase("bandwidths");
    const bool same = kept_with(stored.value("bandwidths", Json()), hardware);
    const GpuType* reference = nullptr;
    for (const GpuType& type : hardware.types)
      if (!reference && known["gpu"].contains(type.name) && !known["gpu"][type.name].value("assumed_comp", true))
        reference = &type;
    if (!reference) return std::nullopt;
    const bool by_bandwidth = bandwidths_known(hardware);
    const double traffic = compared_traffic(hardware, known.value("traffic_per_flop", 0.0));
    const Json told = known["gpu"][reference->name];
    for (const GpuType& type : hardware.types) {
      const bool there = known["gpu"].contains(type.name);
      Json& scaled = known["gpu"][type.name];
      if (!there) {
        scaled = told;
        for (const char* flag : {"assumed_comp", "assumed_backward", "assumed_optim", "assumed_overlap"})
          scaled[flag] = true;
      }
      if (!same) scaled["assumed_overlap"] = true;
      // What was assumed then may follow from other figures of the types today.
      const double faster = times_as_fast(type, *reference, traffic);
      if (scaled.at("assumed_comp").get<bool>()) scaled["comp"] = told.at("comp").get<double>() / faster;
      if (scaled.at("assumed_optim").get<bool>() && !told.at("assumed_optim").get<bool>())
        scaled["optim"] = told.at("optim").get<double>() /
                          (by_bandwidth ? type.memory_bandwidth / reference->memory_bandwidth : faster);
    }
    return coefficients_from(known, hardware);
  } catch (const std::exception&) {  // of another version of this program
    return std::nullopt;
  }
}

std::optional<JobCoefficients> recalled(const std::vector<Knowledge>& rows, const std::string& types,
                                        const Site& site) {
  std::optional<JobCoefficients> found;
  for (const bool exact : {true, false})
    for (const Knowledge& row : rows) {
      if ((row.gpus == types) != exact) continue;
      auto next = stored_coefficients(row.coefficients, site.hardware);
      if (!next) continue;
      found = found ? refine(*next, std::move(*found)) : std::move(*next);
    }
  if (!found) return std::nullopt;
  const auto here = split(types);
  const bool known =
      std::any_of(here.begin(), here.end(), [&](const auto& type) { return measured_on(*found, site.hardware, type); });
  return known ? found : std::nullopt;
}

double usual_rail(const std::vector<Knowledge>& rows, const std::string& job) {
  std::vector<double> rails;
  for (const Knowledge& row : rows) {
    if (row.job == job || !row.coefficients.is_object()) continue;
    try {
      if (!row.coefficients.value("assumed_rail", true)) rails.push_back(row.coefficients.at("rail_ms_per_byte"));
    } catch (const std::exception&) {  // of another version of this program
    }
  }
  if (rails.empty()) return 0;
  const auto middle = rails.begin() + static_cast<std::ptrdiff_t>((rails.size() - 1) / 2);
  std::nth_element(rails.begin(), middle, rails.end());
  return *middle;
}

}  // namespace espalier
