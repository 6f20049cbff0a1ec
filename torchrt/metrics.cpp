#include "torchrt/metrics.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/core/text_limits.hpp"
#include "torchrt/model_flops.hpp"
#include "torchrt/write_file.hpp"

namespace espalier::torchrt {

namespace {

// Drops the lines of steps after `done`. They will be made again, and every step has one line. Where they are the last
// ones the file is only cut, which a full disk allows.
void drop_later(const std::string& path, std::int64_t done) {
  std::ifstream in(path);
  if (!in) return;
  std::string kept;
  bool dropped = false, last_ones = true;
  for (std::string line; std::getline(in, line);) {
    const Json json = try_json(line);
    if (json.is_object() && json.contains("step") && json["step"].is_number() && json["step"] <= done) {
      last_ones = last_ones && !dropped;
      kept += line + "\n";
    } else {
      dropped = true;
    }
  }
  std::error_code problem;
  if (last_ones && std::filesystem::file_size(path, problem) >= kept.size() && !problem) {
    std::filesystem::resize_file(path, kept.size(), problem);
    if (!problem) return;
  }
  const std::string next = path + ".tmp";
  write_whole_file(next, kept);
  std::filesystem::rename(next, path);
}

}  // namespace

Metrics::Metrics(const Config& config, MetricsSetting setting, std::optional<std::int64_t> done, LineFile::Tell tell)
    : path_(config.metrics.path),
      setting_(std::move(setting)),
      progress_every_(config.metrics.progress_every),
      validation_samples_(config.data.validation_samples),
      total_steps_(config.training.steps),
      tokens_per_step_(static_cast<double>(config.training.global_batch) * config.model.sequence),
      flops_per_token_(model_flops_per_token(config.model)) {
  if (path_.empty()) return;
  const bool first = setting_.generation == 0;
  try {
    prepare_file(done);
  } catch (const std::exception& problem) {  // Error, or what std::filesystem throws
    const std::string why = "metrics.path: lines of steps that will be done again stay: " + std::string(problem.what());
    if (first) throw Error(why + "; make room there, or choose another path");
    file_.emplace("metrics.path", path_, LineFile::Absent::is_told, tell);
    file_->say(why);
    return;
  }
  file_.emplace("metrics.path", path_, first ? LineFile::Absent::is_error : LineFile::Absent::is_told, tell);
}

void Metrics::prepare_file(std::optional<std::int64_t> done) const {
  if (!done || !std::filesystem::is_regular_file(path_)) return;
  if (*done > 0) drop_later(path_, *done);
  else std::filesystem::resize_file(path_, 0);
}

void Metrics::write_line(const std::string& text) {
  if (file_) file_->append(text);
}

namespace {
double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}
}  // namespace

// Unknown values become null.
void Metrics::write_step(const StepRecord& step, double tokens_per_second, double utilization) {
  Json line = {{"step", step.step},
               {"time", unix_seconds()},
               {"loss", step.loss},
               {"gradient_norm", step.gradient_norm},
               {"learning_rate", step.learning_rate},
               {"seconds", step.seconds},
               {"tokens_per_second", tokens_per_second},
               {"mfu", utilization},
               {"generation", setting_.generation},
               {"gpus", setting_.gpus},
               {"plan", setting_.plan},
               {"micro_batches", setting_.micro_batches}};
  if (step.ahead_loss) line["mtp_loss"] = *step.ahead_loss;
  write_line(line.dump() + "\n");
}

// The file may have millions of lines, and all GPUs wait: a line without the figure's name and the step's number as
// text is not parsed.
bool Metrics::has(const char* figure, std::int64_t step) const {
  const std::string number = std::to_string(step);
  std::ifstream in(path_);
  for (std::string line; std::getline(in, line);) {
    if (line.find(figure) == std::string::npos || line.find(number) == std::string::npos) continue;
    const Json json = try_json(line);
    if (json.is_object() && json.contains(figure) && json.contains("step") && json["step"] == step) return true;
  }
  return false;
}

void Metrics::record_missing(const StepRecord& step) {
  if (!has("loss", step.step)) write_step(step, std::nan(""), std::nan(""));
}

void Metrics::record(const StepRecord& step) {
  const double tokens_per_second = tokens_per_step_ / step.seconds;
  const double peak = setting_.peak_flops * setting_.gpus;
  const double utilization = peak > 0 ? tokens_per_second * flops_per_token_ / peak : 0;
  write_step(step, tokens_per_second, peak > 0 ? utilization : std::nan(""));
  if (progress_every_ == 0 || (step.step % progress_every_ != 0 && step.step != total_steps_)) return;
  char mfu[32] = "";
  if (peak > 0) std::snprintf(mfu, sizeof mfu, "  MFU %.1f%%", utilization * 100);
  std::printf("step %lld/%lld  loss %.4f  norm %.3f  lr %.2e  %.0f ms  %.0f tokens/s%s  %d GPUs  %s\n",
              static_cast<long long>(step.step), static_cast<long long>(total_steps_), step.loss, step.gradient_norm,
              step.learning_rate, step.seconds * 1e3, tokens_per_second, mfu, setting_.gpus, setting_.plan.c_str());
  std::fflush(stdout);
}

void Metrics::record_validation(std::int64_t step, double loss, double seconds) {
  const Json line = {{"step", step},
                     {"validation_loss", loss},
                     {"validation_samples", validation_samples_},
                     {"seconds", seconds},
                     {"generation", setting_.generation}};
  write_line(line.dump() + "\n");
  if (progress_every_ == 0) return;
  std::printf("step %lld/%lld  validation loss %.4f\n", static_cast<long long>(step),
              static_cast<long long>(total_steps_), loss);
  std::fflush(stdout);
}

}  // namespace espalier::torchrt
