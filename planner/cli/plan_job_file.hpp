// The job of `espalier plan`: a TOML file with the training and any measurement of its speed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/model/model_sizes.hpp"

namespace espalier::cli {

// The plan of a measurement: equal stages on the cluster's first GPUs.
struct PresentDegrees {
  int pp = 1, dp = 1, tp = 1, micro_batches = 1;
  int gpus() const { return pp * dp * tp; }
  bool operator==(const PresentDegrees&) const = default;
};

struct PlanJob {
  std::string path;   // the file's path
  std::string model;  // for people: a published model's name, a path, or the family
  ModelShape shape;   // micro_batches 0: the planner chooses them
  std::string precision = "bf16";
  Training training;
  Accuracy accuracy = Accuracy::relaxed;
  int min_gpus = 1, max_gpus = 1 << 20;
  std::vector<std::string> gpu_types;  // empty: all
  // Pipeline schedule, by name or "auto", and chunks of each stage (0: what the schedule has).
  std::string schedule = "1f1b";
  int chunks = 0;
  std::string lists;  // CSV of the plans that have its stages and micro-batches (model/own_lists.hpp); empty: none
  // Share of its peak (GpuType::tflops) that a GPU's computation reaches. Used if nothing was
  // measured.
  double utilization = 0;
  double step_seconds = 0;  // measured on `present`; 0: nothing was measured
  std::optional<PresentDegrees> present;
};

// Writes schedule and chunks into the job as a program would report them. Throws Error, beginning with `where`, when
// there is no such schedule or it cannot have so many chunks.
void set_schedule(ElasticJob& job, const std::string& schedule, int chunks, const std::string& where);
// The file's, with its lists.
void set_schedule(ElasticJob& job, const PlanJob& file);

// Of a training in "fp32" or "bf16".
ElementBytes element_bytes(const std::string& precision);

// Throws Error, naming file, line and key.
PlanJob read_plan_job(const std::string& path);

}  // namespace espalier::cli
