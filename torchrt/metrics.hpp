// What rank 0 tells the world about each step: a JSON line in a file and, now and then, a line for people.
#pragma once

#include <cstdint>
#include <string>

#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

struct StepRecord {
  std::int64_t step = 0;
  double loss = 0;
  double seconds = 0;
  double tokens_per_second = 0;
};

class Metrics {
 public:
  // `fresh` empties the file: the job starts. A later generation appends. `path` empty: no file. Throws Error.
  Metrics(const std::string& path, bool fresh, int generation, int gpus, std::string plan, int progress_every,
          std::int64_t total_steps);
  // One write(2) with O_APPEND per record: lines of two generations never mix. Throws Error when it fails.
  void record(const StepRecord& step);

 private:
  std::string path_, plan_;
  int generation_, gpus_, progress_every_;
  std::int64_t total_steps_;
  UniqueFd file_;
};

}  // namespace espalier::torchrt
