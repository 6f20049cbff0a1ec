#include "planner/sim/paper_jobs.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "planner/core/error.hpp"
#include "planner/core/model/published_models.hpp"
#include "planner/core/model/roofline.hpp"
#include "planner/core/model/sheet_coefficients.hpp"

namespace espalier::sim {
namespace {

constexpr std::array<PaperJob, 17> kJobs{{
    {"gpt2-350m", JobSize::S, 1, 1, 1},
    {"gpt2-1.3b", JobSize::S, 1, 4, 1},
    {"gpt2-2.6b", JobSize::S, 1, 4, 1},
    {"qwen2-0.5b", JobSize::S, 1, 1, 1},
    {"qwen2-1.5b", JobSize::S, 1, 4, 1},
    {"gpt2-6.7b", JobSize::M, 1, 4, 2},
    {"llama2-7b", JobSize::M, 1, 4, 2, 2048},
    {"qwen2-7b", JobSize::M, 1, 4, 2},
    {"gpt2-15b", JobSize::L, 1, 4, 4},
    {"llama2-13b", JobSize::L, 1, 4, 4, 2048},
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

ModelShape paper_shape(const PaperJob& job) {
  ModelShape shape = published_model(job.model);
  if (job.sequence > 0) shape.sequence = job.sequence;
  shape.global_batch = paper_batch(job);
  shape.micro_batches = 1;
  return shape;
}

int paper_batch(const PaperJob& job) { return job.size == JobSize::XL ? 512 : 256; }

JobCoefficients assumed_coefficients(const ModelShape& shape, const Assumed& assumed, const Hardware& hardware) {
  JobCoefficients coefficients =
      sheet_coefficients(shape, {{2, 2, 12, 2}, false, assumed.recompute, assumed.zero1}, hardware);
  const GpuType& first = hardware.types.front();
  const double traffic = compared_traffic(hardware, coefficients.traffic_per_flop);
  for (std::size_t t = 0; t < hardware.types.size(); ++t)
    coefficients.gpu[t].comp = layer_flops(shape) / (first.tflops * 1e9 * assumed.utilization) /
                               times_as_fast(hardware.types[t], first, traffic);
  coefficients.tp_degrees.clear();
  for (const int tp : {1, 2, 4, 8})
    if (shape.heads % tp == 0) coefficients.tp_degrees.push_back(tp);
  return coefficients;
}

JobCoefficients paper_coefficients(const PaperJob& job, int global_batch, const Hardware& hardware) {
  ModelShape shape = paper_shape(job);
  shape.global_batch = global_batch;
  return assumed_coefficients(shape, {0.45, true, job.size == JobSize::XL}, hardware);
}

}  // namespace espalier::sim
