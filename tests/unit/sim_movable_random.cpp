// Movable jobs in the simulator, on random workloads.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "planner/sim/policies/policies.hpp"
#include "planner/sim/random.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

// A Slurm job keeps its GPUs from its start to its end, and no GPU is in two jobs.
class Ledger {
 public:
  void look(const sim::SimulatedView& view) {
    std::map<JobId, std::set<GpuId>> held;
    for (const NodeView& node : view.input.cluster.nodes)
      for (std::size_t gpu = 0; gpu < node.gpu_owner.size(); ++gpu)
        if (node.gpu_owner[gpu] != 0) held[node.gpu_owner[gpu]].insert({node.name, static_cast<int>(gpu)});
    for (const auto& [id, gpus] : held) {
      REQUIRE_FALSE(gone_.contains(id));
      const auto before = held_.find(id);
      if (before != held_.end()) REQUIRE(before->second == gpus);
    }
    for (const auto& [id, gpus] : held_)
      if (!held.contains(id)) gone_.insert(id);
    held_ = std::move(held);
    for (const ElasticJob& job : view.input.jobs) {
      REQUIRE_FALSE(job.anchor.empty());
      std::set<GpuId> own;
      for (const auto* holdings : {&job.anchor, &job.extensions})
        for (const Holding& one : *holdings)
          for (const int gpu : one.gpus) {
            REQUIRE(held_[one.job].contains({one.node, gpu}));
            REQUIRE(own.insert({one.node, gpu}).second);
          }
      if (job.phase != JobPhase::running) continue;
      for (const GpuId& gpu : job.plan->ranks()) REQUIRE(own.contains(gpu));
    }
  }

 private:
  std::map<JobId, std::set<GpuId>> held_;
  std::set<JobId> gone_;
};

class Watched final : public sim::Policy {
 public:
  Watched(sim::Policy& policy, Ledger& ledger) : policy_(policy), ledger_(ledger) {}
  std::string name() const override { return policy_.name(); }
  double cooldown() const override { return policy_.cooldown(); }
  sim::Method redeployment() const override { return policy_.redeployment(); }
  bool keeps_basic() const override { return true; }
  bool shares_profiles() const override { return true; }
  std::optional<sim::BaseMoves> base_moves() const override { return policy_.base_moves(); }
  std::vector<sim::Act> decide(const sim::SimulatedView& view) override {
    ledger_.look(view);
    return policy_.decide(view);
  }

 private:
  sim::Policy& policy_;
  Ledger& ledger_;
};

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("on random workloads Slurm jobs keep their GPUs, no work is lost, all jobs end, everything repeats") {
    int smaller = 0, moves = 0;
    for (const auto order : {sim::QueueOrder::backfill, sim::QueueOrder::slurm, sim::QueueOrder::fifo})
      for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u, 6u}) {
        CAPTURE(sim::to_string(order));
        CAPTURE(seed);
        World world(4, 8, {1, 2, 4, 8, 16});
        if (seed > 3) world.kinds = sim::paper_kinds(*world.site, world.cluster);
        std::erase_if(world.kinds, [](const sim::JobKind& kind) { return kind.gpus() > 16; });
        world.options.queue = order;
        if (seed % 2 == 0) world.options.delays.preempt = sim::Preemption::oldest;
        if (seed % 3 == 0) world.options.delays = {2, 4, 3, 20, 10, 5, sim::Preemption::youngest};
        sim::Random random(seed);
        double now = 0;
        for (int i = 0; i < 40; ++i) {
          now += random.real() * 200;
          world.add(now, 20 + random.real() * 900, static_cast<std::size_t>(random.below(world.kinds.size())));
          world.jobs.back().movable = random.real() < 0.8;
        }
        std::vector<sim::PolicyRun> runs;
        for (int again = 0; again < 2; ++again) {
          const auto policy = sim::make_policy(seed == 5 ? "arena-anchored" : "espalier");
          Ledger ledger;
          Watched watched(*policy, ledger);
          runs.push_back(world.run(watched));
        }
        double held = 0;
        for (std::size_t i = 0; i < world.jobs.size(); ++i) {
          const sim::JobOutcome& job = runs[0].jobs[i];
          CHECK(job.start >= job.submit);
          CHECK(job.end > job.start);
          CHECK(job.end == runs[1].jobs[i].end);
          CHECK(job.lost_gpu_seconds <= job.gpu_seconds);
          if (!world.jobs[i].movable) CHECK((job.moves == 0 && !job.started_smaller));
          held += job.gpu_seconds;
          smaller += job.started_smaller;
          moves += job.moves;
        }
        double level = 0;
        for (std::size_t i = 1; i < runs[0].levels.size(); ++i)
          level += runs[0].levels[i - 1].gpus * (runs[0].levels[i].time - runs[0].levels[i - 1].time);
        CHECK(held == doctest::Approx(level));
        CHECK(runs[0].levels.back().gpus == 0);
      }
    CHECK(smaller > 0);
    CHECK(moves > 0);
  }
}
