#include "launcher/world/server/gpu_check.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <utility>

#include "launcher/world/server/nvml.hpp"

namespace espalier::launcher {
namespace {

constexpr std::size_t kMostBytes = 64 << 10, kLongestFault = 300;

}  // namespace

std::vector<std::string> GpuCheck::own_command() {
  return {"/proc/self/exe", kPrintGpuFaults};  // also after an upgrade has put another file in its place
}

GpuCheck::GpuCheck(wire::Loop& loop, std::vector<std::string> command, std::string node,
                   std::map<int, std::string> gpus, Done done, std::chrono::milliseconds limit)
    : node_(std::move(node)), gpus_(std::move(gpus)), done_(std::move(done)) {
  std::string list;
  for (const auto& [number, bus_id] : gpus_) list += (list.empty() ? "" : ",") + bus_id;
  command.push_back(list);
  output_ = std::make_unique<RankOutput>(loop, false, [this](const std::string& text) {
    if (printed_.size() < kMostBytes) printed_ += text;
  });
  Child::Traits traits;
  traits.output = output_->writer();
  process_ =
      std::make_unique<Child>(loop, command, clean_environment({}), traits, [this](int status) { ended(status); });
  output_->started();
  limit_ = loop.after(limit, [this, limit] {
    process_.reset();  // killed
    finish("has not answered within " + std::to_string(limit.count() / 1000) + " s");
  });
}

void GpuCheck::ended(int status) {
  output_->drain();
  const int code = exit_code(status);
  if (code > 128) return finish("was ended by signal " + std::to_string(code - 128));
  finish(code == 0 ? "" : "failed with exit code " + std::to_string(code));
}

void GpuCheck::finish(const std::string& problem) {
  limit_.reset();
  const auto done = std::exchange(done_, nullptr);
  if (!done) return;
  if (problem.empty()) return done(faults());
  std::fprintf(
      stderr,
      "espalier: ranks: %s: the look at the errors of its GPUs %s, and training starts without it; see whether "
      "nvidia-smi works there, or set health.gpu_errors = false\n",
      node_.c_str(), problem.c_str());
  done({});
}

std::vector<wire::GpuFault> GpuCheck::faults() const {
  std::vector<wire::GpuFault> found;
  std::istringstream lines(printed_);
  for (std::string bus_id, text; lines >> bus_id && std::getline(lines >> std::ws, text);) {
    const auto gpu = std::find_if(gpus_.begin(), gpus_.end(), [&](const auto& one) { return one.second == bus_id; });
    if (gpu != gpus_.end()) found.push_back({gpu->first, "(" + bus_id + "): " + text.substr(0, kLongestFault)});
  }
  return found;
}

}  // namespace espalier::launcher
