#include "launcher/world/server/nvml.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <regex>
#include <sstream>

namespace espalier::launcher {
namespace {

// Of nvml.h, whose numbers and layouts do not change between drivers.
using Result = int;
using Device = void*;
constexpr Result kSuccess = 0, kGpuIsLost = 15, kResetRequired = 16;
constexpr int kUncorrected = 1, kVolatile = 0;
constexpr unsigned kMigEnabled = 1;
constexpr unsigned kRecoveryAction = 230;  // NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  int type;
  Result result;
  union {
    unsigned whole;
    unsigned long long bytes;
  } value;
};
static_assert(sizeof(FieldValue) == 40);

class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  bool there() const { return library_ != nullptr; }

  // An older driver's library has fewer functions.
  template <class... Arguments>
  Result call(const char* name, Arguments... arguments) const {
    constexpr Result kFunctionNotFound = 13;
    void* const found = library_ == nullptr ? nullptr : ::dlsym(library_, name);
    if (found == nullptr) return kFunctionNotFound;
    return reinterpret_cast<Result (*)(Arguments...)>(found)(arguments...);
  }

 private:
  void* library_;
};

// A GPU may be lost between two questions.
class Questions {
 public:
  Questions(const Nvml& nvml, GpuErrors& gpu) : nvml_(nvml), gpu_(gpu) {}

  template <class... Arguments>
  bool ask(const char* name, Arguments... arguments) {
    const Result result = nvml_.call(name, arguments...);
    if (result == kGpuIsLost) gpu_.state = GpuErrors::State::lost;
    if (result == kResetRequired) gpu_.state = GpuErrors::State::needs_reset;
    return result == kSuccess;
  }

 private:
  const Nvml& nvml_;
  GpuErrors& gpu_;
};

GpuErrors read(const Nvml& nvml, const std::string& bus_id) {
  GpuErrors gpu;
  Questions questions(nvml, gpu);
  Device device = nullptr;
  if (!questions.ask("nvmlDeviceGetHandleByPciBusId_v2", bus_id.c_str(), &device)) return gpu;
  gpu.state = GpuErrors::State::reached;

  unsigned now = 0, later = 0;
  gpu.mig = questions.ask("nvmlDeviceGetMigMode", device, &now, &later) && now == kMigEnabled;
  if (gpu.mig) return gpu;
  int major = 0, minor = 0;
  if (questions.ask("nvmlDeviceGetCudaComputeCapability", device, &major, &minor)) gpu.major = major, gpu.minor = minor;
  unsigned long long count = 0;
  if (questions.ask("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kVolatile, &count)) gpu.uncorrectable = count;
  int pages = 0;
  if (questions.ask("nvmlDeviceGetRetiredPagesPendingStatus", device, &pages)) gpu.pages_pending = pages != 0;
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (questions.ask("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending, &failed)) {
    gpu.rows_remapped = corrected + uncorrected;
    gpu.remapping_pending = pending != 0;
    gpu.remapping_failed = failed != 0;
  }
  FieldValue field{kRecoveryAction, 0, 0, 0, 0, 0, {0}};
  if (questions.ask("nvmlDeviceGetFieldValues", device, 1, &field) && field.result == kSuccess)
    gpu.recovery_action = field.value.whole;
  return gpu;
}

}  // namespace

std::map<std::string, GpuErrors> read_gpu_errors(const std::vector<std::string>& bus_ids) {
  std::map<std::string, GpuErrors> found;
  const Nvml nvml;
  if (!nvml.there() || nvml.call("nvmlInit_v2") != kSuccess) return found;
  for (const std::string& bus_id : bus_ids) found[bus_id] = read(nvml, bus_id);
  return found;
}

namespace {

// Domain, bus, device and function, in hexadecimal digits: "0000:41:00.0".
bool is_bus_id(const std::string& text) {
  static const std::regex form("[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\\.[0-7]");
  return std::regex_match(text, form);
}

}  // namespace

int print_gpu_faults(const std::string& bus_ids) {
  std::vector<std::string> list;
  std::istringstream in(bus_ids);
  for (std::string one; std::getline(in, one, ',');) {
    if (!is_bus_id(one)) {
      std::fprintf(stderr, "espalier: ranks: %s: \"%s\" is no bus id, as 0000:41:00.0\n", kPrintGpuFaults, one.c_str());
      return 2;
    }
    list.push_back(one);
  }
  for (const auto& [bus_id, errors] : read_gpu_errors(list))
    if (const std::string fault = fault_of(errors); !fault.empty())
      std::printf("%s %s\n", bus_id.c_str(), fault.c_str());
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace espalier::launcher
