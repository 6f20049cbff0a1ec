#include "planner/core/json.hpp"

#include <charconv>

#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"

namespace espalier {

void to_json(Json& json, const GpuId& gpu) { json = gpu.node + "/" + std::to_string(gpu.index); }

void from_json(const Json& json, GpuId& gpu) {
  if (!json.is_string()) throw Error("gpu: must be a string \"node/index\"");
  const auto text = json.get<std::string>();
  const auto slash = text.rfind('/');
  int index = -1;
  const char* end = text.data() + text.size();
  if (slash == std::string::npos || slash == 0 || std::from_chars(text.data() + slash + 1, end, index).ptr != end ||
      slash + 1 == text.size() || index < 0)
    throw Error("gpu \"" + text + "\": must be \"node/index\"");
  gpu = {text.substr(0, slash), index};
}

static void to_json(Json& json, const Replica& replica) { json = {{"share", replica.share}, {"gpus", replica.gpus}}; }
static void from_json(const Json& json, Replica& replica) {
  const Fields fields(json, "replica", {"share", "gpus"});
  fields.get("share", replica.share);
  fields.get("gpus", replica.gpus);
}

static void to_json(Json& json, const Stage& stage) {
  json = {{"layers", stage.layers}, {"tp", stage.tp}, {"replicas", Json::array()}};
  for (const Replica& replica : stage.replicas) {
    Json entry;
    to_json(entry, replica);
    json["replicas"].push_back(std::move(entry));
  }
}
static void from_json(const Json& json, Stage& stage) {
  const Fields fields(json, "stage", {"layers", "tp", "replicas"});
  fields.get("layers", stage.layers);
  fields.get("tp", stage.tp);
  Json list;
  fields.get("replicas", list);
  if (!list.is_array()) throw Error("stage.replicas: must be a list");
  stage.replicas.clear();
  for (const Json& entry : list) from_json(entry, stage.replicas.emplace_back());
}

static void to_json(Json& json, const Chunk& chunk) { json = {{"stage", chunk.stage}, {"layers", chunk.layers}}; }
static void from_json(const Json& json, Chunk& chunk) {
  const Fields fields(json, "chunk", {"stage", "layers"});
  fields.get("stage", chunk.stage);
  fields.get("layers", chunk.layers);
}

// The last two fields were added later and may be absent: checkpoints and plan files of users hold plans.
void to_json(Json& json, const Plan& plan) {
  json = {{"global_batch", plan.global_batch}, {"micro_batches", plan.micro_batches}, {"stages", Json::array()}};
  for (const Stage& stage : plan.stages) {
    Json entry;
    to_json(entry, stage);
    json["stages"].push_back(std::move(entry));
  }
  for (const Chunk& chunk : plan.chunks) {
    Json entry;
    to_json(entry, chunk);
    json["chunks"].push_back(std::move(entry));
  }
  if (!plan.schedule.empty()) json["schedule"] = plan.schedule;
}
void from_json(const Json& json, Plan& plan) {
  plan = {};
  const Fields fields(json, "plan", {"global_batch", "micro_batches", "stages", "chunks", "schedule"});
  fields.get("global_batch", plan.global_batch);
  fields.get("micro_batches", plan.micro_batches);
  Json list;
  fields.get("stages", list);
  if (!list.is_array()) throw Error("plan.stages: must be a list");
  for (const Json& entry : list) from_json(entry, plan.stages.emplace_back());
  if (fields.has("chunks")) {
    fields.get("chunks", list);
    if (!list.is_array() || list.empty()) throw Error("plan.chunks: must be a list of at least one chunk");
    for (const Json& entry : list) from_json(entry, plan.chunks.emplace_back());
  }
  if (fields.has("schedule")) fields.get("schedule", plan.schedule);
}

static void to_json(Json& json, const TrainingSetting& setting) {
  json = {{"program", setting.program},   {"runtime", setting.runtime},     {"precision", setting.precision},
          {"schedule", setting.schedule}, {"recompute", setting.recompute}, {"zero1", setting.zero1}};
}
static void from_json(const Json& json, TrainingSetting& setting) {
  const Fields fields(json, "model.setting", {"program", "runtime", "precision", "schedule", "recompute", "zero1"});
  fields.get("program", setting.program);
  fields.get("runtime", setting.runtime);
  fields.get("precision", setting.precision);
  fields.get("schedule", setting.schedule);
  fields.get("recompute", setting.recompute);
  fields.get("zero1", setting.zero1);
}

// The last five fields were added later and may be absent: programs of users send this too.
void to_json(Json& json, const ModelShape& model) {
  json = {{"family", model.family},
          {"layers", model.layers},
          {"hidden", model.hidden},
          {"heads", model.heads},
          {"sequence", model.sequence},
          {"vocabulary", model.vocabulary},
          {"global_batch", model.global_batch},
          {"micro_batches", model.micro_batches}};
  if (model.key_value_heads != 0) json["key_value_heads"] = model.key_value_heads;
  if (model.intermediate != 0) json["intermediate"] = model.intermediate;
  if (model.mtp_layers != 0) json["mtp_layers"] = model.mtp_layers;
  if (!model.units.empty()) json["units"] = model.units;
  if (model.tied) json["tied"] = true;
  if (model.setting) to_json(json["setting"], *model.setting);
  if (model.keeps_scores) json["keeps_scores"] = *model.keeps_scores;
}
void from_json(const Json& json, ModelShape& model) {
  const Fields fields(json, "model",
                      {"family", "layers", "hidden", "heads", "sequence", "vocabulary", "global_batch", "micro_batches",
                       "key_value_heads", "intermediate", "mtp_layers", "units", "tied", "setting", "keeps_scores"});
  fields.get("family", model.family);
  fields.get("layers", model.layers);
  fields.get("hidden", model.hidden);
  fields.get("heads", model.heads);
  fields.get("sequence", model.sequence);
  fields.get("vocabulary", model.vocabulary);
  fields.get("global_batch", model.global_batch);
  fields.get("micro_batches", model.micro_batches);
  model.key_value_heads = model.intermediate = model.mtp_layers = 0;
  if (fields.has("key_value_heads")) fields.get("key_value_heads", model.key_value_heads);
  if (fields.has("intermediate")) fields.get("intermediate", model.intermediate);
  if (fields.has("mtp_layers")) fields.get("mtp_layers", model.mtp_layers);
  model.units.clear();
  if (fields.has("units")) fields.get("units", model.units);
  model.tied = false;
  if (fields.has("tied")) fields.get("tied", model.tied);
  model.setting.reset();
  if (fields.has("setting")) from_json(json.at("setting"), model.setting.emplace());
  model.keeps_scores.reset();
  if (fields.has("keeps_scores")) fields.get("keeps_scores", model.keeps_scores.emplace());
}

void to_json(Json& json, const ParallelLimits& limits) {
  json = {{"pp", limits.pp},
          {"dp", limits.dp},
          {"tp", limits.tp},
          {"micro_batches", limits.micro_batches},
          {"tp_degrees", limits.tp_degrees},
          {"first", limits.first ? Json(*limits.first) : Json(nullptr)}};
  if (limits.chunks != 0) json["chunks"] = limits.chunks;
  if (limits.v_shaped) json["v_shaped"] = true;
  if (!limits.lists.empty()) json["lists"] = limits.lists;
}
void from_json(const Json& json, ParallelLimits& limits) {
  const Fields fields(json, "parallel",
                      {"pp", "dp", "tp", "micro_batches", "tp_degrees", "first", "chunks", "v_shaped", "lists"});
  fields.get("pp", limits.pp);
  fields.get("dp", limits.dp);
  fields.get("tp", limits.tp);
  fields.get("micro_batches", limits.micro_batches);
  fields.get("tp_degrees", limits.tp_degrees);
  limits.first.reset();
  Json first;
  fields.get("first", first);
  if (!first.is_null()) limits.first = first.get<Plan>();
  limits.chunks = 0;
  fields.get_if_there("chunks", limits.chunks);
  limits.v_shaped = false;
  fields.get_if_there("v_shaped", limits.v_shaped);
  limits.lists.clear();
  fields.get_if_there("lists", limits.lists);
}

void to_json(Json& json, const Holding& holding) {
  json = {{"job", holding.job}, {"node", holding.node}, {"gpus", holding.gpus}};
}
void from_json(const Json& json, Holding& holding) {
  const Fields fields(json, "holding", {"job", "node", "gpus"});
  fields.get("job", holding.job);
  fields.get("node", holding.node);
  fields.get("gpus", holding.gpus);
}

void to_json(Json& json, const ExtensionRequest& request) {
  json = {{"node", request.node},
          {"gpus", request.gpus},
          {"cpus", request.cpus},
          {"memory_mb", request.memory_mb},
          {"lease_minutes", request.lease_minutes}};
}
void from_json(const Json& json, ExtensionRequest& request) {
  const Fields fields(json, "extension", {"node", "gpus", "cpus", "memory_mb", "lease_minutes"});
  fields.get("node", request.node);
  fields.get("gpus", request.gpus);
  fields.get("cpus", request.cpus);
  fields.get("memory_mb", request.memory_mb);
  fields.get("lease_minutes", request.lease_minutes);
}

void to_json(Json& json, const Candidate& candidate) {
  json = {{"plan", candidate.plan},
          {"gpus", candidate.gpus},
          {"predicted_step_seconds", candidate.predicted_step_seconds},
          {"benefit", candidate.benefit},
          {"rejected_by", candidate.rejected_by}};
}
void from_json(const Json& json, Candidate& candidate) {
  const Fields fields(json, "candidate", {"plan", "gpus", "predicted_step_seconds", "benefit", "rejected_by"});
  fields.get("plan", candidate.plan);
  fields.get("gpus", candidate.gpus);
  fields.get("predicted_step_seconds", candidate.predicted_step_seconds);
  fields.get("benefit", candidate.benefit);
  fields.get("rejected_by", candidate.rejected_by);
}

void to_json(Json& json, const Decision& decision) {
  json = {{"id", decision.id},
          {"time", decision.time},
          {"trigger", to_string(decision.trigger)},
          {"kind", to_string(decision.kind)},
          {"job", decision.job},
          {"reason", decision.reason},
          {"objective", decision.objective},
          {"plan", decision.plan},
          {"acquire", decision.acquire},
          {"release", decision.release},
          {"predicted_step_seconds", decision.predicted_step_seconds},
          {"candidates", decision.candidates},
          {"outcome", decision.outcome},
          {"measured_step_seconds", decision.measured_step_seconds},
          {"pause_ms", decision.pause_ms}};
}
void from_json(const Json& json, Decision& decision) {
  const Fields fields(
      json, "decision",
      {"id", "time", "trigger", "kind", "job", "reason", "plan", "acquire", "release", "predicted_step_seconds",
       "candidates", "outcome", "measured_step_seconds", "pause_ms", "objective"});
  std::string trigger, kind;
  fields.get("id", decision.id);
  fields.get("time", decision.time);
  fields.get("trigger", trigger);
  fields.get("kind", kind);
  decision.trigger = trigger_from(trigger);
  decision.kind = kind_from(kind);
  fields.get("job", decision.job);
  fields.get("reason", decision.reason);
  decision.objective.clear();
  fields.get_if_there("objective", decision.objective);  // records of the store may be older
  fields.get("plan", decision.plan);
  fields.get("acquire", decision.acquire);
  fields.get("release", decision.release);
  fields.get("predicted_step_seconds", decision.predicted_step_seconds);
  fields.get("candidates", decision.candidates);
  fields.get("outcome", decision.outcome);
  fields.get("measured_step_seconds", decision.measured_step_seconds);
  fields.get("pause_ms", decision.pause_ms);
}

void to_json(Json& json, const ElasticJob& job) {
  json = {{"id", job.id},
          {"uid", job.uid},
          {"name", job.name},
          {"min_gpus", job.min_gpus},
          {"max_gpus", job.max_gpus},
          {"floor_gpus", job.floor_gpus},
          {"deadline", job.deadline},
          {"accuracy", to_string(job.accuracy)},
          {"model", job.model},
          {"parallel", job.parallel},
          {"plan", job.plan ? Json(*job.plan) : Json(nullptr)},
          {"generation", job.generation},
          {"phase", to_string(job.phase)},
          {"anchor", job.anchor},
          {"extensions", job.extensions},
          {"step_seconds", job.step_seconds},
          {"step", job.step},
          {"total_steps", job.total_steps},
          {"held", job.held},
          {"profile", job.profile ? Json(*job.profile) : Json(nullptr)},
          {"unfit", job.unfit}};
  if (!job.gpu_islands.empty()) json["gpu_islands"] = job.gpu_islands;
  if (job.jobs_reach) json["jobs_reach"] = true;
}
void from_json(const Json& json, ElasticJob& job) {
  const Fields fields(
      json, "job",
      {"id",         "uid",   "name",       "min_gpus",   "max_gpus",     "accuracy",  "model",       "plan",
       "generation", "phase", "anchor",     "extensions", "step_seconds", "step",      "total_steps", "held",
       "profile",    "unfit", "floor_gpus", "deadline",   "parallel",     "ranks_run", "gpu_islands", "jobs_reach"});
  std::string accuracy, phase;
  fields.get("id", job.id);
  fields.get("uid", job.uid);
  fields.get("name", job.name);
  fields.get("min_gpus", job.min_gpus);
  fields.get("max_gpus", job.max_gpus);
  fields.get("accuracy", accuracy);
  job.accuracy = accuracy_from(accuracy);
  fields.get("model", job.model);
  job.floor_gpus = 0;
  job.deadline = 0;
  job.ranks_run = false;
  fields.get_if_there("ranks_run", job.ranks_run);
  job.parallel = {};
  fields.get_if_there("floor_gpus", job.floor_gpus);
  fields.get_if_there("deadline", job.deadline);
  fields.get_if_there("parallel", job.parallel);
  Json plan;
  fields.get("plan", plan);
  job.plan.reset();
  if (!plan.is_null()) job.plan = plan.get<Plan>();
  fields.get("generation", job.generation);
  fields.get("phase", phase);
  job.phase = phase_from(phase);
  fields.get("anchor", job.anchor);
  fields.get("extensions", job.extensions);
  fields.get("step_seconds", job.step_seconds);
  fields.get("step", job.step);
  fields.get("total_steps", job.total_steps);
  fields.get("held", job.held);
  job.profile.reset();
  if (fields.has("profile")) {
    Json profile;
    fields.get("profile", profile);
    if (!profile.is_null()) job.profile = profile.get<Profile>();
  }
  job.unfit.clear();
  if (fields.has("unfit")) fields.get("unfit", job.unfit);
  job.gpu_islands.clear();
  fields.get_if_there("gpu_islands", job.gpu_islands);
  job.jobs_reach = false;
  fields.get_if_there("jobs_reach", job.jobs_reach);
}

void to_json(Json& json, const NodeView& node) {
  json = {{"name", node.name},           {"gpu_type", node.gpu_type},   {"switches", node.switches},
          {"gpu_owner", node.gpu_owner}, {"free_cpus", node.free_cpus}, {"free_memory_mb", node.free_memory_mb},
          {"usable", node.usable},       {"unhealthy", node.unhealthy}};
}

}  // namespace espalier
