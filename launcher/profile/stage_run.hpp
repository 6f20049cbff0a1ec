// One run of `PROGRAM ... --profile-plan FILE --stage N --replica R`: one stage on this process's GPU.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/child_output.hpp"
#include "planner/core/json.hpp"

namespace espalier::launcher {

// The program is killed when this object is destroyed.
class StageRun {
 public:
  // `plan`: JSON, which the program reads from a file in memory. `done` is called once, on the loop, with the
  // StageProfile that the program printed; with nothing when it failed or took longer than ten minutes. Throws Error
  // when the program cannot be started.
  StageRun(wire::Loop& loop, std::vector<std::string> program, const std::string& plan, int stage, int replica,
           std::function<void(std::optional<Json>)> done);

 private:
  std::unique_ptr<ChildOutput> child_;
};

}  // namespace espalier::launcher
