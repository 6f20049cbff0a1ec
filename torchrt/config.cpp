#include "torchrt/config.hpp"

#include "torchrt/toml_reader.hpp"

namespace espalier::torchrt {

namespace {

void read_model(TomlSection section, ModelConfig& model) {
  section.require("layers", model.layers, 1, 10'000);
  section.require("hidden", model.hidden, 1, 1 << 16);
  section.require("heads", model.heads, 1, 1 << 12);
  section.require("sequence", model.sequence, 1, 1 << 20);
  section.read("vocabulary", model.vocabulary, 256, 1 << 20);
  if (model.hidden % model.heads != 0)
    section.fail("heads", "does not divide hidden = " + std::to_string(model.hidden) + "; choose a divisor");
  section.finish();
}

void read_training(TomlSection section, TrainingConfig& training) {
  section.require("steps", training.steps, 1, 1'000'000'000);
  section.require("global_batch", training.global_batch, 1, 1 << 20);
  section.read("micro_batches", training.micro_batches, 1, 1 << 20);
  section.read("seed", training.seed, 0, INT64_MAX);
  section.read("learning_rate", training.learning_rate, 0, 10);
  training.minimum_learning_rate = training.learning_rate / 10;
  section.read("minimum_learning_rate", training.minimum_learning_rate, 0, 10);
  section.read("warmup_steps", training.warmup_steps, 0, 1'000'000'000);
  section.read("weight_decay", training.weight_decay, 0, 10);
  section.read("beta1", training.beta1, 0, 0.999999);
  section.read("beta2", training.beta2, 0, 0.999999);
  section.read("epsilon", training.epsilon, 1e-30, 1);
  section.read("clip_norm", training.clip_norm, 0, 1e9);
  section.read("schedule", training.schedule);
  if (training.schedule != "1f1b" && training.schedule != "gpipe")
    section.fail("schedule", "is \"" + training.schedule + "\"; known are \"1f1b\" and \"gpipe\"");
  if (training.global_batch % training.micro_batches != 0)
    section.fail("micro_batches",
                 "does not divide global_batch = " + std::to_string(training.global_batch) + "; choose a divisor");
  section.finish();
}

}  // namespace

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  TomlFile file(path, overrides);
  Config config;
  config.path = path;
  read_model(file.section("model", true), config.model);
  read_training(file.section("training", true), config.training);
  TomlSection data = file.section("data", true);
  data.require("path", config.data_path);
  data.finish();
  TomlSection metrics = file.section("metrics", false);
  metrics.read("path", config.metrics_path);
  metrics.read("progress_every", config.progress_every, 0, 1'000'000'000);
  metrics.finish();
  file.finish();
  return config;
}

ModelShape model_shape(const Config& config) {
  ModelShape shape;
  shape.family = "gpt2";
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
