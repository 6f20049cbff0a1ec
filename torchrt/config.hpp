// A training configuration: a TOML file and overrides from the command line. Every key is checked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/pipeline/schedule.hpp"
#include "torchrt/comm/buffer.hpp"
#include "torchrt/model/model_config.hpp"
#include "torchrt/unit_times.hpp"

namespace espalier::torchrt {

inline constexpr std::int64_t kMostSteps = 1'000'000'000;  // of a training

struct TrainingConfig {
  std::int64_t steps = 0;
  int global_batch = 0;   // samples per step, the same in every plan
  int micro_batches = 1;  // divides global_batch; plans of the planner may choose another number
  std::uint64_t seed = 1;
  double learning_rate = 1e-3;
  double minimum_learning_rate = 1e-4;  // at the end of the cosine
  std::int64_t warmup_steps = 0;
  double weight_decay = 0.1;  // of matrices only
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double clip_norm = 1.0;         // of the whole gradient; 0: no clipping
  std::string schedule = "1f1b";  // a name of planner/core/pipeline/generate.hpp
  // From a file; for plans of its number of stages and micro-batches. Null: none.
  std::shared_ptr<const pipeline::Schedule> given_schedule = {};
  DataType dtype = DataType::float32;  // of parameters and activations; float32 or bfloat16
  Accuracy accuracy = Accuracy::bitwise;
  bool zero1 = false;      // the optimizer's state is divided among a stage's replicas
  bool recompute = false;  // activations are computed again in backward
  int threads = 1;         // of one rank on CPU
};

enum class TokenFormat { bytes, uint16, uint32 };  // little endian

struct DataConfig {
  std::string path;
  TokenFormat format = TokenFormat::bytes;  // of both files
  std::string validation;                   // empty: none
  std::int64_t validate_every = 0;          // steps; 0: never
  int validation_samples = 0;               // a multiple of the global batch
  bool changed = false;                     // train on, though the files are not those of the steps before
};

struct CheckpointConfig {
  std::string directory;      // empty: none is written or read
  std::int64_t every = 1000;  // steps, and after the last one; 0: only then
  double minutes = 30;        // at most so long after the one before, though `every` is not reached; 0: no limit
  int keep = 2;               // good ones; older ones are removed
  bool resume = true;         // start from the newest good one, if there is one
};

struct RecoveryConfig {
  // Steps between two copies of the state in memory, here and on another node; 0: none.
  int snapshot_steps = 0;
};

struct MetricsConfig {
  std::string path;         // JSON lines; empty: none
  int progress_every = 10;  // steps between two progress lines; 0: none
  double peak_tflops = 0;   // of one GPU in training.dtype, for MFU; 0: from a table, by the card's name
};

struct ProfileConfig {
  std::int64_t every = 100;  // steps between two profiles; 0: none is made
  // Steps that are measured at the start of a generation, one after the other, until they agree;
  // 0: only every so many steps.
  std::int64_t dense = 32;
  std::string path;  // JSON lines; empty: profiles only go to the planner
  // Seconds between two looks at the links between nodes (profiler/link_looks.hpp); 0: none.
  int links = 600;
  std::string trace;  // folder for the measured operations of every rank; empty: none
};

struct HandoffConfig {
  HandoffMethod method = HandoffMethod::adopt;  // checkpoint and overlap need checkpoint.directory
  bool early = true;                            // send state before the pause where possible
};

struct ParallelConfig {
  ParallelLimits limits;
  std::string plan;  // file (JSON) of limits.first; empty: none
};

// CPU only: imitate a device (pace.hpp) of this speed, or one whose operations take the times of a table.
struct DeviceConfig {
  double gflops = 0;  // 0: full speed
  std::shared_ptr<const DeviceTimes> times;
  bool jobs_reach = true;  // as wire::Ready says it
  bool imitated() const { return gflops > 0 || times; }
  UnitTimes times_of(const ModelConfig& model, int unit, int tp, int samples) const {
    return times ? times->of(model, unit, tp, samples) : unit_times(model, unit, tp, samples, 1e9 * gflops);
  }
};

struct Config {
  std::string path;
  ModelConfig model;
  std::string weights;  // safetensors file, index or folder to start from; empty: random values
  TrainingConfig training;
  ParallelConfig parallel;
  DeviceConfig device;
  DataConfig data;
  CheckpointConfig checkpoint;
  RecoveryConfig recovery;
  MetricsConfig metrics;
  ProfileConfig profile;
  HandoffConfig handoff;
};

// `overrides` are "section.key=value" and win over the file. Throws Error for a key that is
// unknown, ill-typed, out of range or missing. The Error names the file (or override), the line and
// the key.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

ModelShape model_shape(const Config& config);

}  // namespace espalier::torchrt
