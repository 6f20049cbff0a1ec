// A training configuration: a TOML file whose every key is checked, and overrides from the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::torchrt {

struct ModelConfig {
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int sequence = 0;      // tokens per sample
  int vocabulary = 256;  // bytes
  bool operator==(const ModelConfig&) const = default;
};

struct TrainingConfig {
  std::int64_t steps = 0;
  int global_batch = 0;   // samples per step, whatever the plan
  int micro_batches = 1;  // divides global_batch; plans of the planner may choose another number
  std::uint64_t seed = 1;
  double learning_rate = 1e-3;
  double minimum_learning_rate = 1e-4;  // at the end of the cosine
  std::int64_t warmup_steps = 0;
  double weight_decay = 0.1;  // of matrices only
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double clip_norm = 1.0;         // of the whole gradient; 0: no clipping
  std::string schedule = "1f1b";  // or "gpipe"
};

struct Config {
  std::string path;
  ModelConfig model;
  TrainingConfig training;
  std::string data_path;     // raw bytes; each byte is a token
  std::string metrics_path;  // JSON lines; empty: none
  int progress_every = 10;   // steps between two progress lines; 0: none
};

// `overrides` are "section.key=value" and win over the file. Throws Error naming file (or override), line and key for
// anything unknown, ill-typed, out of range or missing.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

ModelShape model_shape(const Config& config);

}  // namespace espalier::torchrt
