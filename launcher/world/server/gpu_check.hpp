// Looks at the errors of GPUs before ranks run on them, in a process of its own and within a limit of time: with a
// broken driver NVIDIA's management library may hang or crash. Runs on the loop.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/process/child.hpp"
#include "launcher/world/server/rank_output.hpp"
#include "planner/wire/rank_messages.hpp"

namespace espalier::launcher {

class GpuCheck {
 public:
  using Done = std::function<void(std::vector<wire::GpuFault>)>;

  // `command`: prints faults (print_gpu_faults); it gets the bus ids as one more argument. `gpus`: bus ids by Slurm's
  // number. `done` gets the GPUs on which training is unsafe. Where the command hangs or crashes it gets none, and
  // standard error tells so. Throws Error when the command cannot be started.
  GpuCheck(wire::Loop& loop, std::vector<std::string> command, std::string node, std::map<int, std::string> gpus,
           Done done, std::chrono::milliseconds limit = std::chrono::seconds(5));

  bool done() const { return !done_; }

  // This program, as the command.
  static std::vector<std::string> own_command();

 private:
  void ended(int status);
  void finish(const std::string& problem);
  std::vector<wire::GpuFault> faults() const;

  const std::string node_;
  const std::map<int, std::string> gpus_;
  Done done_;
  std::string printed_;
  std::unique_ptr<RankOutput> output_;
  std::unique_ptr<Child> process_;
  wire::Watch limit_;
};

}  // namespace espalier::launcher
