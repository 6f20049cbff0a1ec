#include "torchrt/metrics.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"

namespace espalier::torchrt {

Metrics::Metrics(const std::string& path, bool fresh, int generation, int gpus, std::string plan, int progress_every,
                 std::int64_t total_steps)
    : path_(path),
      plan_(std::move(plan)),
      generation_(generation),
      gpus_(gpus),
      progress_every_(progress_every),
      total_steps_(total_steps) {
  if (path.empty()) return;
  file_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (fresh ? O_TRUNC : 0), 0644));
  if (!file_) throw Error("metrics file " + path + ": " + std::strerror(errno) + "; set metrics.path");
}

void Metrics::record(const StepRecord& step) {
  if (file_) {
    const Json line = {{"step", step.step},
                       {"loss", step.loss},
                       {"seconds", step.seconds},
                       {"tokens_per_second", step.tokens_per_second},
                       {"generation", generation_},
                       {"gpus", gpus_},
                       {"plan", plan_}};
    const std::string text = line.dump() + "\n";
    if (::write(file_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw Error("metrics file " + path_ + ": a line could not be written: " + std::strerror(errno));
  }
  if (progress_every_ > 0 && (step.step % progress_every_ == 0 || step.step == total_steps_)) {
    std::printf("step %lld/%lld  loss %.4f  %.0f ms  %.0f tokens/s  %s\n", static_cast<long long>(step.step),
                static_cast<long long>(total_steps_), step.loss, step.seconds * 1e3, step.tokens_per_second,
                plan_.c_str());
    std::fflush(stdout);
  }
}

}  // namespace espalier::torchrt
