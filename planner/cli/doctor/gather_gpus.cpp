// Asks this host's GPU driver, by nvidia-smi.
#include <unistd.h>

#include <sstream>

#include "planner/cli/doctor/bounded.hpp"
#include "planner/cli/doctor/gather.hpp"

namespace espalier::cli::doctor {
namespace {

constexpr double kSeconds = 60;  // without persistence mode the driver first initialises every GPU

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<Gpu> read_table(const std::string& text) {
  std::vector<Gpu> gpus;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    Gpu gpu;
    for (std::string* cell : {&gpu.name, &gpu.driver, &gpu.persistence, &gpu.mig}) {
      std::getline(cells, *cell, ',');
      *cell = trimmed(*cell);
    }
    if (!gpu.name.empty()) gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace

void gather_gpus(Facts& facts) {
  facts.driver_there = ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/proc/driver/nvidia/version", F_OK) == 0;
  if (!facts.driver_there) {
    facts.gpus.why = "this host has no NVIDIA driver";
    return;
  }
  const Bounded reply = run_bounded(
      {"nvidia-smi", "--query-gpu=name,driver_version,persistence_mode,mig.mode.current", "--format=csv,noheader"},
      kSeconds);
  facts.gpus = reply.succeeded() ? Learned<std::vector<Gpu>>(read_table(reply.output))
                                 : Learned<std::vector<Gpu>>::unknown(reply.problem());
}

}  // namespace espalier::cli::doctor
