#include "torchrt/config.hpp"

#include "torchrt/config_model.hpp"
#include "torchrt/toml_reader.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::int64_t kMostSteps = 1'000'000'000;

void read_training(TomlSection section, TrainingConfig& training) {
  section.require("steps", training.steps, 1, kMostSteps);
  section.require("global_batch", training.global_batch, 1, 1 << 20);
  section.read("micro_batches", training.micro_batches, 1, 1 << 20);
  section.read("seed", training.seed, 0, INT64_MAX);
  section.read("learning_rate", training.learning_rate, 0, 10);
  training.minimum_learning_rate = training.learning_rate / 10;
  section.read("minimum_learning_rate", training.minimum_learning_rate, 0, 10);
  section.read("warmup_steps", training.warmup_steps, 0, kMostSteps);
  section.read("weight_decay", training.weight_decay, 0, 10);
  section.read("beta1", training.beta1, 0, 0.999999);
  section.read("beta2", training.beta2, 0, 0.999999);
  section.read("epsilon", training.epsilon, 1e-30, 1);
  section.read("clip_norm", training.clip_norm, 0, 1e9);
  section.choose<std::string>("schedule", training.schedule, {{"1f1b", "1f1b"}, {"gpipe", "gpipe"}});
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

void read_device(TomlSection section, DeviceConfig& device) {
  constexpr double kLeast = 1e-3;
  section.read("gflops", device.gflops, 0, 1e9);
  if (device.gflops > 0 && device.gflops < kLeast)
    section.fail("gflops", "is slower than 0.001, a million operations a second; 0 turns it off");
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
  shape.layers = config.model.layers;
  shape.hidden = config.model.hidden;
  shape.heads = config.model.heads;
  shape.sequence = config.model.sequence;
  shape.vocabulary = config.model.vocabulary;
  shape.global_batch = config.training.global_batch;
  shape.micro_batches = config.training.micro_batches;
  return shape;
}

}  // namespace espalier::torchrt
