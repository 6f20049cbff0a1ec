// This host's GPUs, as their driver tells.
#include <set>

#include "planner/cli/doctor/checks.hpp"

namespace espalier::cli::doctor {
namespace {

Finding driver(const Facts& facts) {
  if (!facts.driver_there) return skipped(facts.gpus.why + "; run espalier doctor on a node with GPUs");
  if (!facts.gpus)
    return fault("the GPU driver does not answer: " + facts.gpus.why,
                 {command("nvidia-smi"), command("dmesg | grep -i nvrm")});
  if (facts.gpus->empty()) return fault("the GPU driver has no GPU", {command("nvidia-smi")});
  std::set<std::string> drivers;
  for (const Gpu& gpu : *facts.gpus) drivers.insert(gpu.driver);
  return ok(std::to_string(facts.gpus->size()) + " GPUs (" + facts.gpus->front().name + "), driver " +
            *drivers.begin());
}

Finding persistence(const Facts& facts) {
  if (!facts.gpus) return skipped(facts.gpus.why);
  std::size_t off = 0;
  for (const Gpu& gpu : *facts.gpus)
    if (gpu.persistence != "Enabled") ++off;
  if (off == 0) return ok("persistence mode is on");
  return warning("persistence mode is off on " + std::to_string(off) +
                     " GPUs: the driver initialises a GPU anew for each job that comes to it, while a training waits",
                 {command("systemctl enable --now nvidia-persistenced"), command("nvidia-smi -pm 1")});
}

Finding mig(const Facts& facts) {
  if (!facts.gpus) return skipped(facts.gpus.why);
  for (const Gpu& gpu : *facts.gpus)
    if (gpu.mig == "Enabled")
      return fault("MIG is on (" + gpu.name + "): Espalier lends whole GPUs only", {command("nvidia-smi -mig 0")});
  return ok("MIG is off");
}

}  // namespace

std::span<const Check> gpu_checks() {
  static const Check table[] = {
      {"gpu-driver", Audience::everyone, driver},
      {"gpu-persistence", Audience::everyone, persistence},
      {"mig", Audience::everyone, mig},
  };
  return table;
}

}  // namespace espalier::cli::doctor
