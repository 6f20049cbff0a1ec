// Training speeds of jobs on counts of GPUs that stand together. The baselines decide by these
// speeds. Jobs with equal coefficients and plans share the results.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "planner/core/grid/gpu_pools.hpp"
#include "planner/sim/policies/regular_plan.hpp"
#include "planner/sim/policies/rubick_slopes.hpp"
#include "planner/sim/policy.hpp"

namespace espalier::sim {

class JobSpeeds {
 public:
  // `kind` must outlive this object.
  JobSpeeds(std::shared_ptr<const Site> site, const JobCoefficients& coefficients, const JobKind& kind);
  bool is_for(const JobCoefficients& coefficients, const JobKind& kind) const {
    return &kind == &kind_ && coefficients == coefficients_;
  }
  const Degrees& submitted() const { return submitted_; }
  int replica_gpus() const { return submitted_.pp * submitted_.tp; }

  // Iterations per second with DP degree gpus / replica_gpus() and the submitted TP and PP; of a
  // measured job with replicas of the whole model. On the submitted number of GPUs, where that does
  // not fit, with the basic plan. 0: impossible.
  double data_parallel(const GpuPool& pool, const ClusterView& cluster, int gpus);
  // The fastest symmetric plan for each number of GPUs; useful points only.
  const std::vector<CurvePoint>& symmetric(const GpuPool& pool, const ClusterView& cluster);

  // The plan whose speed data_parallel() tells, on these pieces and at the best N_b. nullopt: it
  // cannot run there.
  std::optional<PlanSketch> sketch(const std::vector<Piece>& pieces);

  // For real GPUs, wherever they are.
  Evaluator& evaluator() { return *evaluator_; }
  Evaluator& even_evaluator() { return *even_evaluator_; }  // all replicas of a stage have equal shares

 private:
  const std::shared_ptr<const Site> site_;
  const JobCoefficients coefficients_;
  const JobKind& kind_;
  const Degrees submitted_;
  PlanBounds bounds_, even_bounds_;
  std::unique_ptr<Evaluator> evaluator_, even_evaluator_;
  std::map<std::pair<int, int>, double> data_parallel_;  // by type and GPUs
  std::map<int, std::vector<CurvePoint>> symmetric_;     // by type
};

// Whether the policy may run the job on GPUs of this type.
bool may_use(const SimulatedJobState& job, const Policy& policy, int type);

// Forgets everything when the site or the set of usable nodes changes.
class SpeedBook {
 public:
  // Call with every new view, before of().
  void turn_to(const SimulatedView& view);
  JobSpeeds& of(const SimulatedJobState& job);
  const std::vector<GpuPool>& pools() const { return pools_; }

 private:
  std::shared_ptr<const Site> site_;
  std::vector<GpuPool> pools_;
  std::map<JobId, std::shared_ptr<JobSpeeds>> jobs_;
  std::vector<std::shared_ptr<JobSpeeds>> known_;
};

}  // namespace espalier::sim
