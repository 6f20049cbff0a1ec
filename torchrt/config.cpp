#include "torchrt/config.hpp"

#include <algorithm>
#include <fstream>

#include "planner/core/json.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline/placement.hpp"
#include "planner/core/pipeline_form.hpp"
#include "planner/core/text_limits.hpp"

#include "torchrt/config_model.hpp"
#include "torchrt/toml_reader.hpp"

namespace espalier::torchrt {

namespace {

void read_schedule(TomlSection& section, std::string& schedule) {
  section.read("schedule", schedule);
  if (schedule == kAutomaticSchedule) return;
  std::string known;
  for (const pipeline::Generator& one : pipeline::generators()) {
    if (schedule == one.name) return;
    known += (known.empty() ? "\"" : ", \"") + std::string(one.name) + "\"";
  }
  section.fail("schedule", "is \"" + schedule + "\"; known are " + known + " and \"auto\"");
}

void read_training(TomlSection section, TrainingConfig& training) {
  section.require("steps", training.steps, 1, kMostSteps);
  section.require("global_batch", training.global_batch, 1, 1 << 20);
  section.read("micro_batches", training.micro_batches, 1, 1 << 20);
  section.read("seed", training.seed, 0, INT64_MAX);
  section.read("learning_rate", training.learning_rate, 0, 10);
  training.minimum_learning_rate = training.learning_rate / 10;
  section.read("minimum_learning_rate", training.minimum_learning_rate, 0, 10);
  if (training.minimum_learning_rate > training.learning_rate)
    section.fail("minimum_learning_rate", "is above learning_rate, from which the rate falls to it; lower it");
  section.read("warmup_steps", training.warmup_steps, 0, kMostSteps);
  section.read("weight_decay", training.weight_decay, 0, 10);
  section.read("beta1", training.beta1, 0, 0.999999);
  section.read("beta2", training.beta2, 0, 0.999999);
  section.read("epsilon", training.epsilon, 1e-30, 1);
  section.read("clip_norm", training.clip_norm, 0, 1e9);
  read_schedule(section, training.schedule);
  section.choose<DataType>("dtype", training.dtype, {{"float32", DataType::float32}, {"bfloat16", DataType::bfloat16}});
  section.choose<Accuracy>("accuracy", training.accuracy,
                           {{"bitwise", Accuracy::bitwise}, {"relaxed", Accuracy::relaxed}});
  section.read("zero1", training.zero1);
  section.read("recompute", training.recompute);
  section.read("threads", training.threads, 1, 1024);
  if (training.global_batch % training.micro_batches != 0)
    section.fail("micro_batches",
                 "does not divide global_batch = " + std::to_string(training.global_batch) + "; choose a divisor");
  section.finish();
}

// The TP degrees that the model allows (model/units.cpp), powers of two.
std::vector<int> tp_degrees_of(const ModelConfig& model) {
  std::vector<int> degrees{1};
  const auto divides = [&](int degree) {
    return model.heads % degree == 0 && model.key_value_heads % degree == 0 && model.intermediate % degree == 0;
  };
  while (divides(2 * degrees.back())) degrees.push_back(2 * degrees.back());
  return degrees;
}

Plan read_plan(const TomlSection& section, const std::string& path) {
  std::ifstream in = open_input(path);
  if (!in) section.fail("plan", "is \"" + path + "\", which cannot be read");
  try {
    return parse_json(in).get<Plan>();
  } catch (const std::exception& problem) {
    section.fail("plan", "is \"" + path + "\": " + problem.what());
  }
}

// What the schedule needs; where it runs any number of chunks: two if interleaved, else one.
void read_chunks(TomlSection& section, const std::string& schedule, ParallelLimits& limits) {
  constexpr int kMostChunks = 64;
  if (schedule == kAutomaticSchedule) {
    if (section.has("chunks"))
      section.fail("chunks",
                   "has no meaning with training.schedule = \"auto\", which chooses them; remove it, or name a "
                   "schedule");
    return;
  }
  const pipeline::Generator& generator = pipeline::generator(schedule);
  const int needed = generator.chunks_per_rank;
  limits.chunks = needed > 0 ? needed : schedule == "interleaved" ? 2 : 1;
  section.read("chunks", limits.chunks, 1, kMostChunks);
  if (needed > 0 && limits.chunks != needed)
    section.fail("chunks", "is " + std::to_string(limits.chunks) + "; training.schedule = \"" + schedule + "\" has " +
                               std::to_string(needed) + (needed == 1 ? " chunk" : " chunks") + " on each stage");
  const pipeline::Schedule example = pipeline::generate(schedule, {2, 1, limits.chunks});
  limits.v_shaped = limits.chunks == 2 && example.rank_of_chunk == pipeline::v_placement(2);
  if (limits.chunks == 1) limits.chunks = 0;  // what every plan has anyway
}

void read_parallel(TomlSection section, const Config& config, ParallelConfig& parallel) {
  ParallelLimits& limits = parallel.limits;
  section.read("plan", parallel.plan);
  read_chunks(section, config.training.schedule, limits);
  section.read("pp", limits.pp, 1, config.model.blocks());
  section.read("dp", limits.dp, 1, config.training.global_batch);
  section.read("tp", limits.tp, 1, config.model.heads);
  section.read("micro_batches", limits.micro_batches, 1, 1 << 20);
  section.read("tp_degrees", limits.tp_degrees, 1, config.model.heads);
  if (limits.micro_batches > 0 && config.training.global_batch % limits.micro_batches != 0)
    section.fail("micro_batches", "does not divide global_batch = " + std::to_string(config.training.global_batch) +
                                      "; choose a divisor");
  const std::vector<int> possible = tp_degrees_of(config.model);
  const auto known = [&](int degree) { return std::find(possible.begin(), possible.end(), degree) != possible.end(); };
  std::string list;
  for (const int degree : possible) list += (list.empty() ? "" : ", ") + std::to_string(degree);
  if (limits.tp > 0 && !known(limits.tp))
    section.fail("tp", "is " + std::to_string(limits.tp) + "; this model can be cut into " + list);
  for (const int degree : limits.tp_degrees)
    if (!known(degree))
      section.fail("tp_degrees", "holds " + std::to_string(degree) + "; this model can be cut into " + list);
  if (limits.tp > 0 && !limits.tp_degrees.empty())
    section.fail("tp_degrees", "has no meaning beside tp, which fixes the degree; remove one of them");
  if (!limits.tp_degrees.empty() && config.training.accuracy == Accuracy::bitwise)
    section.fail("tp_degrees",
                 "has no meaning with training.accuracy = \"bitwise\", where the degree never changes; "
                 "set tp, or accuracy = \"relaxed\"");
  if (!parallel.plan.empty()) {
    for (const char* key : {"pp", "dp", "tp", "micro_batches"})
      if (section.has(key)) section.fail(key, "is decided by parallel.plan = \"" + parallel.plan + "\"; remove it");
    limits.first = read_plan(section, parallel.plan);
    if (const auto broken = validate(*limits.first, config.model.blocks()); !broken.empty())
      section.fail("plan", "is \"" + parallel.plan + "\": " + broken.front());
    if (limits.first->global_batch != config.training.global_batch)
      section.fail("plan", "is for a global batch of " + std::to_string(limits.first->global_batch) +
                               ", training.global_batch is " + std::to_string(config.training.global_batch));
    if (config.training.accuracy == Accuracy::bitwise) {
      limits.tp = limits.first->stages.front().tp;
      for (const Stage& stage : limits.first->stages)
        if (stage.tp != limits.tp)
          section.fail("plan",
                       "has stages of different TP degrees, which training.accuracy = \"bitwise\" does not "
                       "allow; use one degree, or accuracy = \"relaxed\"");
    }
  }
  section.finish();
}

void read_device(TomlSection section, DeviceConfig& device) {
  constexpr double kLeast = 1e-3;
  section.read("gflops", device.gflops, 0, 1e9);
  if (device.gflops > 0 && device.gflops < kLeast)
    section.fail("gflops", "is slower than 0.001, a million operations a second; 0 turns it off");
  std::string times;
  section.read("times", times);
  if (!times.empty() && device.gflops > 0) section.fail("times", "replaces device.gflops; remove one of them");
  if (!times.empty()) device.times = std::make_shared<const DeviceTimes>(times);
  section.read("jobs_reach", device.jobs_reach);
  section.finish();
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void read_data(TomlSection section, int global_batch, DataConfig& data) {
  section.require("path", data.path);
  data.format = ends_with(data.path, ".bin") ? TokenFormat::uint16 : TokenFormat::bytes;
  section.choose<TokenFormat>(
      "format", data.format,
      {{"bytes", TokenFormat::bytes}, {"uint16", TokenFormat::uint16}, {"uint32", TokenFormat::uint32}});
  section.read("changed", data.changed);
  section.read("validation", data.validation);
  if (!data.validation.empty()) {
    data.validate_every = 100;
    data.validation_samples = global_batch;
  }
  section.read("validate_every", data.validate_every, 0, kMostSteps);
  section.read("validation_samples", data.validation_samples, 1, 1 << 30);
  if (data.validation_samples % global_batch != 0)
    section.fail("validation_samples",
                 "is not a multiple of training.global_batch = " + std::to_string(global_batch) + "; choose one");
  if (data.validation.empty()) {
    for (const char* key : {"validate_every", "validation_samples"})
      if (section.has(key)) section.fail(key, "needs data.validation, the file to validate on");
  }
  section.finish();
}

void read_checkpoint(TomlSection section, CheckpointConfig& checkpoint) {
  section.read("directory", checkpoint.directory);
  section.read("every", checkpoint.every, 0, kMostSteps);
  section.read("minutes", checkpoint.minutes, 0, 1e6);
  section.read("keep", checkpoint.keep, 1, 1'000'000);
  section.read("resume", checkpoint.resume);
  section.finish();
}

void read_recovery(TomlSection section, RecoveryConfig& recovery) {
  section.read("snapshot_steps", recovery.snapshot_steps, 0, 1'000'000'000);
  section.finish();
}

void read_metrics(TomlSection section, MetricsConfig& metrics) {
  section.read("path", metrics.path);
  section.read("progress_every", metrics.progress_every, 0, kMostSteps);
  section.read("peak_tflops", metrics.peak_tflops, 0, 1e6);
  section.finish();
}

void read_profile(TomlSection section, ProfileConfig& profile) {
  section.read("every", profile.every, 0, kMostSteps);
  section.read("dense", profile.dense, 0, 1000);
  section.read("links", profile.links, 0, 1800);
  section.read("path", profile.path);
  section.read("trace", profile.trace);
  section.finish();
}

void read_handoff(TomlSection section, const CheckpointConfig& checkpoint, HandoffConfig& handoff) {
  section.choose<HandoffMethod>("method", handoff.method,
                                {{"adopt", HandoffMethod::adopt},
                                 {"device", HandoffMethod::device},
                                 {"overlap", HandoffMethod::overlap},
                                 {"checkpoint", HandoffMethod::checkpoint}});
  section.read("early", handoff.early);
  if (through_disk(handoff.method) && checkpoint.directory.empty())
    section.fail("method", "goes through checkpoints and needs checkpoint.directory, where they are written");
  if (handoff.method == HandoffMethod::checkpoint && !checkpoint.resume)
    section.fail("method", "starts every generation from a checkpoint and needs checkpoint.resume = true");
  section.finish();
}

}  // namespace

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  TomlFile file(path, overrides);
  Config config;
  config.path = path;
  read_model(file.section("model", true), config.model, config.weights);
  read_training(file.section("training", true), config.training);
  read_parallel(file.section("parallel", false), config, config.parallel);
  read_device(file.section("device", false), config.device);
  read_data(file.section("data", true), config.training.global_batch, config.data);
  read_checkpoint(file.section("checkpoint", false), config.checkpoint);
  read_recovery(file.section("recovery", false), config.recovery);
  read_metrics(file.section("metrics", false), config.metrics);
  read_profile(file.section("profile", false), config.profile);
  read_handoff(file.section("handoff", false), config.checkpoint, config.handoff);
  file.finish();
  return config;
}

ModelShape model_shape(const Config& config) {
  ModelShape shape;
  shape.family = config.model.family;
  shape.layers = config.model.blocks();
  shape.mtp_layers = config.model.mtp_layers;
  shape.hidden = config.model.hidden;
  shape.heads = config.model.heads;
  shape.sequence = config.model.sequence;
  shape.vocabulary = config.model.vocabulary;
  shape.global_batch = config.training.global_batch;
  shape.micro_batches = config.training.micro_batches;
  shape.key_value_heads = config.model.key_value_heads;
  shape.intermediate = config.model.intermediate;
  shape.tied = config.model.tied_embeddings;
  shape.keeps_scores = config.model.attention_dropout > 0;
  return shape;
}

}  // namespace espalier::torchrt
