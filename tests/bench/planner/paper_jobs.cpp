#include "tests/bench/planner/paper_jobs.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "planner/core/error.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/published_models.hpp"

namespace espalier::bench {
namespace {

// NVIDIA H100 SXM data sheet: 989 TFLOPS dense BF16, 80 GB, 3.35 TB/s.
constexpr double kTflops = 989, kUtilization = 0.45;

constexpr std::array<PaperJob, 17> kJobs{{
    {"gpt2-350m", JobSize::S, 1, 1, 1},
    {"gpt2-1.3b", JobSize::S, 1, 4, 1},
    {"gpt2-2.6b", JobSize::S, 1, 4, 1},
    {"qwen2-0.5b", JobSize::S, 1, 1, 1},
    {"qwen2-1.5b", JobSize::S, 1, 4, 1},
    {"gpt2-6.7b", JobSize::M, 1, 4, 2},
    {"llama2-7b", JobSize::M, 1, 4, 2},
    {"qwen2-7b", JobSize::M, 1, 4, 2},
    {"gpt2-15b", JobSize::L, 1, 4, 4},
    {"llama2-13b", JobSize::L, 1, 4, 4},
    {"gpt2-39b", JobSize::XL, 2, 4, 4},
    {"llama-30b", JobSize::XL, 2, 4, 4},
    {"gpt2-76b", JobSize::XL, 2, 4, 8},
    {"llama-65b", JobSize::XL, 2, 4, 8},
    {"qwen2-72b", JobSize::XL, 2, 4, 8},
    {"llama2-70b", JobSize::XL, 3, 8, 8},
    {"gpt2-175b", JobSize::XL, 4, 8, 8},
}};

std::string letters(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '.')
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

}  // namespace

std::span<const PaperJob> paper_jobs() { return kJobs; }

const PaperJob& paper_job(const std::string& model) {
  std::string known;
  for (const PaperJob& job : paper_jobs()) {
    if (letters(job.model) == letters(model)) return job;
    known += std::string(known.empty() ? "" : ", ") + job.model;
  }
  throw Error("model \"" + model + "\": not one of the paper's jobs; use one of " + known);
}

Site paper_cluster(int nodes, int rack_nodes) {
  Site site;
  site.hardware.types.push_back({"h100", kTflops, 80e9, 3.35e9});
  site.hardware.kinds.push_back({360e6, 360e6, 42.5e6, 8});
  for (int n = 0; n < nodes; ++n) {
    char name[16], rack[16];
    std::snprintf(name, sizeof name, "n%04d", n);
    std::snprintf(rack, sizeof rack, "rack%03d", n / rack_nodes);
    site.topology.add_node(name, 0, std::vector<std::int16_t>(8, 0), {"spine", rack});
  }
  return site;
}

ModelShape paper_shape(const PaperJob& job) {
  ModelShape shape = published_model(job.model);
  shape.global_batch = paper_batch(job);
  shape.micro_batches = 1;
  return shape;
}

int paper_batch(const PaperJob& job) { return job.size == JobSize::XL ? 512 : 256; }

JobCoefficients paper_coefficients(const PaperJob& job, int global_batch, const Hardware& hardware) {
  const ModelShape shape = paper_shape(job);
  JobCoefficients coefficients =
      model_sizes(shape, {{2, 2, 12, 2}, false, true, job.size == JobSize::XL}, hardware.types.size());
  coefficients.global_batch = global_batch;
  coefficients.tp_degrees.clear();
  for (const int tp : {1, 2, 4, 8})
    if (shape.heads % tp == 0) coefficients.tp_degrees.push_back(tp);
  for (std::size_t t = 0; t < hardware.types.size(); ++t) {
    GpuCoefficients& gpu = coefficients.gpu[t];
    gpu.comp = layer_flops(shape) / (hardware.types[t].tflops * 1e9 * kUtilization);
    gpu.backward = 2;
    gpu.overlap = 2;
    // Adam reads and writes every state byte once.
    gpu.optim =
        hardware.types[t].memory_bandwidth > 0
            ? 2 * (coefficients.param_optim_bytes + coefficients.param_bytes) / hardware.types[t].memory_bandwidth
            : 0;
  }
  return coefficients;
}

}  // namespace espalier::bench
