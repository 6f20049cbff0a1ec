#include "planner/core/model/unseen_types.hpp"

#include <algorithm>
#include <cstddef>

#include "planner/core/model/roofline.hpp"

namespace espalier {

void scale_to_unseen_types(JobCoefficients& job, const Hardware& hardware, std::vector<std::string>& remarks) {
  const auto reference = [&](auto assumed) {
    const auto at = std::find_if(job.gpu.begin(), job.gpu.end(), [&](const auto& gpu) { return !(gpu.*assumed); });
    return at == job.gpu.end() ? -1 : static_cast<int>(at - job.gpu.begin());
  };
  const int comp = reference(&GpuCoefficients::assumed_comp);
  const int optim = reference(&GpuCoefficients::assumed_optim);
  const int overlap = reference(&GpuCoefficients::assumed_overlap);
  const bool by_bandwidth = bandwidths_known(hardware);
  const double traffic = compared_traffic(hardware, job.traffic_per_flop);
  if (optim < 0) remarks.push_back("the optimizer was not timed: it is taken to cost nothing");
  for (std::size_t type = 0; type < job.gpu.size(); ++type) {
    GpuCoefficients& gpu = job.gpu[type];
    const auto faster = [&](int than, double traffic_per_flop) {
      return times_as_fast(hardware.types[type], hardware.types[static_cast<std::size_t>(than)], traffic_per_flop);
    };
    if (gpu.assumed_comp) {
      gpu.comp = job.gpu[static_cast<std::size_t>(comp)].comp / faster(comp, traffic);
      gpu.backward = job.gpu[static_cast<std::size_t>(comp)].backward;
    }
    if (gpu.assumed_optim && optim >= 0) {
      const GpuType& here = hardware.types[type];
      const GpuType& there = hardware.types[static_cast<std::size_t>(optim)];
      // Memory bandwidth bounds the optimizer. If a bandwidth is unknown, TFLOPS stand in for it.
      gpu.optim = job.gpu[static_cast<std::size_t>(optim)].optim /
                  (by_bandwidth ? here.memory_bandwidth / there.memory_bandwidth : faster(optim, 0));
    }
    if (gpu.assumed_overlap && overlap >= 0) gpu.overlap = job.gpu[static_cast<std::size_t>(overlap)].overlap;
  }
}

}  // namespace espalier
