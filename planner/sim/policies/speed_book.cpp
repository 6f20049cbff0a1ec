#include "planner/sim/policies/speed_book.hpp"

#include <algorithm>

namespace espalier::sim {

JobSpeeds::JobSpeeds(std::shared_ptr<const Site> site, const JobCoefficients& coefficients, const JobKind& kind)
    : site_(std::move(site)), coefficients_(coefficients), kind_(kind), submitted_{kind.pp, kind.dp, kind.tp} {
  even_bounds_.equal_shares = true;
  evaluator_ = std::make_unique<Evaluator>(Problem{site_->hardware, site_->topology, coefficients_, bounds_});
  even_evaluator_ = std::make_unique<Evaluator>(Problem{site_->hardware, site_->topology, coefficients_, even_bounds_});
}

double JobSpeeds::data_parallel(const GpuPool& pool, const ClusterView& cluster, int gpus) {
  const auto [at, fresh] = data_parallel_.try_emplace({pool.type, gpus}, 0.0);
  if (!fresh) return at->second;
  if (kind_.measured) {
    if (const double seconds = kind_.measured->data_parallel(pool.type, gpus); seconds > 0) at->second = 1 / seconds;
  } else if (gpus % replica_gpus() == 0) {
    const Degrees degrees{submitted_.pp, gpus / replica_gpus(), submitted_.tp};
    const auto pieces = compact_pieces(pool, cluster, *site_, gpus);
    if (const auto plan = regular_plan(*evaluator_, degrees, pieces)) at->second = 1000 / plan->ms;
  }
  if (at->second <= 0 && gpus == submitted_.gpus())
    if (const BasicPlan* basic = kind_.on_type(pool.type)) at->second = 1 / basic->step_seconds;
  return at->second;
}

const std::vector<CurvePoint>& JobSpeeds::symmetric(const GpuPool& pool, const ClusterView& cluster) {
  const auto [at, fresh] = symmetric_.try_emplace(pool.type);
  if (!fresh) return at->second;
  std::vector<CurvePoint> points;
  if (kind_.measured) {
    for (const int gpus : kind_.measured->counts(pool.type))
      points.push_back({gpus, 1 / kind_.measured->fastest(pool.type, gpus)});
    at->second = useful_points(std::move(points));
    return at->second;
  }
  std::map<int, std::vector<Piece>> pieces;  // by GPUs
  for (const Degrees& degrees : even_degrees(coefficients_, pool.gpus)) {
    const auto [stand, new_count] = pieces.try_emplace(degrees.gpus());
    if (new_count) stand->second = compact_pieces(pool, cluster, *site_, degrees.gpus());
    if (const auto plan = regular_plan(*even_evaluator_, degrees, stand->second))
      points.push_back({degrees.gpus(), 1000 / plan->ms});
  }
  at->second = useful_points(std::move(points));
  return at->second;
}

std::optional<PlanSketch> JobSpeeds::sketch(const std::vector<Piece>& pieces) {
  const int gpus = count_gpus(pieces);
  if (kind_.measured) return PlanSketch{1, {StageSketch{1, coefficients_.layers, pieces}}};
  if (gpus % replica_gpus() == 0) {
    const Degrees degrees{submitted_.pp, gpus / replica_gpus(), submitted_.tp};
    if (const auto plan = regular_plan(*evaluator_, degrees, pieces)) return plan->sketch;
  }
  if (gpus != submitted_.gpus()) return std::nullopt;
  const auto plan = fastest_even_plan(*even_evaluator_, pieces);
  return plan ? std::optional(plan->sketch) : std::nullopt;
}

bool may_use(const SimulatedJobState& job, const Policy& policy, int type) {
  return job.job->type < 0 || job.job->type == type || (job.job->any_type && policy.chooses_types());
}

void SpeedBook::turn_to(const SimulatedView& view) {
  auto pools = gpu_pools(view.input.cluster, *view.input.site);
  const bool same = site_ == view.input.site && std::equal(pools.begin(), pools.end(), pools_.begin(), pools_.end(),
                                                           [](const GpuPool& a, const GpuPool& b) {
                                                             return a.type == b.type && a.nodes == b.nodes;
                                                           });
  if (!same) {
    site_ = view.input.site;
    pools_ = std::move(pools);
    jobs_.clear();
    known_.clear();
    return;
  }
  // Removes jobs that have left. Both lists are sorted.
  auto present = view.jobs.begin();
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    while (present != view.jobs.end() && (*present)->id < job->first) ++present;
    if (present != view.jobs.end() && (*present)->id == job->first) ++job;
    else job = jobs_.erase(job);
  }
  // Kinds recur. Jobs with an error of their own do not.
  constexpr std::size_t kKept = 64;
  if (known_.size() > kKept + jobs_.size()) std::erase_if(known_, [](const auto& one) { return one.use_count() == 1; });
}

JobSpeeds& SpeedBook::of(const SimulatedJobState& job) {
  auto& speeds = jobs_[job.id];
  if (speeds) return *speeds;
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const auto& one) { return one->is_for(*job.coefficients, *job.kind); });
  if (found != known_.end()) return *(speeds = *found);
  speeds = known_.emplace_back(std::make_shared<JobSpeeds>(site_, *job.coefficients, *job.kind));
  return *speeds;
}

}  // namespace espalier::sim
