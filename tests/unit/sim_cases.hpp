// Clusters, kinds of jobs and policies for the simulator's tests.
#pragma once

#include <algorithm>
#include <functional>

#include "planner/core/error.hpp"
#include "planner/core/topology/from_view.hpp"
#include "planner/sim/paper_jobs.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/simulation.hpp"

namespace espalier::sim_cases {

// Nodes n1, n2, ... with `gpus` H100 each. `rack` nodes share a leaf switch.
inline ClusterView cluster_of(int nodes, int gpus, int rack = 16) {
  ClusterView cluster;
  for (int n = 0; n < nodes; ++n) {
    NodeView node;
    node.name = "n" + std::to_string(n + 1);
    node.gpu_type = "h100";
    node.switches = {"spine", "rack" + std::to_string(n / rack)};
    node.gpu_owner.assign(static_cast<std::size_t>(gpus), 0);
    cluster.nodes.push_back(std::move(node));
  }
  std::sort(cluster.nodes.begin(), cluster.nodes.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return cluster;
}

inline std::shared_ptr<const Site> site_of(const ClusterView& cluster) {
  return std::make_shared<const Site>(site_from_view(cluster, {}).site);
}

// A small model that fits anywhere. It only computes, so more GPUs divide its time.
inline sim::JobKind small_kind(const Site& site, const ClusterView& cluster, int dp = 1) {
  sim::JobKind kind;
  kind.model = "small";
  kind.dp = dp;
  kind.shape = {"gpt2", 8, 1024, 16, 1024, 50257, 64, 1};
  kind.coefficients = sim::assumed_coefficients(kind.shape, {0.45, true, false}, site.hardware);
  return *sim::tuned(kind, site, cluster);
}

// Makes the decisions of a test at the times that the test sets.
class Scripted final : public sim::Policy {
 public:
  using Decide = std::function<std::vector<sim::Act>(const sim::SimulatedView&)>;
  explicit Scripted(Decide decide) : decide_(std::move(decide)) {}
  std::string name() const override { return "scripted"; }
  double period() const override { return period_; }
  double cooldown() const override { return cooldown_; }
  sim::Method redeployment() const override { return method_; }
  bool owns_queue() const override { return owns_queue_; }
  bool keeps_basic() const override { return keeps_basic_; }
  std::vector<sim::Act> decide(const sim::SimulatedView& view) override { return decide_(view); }

  double period_ = 0, cooldown_ = 0;
  sim::Method method_ = sim::Method::checkpoint;
  bool owns_queue_ = false, keeps_basic_ = false;

 private:
  Decide decide_;
};

// A cluster with all that a simulation needs. A job has a submission time, its seconds on the basic
// plan and a kind.
struct World {
  explicit World(int nodes = 1, int gpus = 4, std::vector<int> degrees = {1})
      : cluster(cluster_of(nodes, gpus)), site(site_of(cluster)) {
    for (const int dp : degrees) kinds.push_back(small_kind(*site, cluster, dp));
  }
  void add(double submit, double seconds, std::size_t kind = 0) {
    jobs.push_back({static_cast<JobId>(jobs.size() + 1), submit, kind, seconds / kinds[kind].step_seconds, {}});
  }
  sim::PolicyRun run(sim::Policy& policy) const { return sim::simulate(site, cluster, kinds, jobs, policy, options); }

  ClusterView cluster;
  std::shared_ptr<const Site> site;
  std::vector<sim::JobKind> kinds;
  std::vector<sim::SimulatedJob> jobs;
  sim::SimulationOptions options;
};

// Waiting jobs, one of each number of GPUs, submitted a second after each other.
struct WaitingJobs {
  // `idle`: a cluster that has room for each. Ids count from `first_id`.
  WaitingJobs(const ClusterView& idle, const std::vector<int>& gpus, JobId first_id = 1) {
    const auto site = site_of(idle);
    for (const int count : gpus) kinds.push_back(small_kind(*site, idle, count));
    for (std::size_t i = 0; i < gpus.size(); ++i)
      jobs.push_back({static_cast<JobId>(first_id + i), static_cast<double>(i), i, 10, {}});
    states.resize(gpus.size());
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      states[i].id = jobs[i].id;
      states[i].job = &jobs[i];
      states[i].kind = &kinds[i];
      states[i].iterations_left = 10;
    }
  }
  WaitingJobs(const WaitingJobs&) = delete;  // states point into it
  std::vector<sim::JobKind> kinds;
  std::vector<sim::SimulatedJob> jobs;
  std::vector<sim::SimulatedJobState> states;
};

inline void check_ends(const sim::PolicyRun& run, const std::vector<double>& expected) {
  REQUIRE(run.jobs.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(run.jobs[i].end == doctest::Approx(expected[i]).epsilon(1e-9));
}

inline sim::PolicyRun non_elastic(const World& world, const std::string& name) {
  return world.run(*sim::make_policy(name));
}

// The plan of the first kind, with as many replicas.
inline Plan replicas(const World& world, const std::vector<GpuId>& gpus) {
  sim::JobKind kind = world.kinds[0];
  kind.dp = static_cast<int>(gpus.size());
  return sim::basic_plan(kind, gpus);
}

template <class Act>
std::string error_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace espalier::sim_cases
