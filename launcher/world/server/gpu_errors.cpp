#include "launcher/world/server/gpu_errors.hpp"

namespace espalier::launcher {
namespace {

constexpr const char* kReset = "; reset the GPU or drain the node";

// nvmlDeviceGpuRecoveryAction_t. Empty: the GPU can be used meanwhile, or the number's meaning is not settled.
std::string asked_for(std::uint32_t action) {
  return action == 1 ? "a reset of the GPU" : action == 2 ? "a reboot of the node" : "";
}

// Takes pages with errors out of use while programs run (GA100, GH100, GB10x).
bool offlines_pages(const GpuErrors& gpu) {
  return (gpu.major == 8 && gpu.minor == 0) || (gpu.major == 9 && gpu.minor == 0) || gpu.major == 10;
}

std::string counted(const GpuErrors& gpu) {
  std::string text;
  if (gpu.uncorrectable > 0)
    text = std::to_string(gpu.uncorrectable) + " uncorrectable ECC error" + (gpu.uncorrectable == 1 ? "" : "s") +
           " since its driver was loaded";
  if (gpu.rows_remapped > 0)
    text += (text.empty() ? "" : ", ") + std::to_string(gpu.rows_remapped) + " row" +
            (gpu.rows_remapped == 1 ? "" : "s") + " remapped before";
  return text.empty() ? "" : " (" + text + ")";
}

}  // namespace

std::string fault_of(const GpuErrors& gpu) {
  using enum GpuErrors::State;
  if (gpu.mig || gpu.state == unknown) return "";
  if (gpu.state == lost) return "its driver has lost it; reboot or drain the node";
  if (gpu.state == needs_reset) return std::string("its driver says that it must be reset before it is used") + kReset;
  if (const std::string action = asked_for(gpu.recovery_action); !action.empty())
    return "its driver asks for " + action + counted(gpu) + "; do that or drain the node";
  if (gpu.remapping_failed)
    return "a row of its memory has errors and could not be remapped" + counted(gpu) +
           "; drain the node and have the GPU replaced";
  if (gpu.major == 0) return "";
  if (gpu.remapping_pending && !offlines_pages(gpu))
    return "a row of its memory has errors and waits to be remapped" + counted(gpu) + kReset;
  if (gpu.major >= 8) return "";
  if (gpu.pages_pending) return "a page of its memory has errors and waits to be retired" + counted(gpu) + kReset;
  if (gpu.uncorrectable > 0) return "it cannot be used before a reset" + counted(gpu) + kReset;
  return "";
}

}  // namespace espalier::launcher
