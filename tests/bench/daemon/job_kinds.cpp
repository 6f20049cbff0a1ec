#include "tests/bench/daemon/job_kinds.hpp"

#include "planner/core/error.hpp"
#include "tests/bench/planner/paper_cluster.hpp"
#include "tests/unit/model_profiles.hpp"

namespace espalier::bench {
namespace {

constexpr int kBatch = 64;

Plan default_plan(const PaperJob& paper, int layers, int micro_batches) {
  Plan plan{kBatch, micro_batches, {Stage{layers, paper.tp, {}}}};
  int next = 0;
  for (int j = 0; j < paper.dp; ++j) {
    Replica replica{kBatch / micro_batches / paper.dp, {}};
    for (int t = 0; t < paper.tp; ++t) replica.gpus.push_back({"", next++});
    plan.stages.front().replicas.push_back(std::move(replica));
  }
  return plan;
}

model_cases::Cluster one_node() {
  model_cases::Cluster cluster;
  cluster.hardware = paper_cluster(1, 1).hardware;
  cluster.topology.add_node("", 0, std::vector<std::int16_t>(8, 0), {});
  return cluster;
}

Profile profile_of_kind(const JobCoefficients& coefficients, const ModelShape& model, const Plan& plan) {
  Profile profile = model_cases::profile_of(one_node(), coefficients, plan);
  profile.shape = model;
  profile.steps = 8;
  for (ReplicaProfile& one : profile.replicas) one.spread = 0.01;
  return profile;
}

}  // namespace

std::vector<JobKind> job_kinds() {
  const model_cases::Cluster cluster = one_node();
  std::vector<JobKind> kinds;
  for (const PaperJob& paper : paper_jobs()) {
    if (paper.gpus() > 8 || paper.pp > 1) continue;
    JobKind kind;
    kind.model = paper_shape(paper);
    kind.model.global_batch = kBatch;
    kind.gpus = paper.gpus();
    const JobCoefficients coefficients = paper_coefficients(paper, kBatch, cluster.hardware);
    for (int n = 1; n <= kBatch / paper.dp; n *= 2) {
      const Plan plan = default_plan(paper, kind.model.layers, n);
      const Prediction prediction = evaluate_plan(cluster.hardware, coefficients, place_plan(cluster.topology, plan));
      if (!prediction.feasible || (kind.step_seconds > 0 && prediction.exact_ms / 1000 >= kind.step_seconds)) continue;
      kind.plan = plan;
      kind.step_seconds = prediction.exact_ms / 1000;
    }
    if (kind.step_seconds <= 0) throw Error(kind.model.family + ": its default plan does not fit");
    kind.profile = profile_of_kind(coefficients, kind.model, kind.plan);
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

const JobKind& random_kind(const std::vector<JobKind>& kinds, std::mt19937& random) {
  const auto roll = random() % 10;
  const int gpus = roll < 5 ? 1 : roll < 9 ? 4 : 8;
  std::vector<const JobKind*> fitting;
  for (const JobKind& kind : kinds)
    if (kind.gpus == gpus) fitting.push_back(&kind);
  return *fitting[random() % fitting.size()];
}

Plan placed(const Plan& plan, const std::vector<Holding>& holdings) {
  std::vector<GpuId> gpus;
  for (const Holding& held : holdings)
    for (const int index : held.gpus) gpus.push_back({held.node, index});
  Plan result = plan;
  std::size_t next = 0;
  for (Stage& stage : result.stages)
    for (Replica& replica : stage.replicas)
      for (GpuId& gpu : replica.gpus) gpu = gpus.at(next++);
  return result;
}

Profile profile_on(const JobKind& kind, const Plan& plan, std::int64_t step) {
  Profile profile = kind.profile;
  profile.plan = plan;
  profile.step = step;
  return profile;
}

}  // namespace espalier::bench
