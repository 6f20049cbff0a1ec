// Rank 0's reports of each step: a JSON line in a file and, now and then, a line for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "torchrt/config.hpp"
#include "torchrt/line_file.hpp"

namespace espalier::torchrt {

struct StepRecord {
  std::int64_t step = 0;
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  double seconds = 0;
  std::optional<double> ahead_loss = std::nullopt;  // mean of the MTP modules' losses, where there are any
};

// The values that all lines of one plan share.
struct MetricsSetting {
  int generation = 0;
  int gpus = 0;
  std::string plan;
  int micro_batches = 0;
  double peak_flops = 0;  // per second, of one GPU; 0: unknown, no MFU is reported
};

class Metrics {
 public:
  // Continues the file of [metrics], if one is set. `done`: the job starts after this step, so
  // lines of later steps are dropped (0: all lines). Throws Error where the file cannot be opened or
  // rewritten, for the first generation only: another one is not given up for it. `tell`: as LineFile's.
  Metrics(const Config& config, MetricsSetting setting, std::optional<std::int64_t> done, LineFile::Tell tell = {});
  // The lines that follow are of another plan of the same generation.
  void replanned(std::string plan, int micro_batches) {
    setting_.plan = std::move(plan);
    setting_.micro_batches = micro_batches;
  }
  // One write(2) with O_APPEND per record: lines of two generations never mix. A line that cannot be written is lost.
  void record(const StepRecord& step);
  // Records a step that another generation made but perhaps did not live to record. Its times are
  // unknown. Does nothing when the file holds the step.
  void record_missing(const StepRecord& step);
  void record_validation(std::int64_t step, double loss, double seconds);
  // Whether a file was named. It may not have been possible to open it.
  bool has_file() const { return !path_.empty(); }
  // Whether the file has the validation after `step`. Without a file it is not known, and the answer is no.
  bool has_validation(std::int64_t step) const { return has("validation_loss", step); }

 private:
  bool has(const char* figure, std::int64_t step) const;
  void write_step(const StepRecord& step, double tokens_per_second, double utilization);
  void write_line(const std::string& text);
  void prepare_file(std::optional<std::int64_t> done) const;

  std::string path_;
  MetricsSetting setting_;
  int progress_every_, validation_samples_;
  std::int64_t total_steps_;
  double tokens_per_step_, flops_per_token_;
  std::optional<LineFile> file_;
};

}  // namespace espalier::torchrt
