// What the workers of a generation say when they have taken the state: which one, and how long that took. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "planner/wire/messages.hpp"

namespace espalier::launcher {

class LoadReports {
 public:
  struct MovedBytes {
    std::int64_t adopted = 0, copied = 0, sent = 0;
    std::int64_t most_to_a_node = 0;  // of `sent`
    std::int64_t sent_early = 0;      // beside `sent`: before the old generation stood
  };
  explicit LoadReports(int ranks) : ranks_(ranks) {}

  // A rank on `node` has the state. True: all have. Throws Error when another rank has taken another state.
  bool took(int rank, const std::string& node, const wire::Loaded& loaded);

  // Once all have it.
  const wire::Loaded& taken() const { return *taken_; }  // the step, and where the state came from
  std::map<std::string, double> phases_ms() const;       // the longest that any rank took, by phase
  MovedBytes moved_bytes() const;

 private:
  struct Report {
    std::string node;
    wire::Loaded loaded;
  };
  const int ranks_;
  std::map<int, Report> reports_;  // by rank
  std::optional<wire::Loaded> taken_;
};

}  // namespace espalier::launcher
