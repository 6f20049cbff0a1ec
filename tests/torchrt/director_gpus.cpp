#include "tests/torchrt/director_gpus.hpp"

#include <cstdlib>
#include <string>

using namespace espalier;

namespace {

constexpr int kNodes = 4, kGpus = 8;

int variable(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : 0;
}

int of_machine() { return variable("STAGE_DIRECTOR_GPUS"); }
int of_job() { return variable("STAGE_DIRECTOR_JOB_GPUS"); }

JobId job_of(const GpuId& gpu) {
  const int node = gpu.node[0] - 'a';
  return static_cast<JobId>(100 * (node + 1) + (of_job() > 0 ? gpu.index / of_job() : 0));
}

}  // namespace

std::optional<int> DirectorGpus::place(const GpuId& gpu) {
  if (of_job() > 0) return gpu.index % of_job();
  if (of_machine() > 0) return (gpu.node[0] - 'a') * of_machine() + gpu.index;
  return std::nullopt;
}

void DirectorGpus::heard(const GpuId& gpu, const wire::Ready& ready) {
  std::vector<int> own = ready.gpu_islands;
  // The launcher's ranks see no GPU of another node.
  if (of_job() == 0 && of_machine() > 0 && !own.empty()) {
    const auto first = own.begin() + (gpu.node[0] - 'a') * of_machine();
    own = std::vector<int>(first, first + of_machine());
  }
  if (!own.empty()) islands_[launcher::islands_key({gpu.node, job_of(gpu)})] = own;
}

wire::GpuJobs DirectorGpus::jobs() const {
  if (of_job() == 0 && of_machine() == 0) return {};
  launcher::WorldRequest request;
  request.islands = islands_;
  const int each = of_job() > 0 ? of_job() : kGpus;
  for (int node = 0; node < kNodes; ++node)
    for (int first = 0; first < kGpus; first += each) {
      Holding holding{0, std::string(1, static_cast<char>('a' + node)), {}};
      if (lost_.count(holding.node) != 0) continue;
      for (int index = first; index < first + each; ++index) holding.gpus.push_back(index);
      holding.job = job_of({holding.node, first});
      request.holdings.push_back(holding);
    }
  return launcher::jobs_of(request);
}
