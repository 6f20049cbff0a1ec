#include "torchrt/reported_shape.hpp"

#include <cerrno>
#include <cstdio>

#include "torchrt/model/torch_version.hpp"

namespace espalier::torchrt {

ModelShape reported_shape(const Config& config) {
  ModelShape shape = model_shape(config);
  TrainingSetting& setting = shape.setting.emplace();
  setting.program = std::string(program_invocation_short_name) + " " ESPALIER_VERSION;
  setting.runtime = "torch " + torch_version() + ", " + std::to_string(config.training.threads) +
                    (config.training.threads == 1 ? " thread" : " threads");
  if (config.device.gflops > 0) {
    char text[64];
    std::snprintf(text, sizeof text, ", paced at %.6g GFLOPS", config.device.gflops);
    setting.runtime += text;
  }
  if (config.device.times) {
    char text[64];
    std::snprintf(text, sizeof text, ", paced by table %016llx",
                  static_cast<unsigned long long>(config.device.times->checksum()));
    setting.runtime += text;
  }
  setting.precision = config.training.dtype == DataType::float32 ? "float32" : "bfloat16";
  setting.schedule = config.training.schedule;
  if (const int chunks = config.parallel.limits.chunks; chunks > 1)
    setting.schedule += ", " + std::to_string(chunks) + " chunks";
  setting.recompute = config.training.recompute;
  setting.zero1 = config.training.zero1;
  return shape;
}

}  // namespace espalier::torchrt
