// What running jobs taught the planner for the next job like them: coefficients, the pause of a
// reconfiguration and the start of a generation, with how often and how alike they were measured.
// One row for each user, kind of job (description()), GPU types and GPU driver. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/json.hpp"
#include "planner/core/model/coefficients.hpp"
#include "planner/core/topology/site.hpp"

namespace espalier {

// A running mean. The newest kMemory values count alike, and older ones less and less.
struct Estimate {
  static constexpr int kMemory = 20;
  int count = 0;
  double mean = 0;
  double variance = 0;

  void add(double value);
  double spread() const;  // standard deviation / mean; 0 below two values
  bool operator==(const Estimate&) const = default;
};

// What profiles of single stages told before a job ran (queue_profiles.hpp).
struct StageProfiling {
  JobId job = 0;                   // that waited meanwhile
  int stages = 0;                  // that were measured
  double device_seconds = 0;       // that this took
  std::vector<std::string> plans;  // measured ones, as plan_form() writes them
  // What this job's start was foreseen to be, on own GPUs of each type, as plan_form() writes it.
  std::vector<std::string> foreseen;
  bool operator==(const StageProfiling&) const = default;
};

struct Knowledge {
  std::int64_t id = 0;  // given by the store
  std::uint32_t uid = 0;
  std::string job;     // description() of its jobs
  std::string gpus;    // GPU types on which it was learnt: "a100+h100"
  std::string driver;  // "" on CPU, or where it was not told
  // As coefficients_json() writes them; null: none was calm yet. Their times are running means.
  Json coefficients = nullptr;
  Estimate speed;                 // k_comp of the first of `gpus`, in ms: how often and how alike it was measured
  double spread = 0;              // of the latest profile (step_statistics.hpp)
  Estimate pause;                 // seconds that training stood still for a reconfiguration
  Estimate start;                 // seconds that a generation took to start
  double first = 0, updated = 0;  // seconds since the epoch
  std::optional<StageProfiling> profiled;  // absent: only running jobs taught it

  // How far the coefficients may be off, as a share: the spread of several measurements, or of the
  // only one.
  double doubt() const { return speed.count >= 2 ? speed.spread() : spread; }
};

Json record_of(const Knowledge& row);
void read_record(const Json& record, Knowledge& row);

// What jobs must have in common for one's coefficients to hold for the other: model, batch,
// accuracy and setting (model_shape.hpp). JSON with its keys in order. Empty: the job's model is not
// known yet.
std::string description(const ElasticJob& job);

// The types of a plan's GPUs, or of GPUs that a job holds: sorted, and joined by "+".
std::string gpu_types(const Site& site, const std::vector<GpuId>& gpus);

// Adds what one generation of a job measured.
void learn(Knowledge& row, const JobCoefficients& measured, double spread, const Site& site);

// Stored coefficients for the cluster as it is now. Types that were not there then are scaled from
// one that was measured, and marked as assumed. nullopt: no measured type is left, or the record
// cannot be read.
std::optional<JobCoefficients> stored_coefficients(const Json& stored, const Hardware& hardware);

// The coefficients that `rows` tell for a job on GPUs of `types`. Each value comes from the first
// row that measured it. nullopt: none measured a speed on one of the types.
std::optional<JobCoefficients> recalled(const std::vector<Knowledge>& rows, const std::string& types, const Site& site);

// JobCoefficients::rail_ms_per_byte for a job, of description() `job`, that has seen no sum between nodes: the lower
// median of the rows of other kinds of jobs that have. 0: none has, or the links are as the site says. How much of a
// sum is hidden behind computation is not learnt so, as it differs between plans.
double usual_rail(const std::vector<Knowledge>& rows, const std::string& job);

}  // namespace espalier
