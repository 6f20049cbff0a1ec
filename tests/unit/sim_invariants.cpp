// Invariants of every decision, on random workloads, for every policy. Simulations repeat exactly.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "planner/core/json.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/random.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

// Passes a policy's decisions on, and checks what the policy is shown.
class Watched final : public sim::Policy {
 public:
  explicit Watched(std::unique_ptr<sim::Policy> policy) : policy_(std::move(policy)) {}
  std::string name() const override { return policy_->name(); }
  double period() const override { return policy_->period(); }
  double cooldown() const override { return policy_->cooldown(); }
  sim::Method redeployment() const override { return policy_->redeployment(); }
  bool owns_queue() const override { return policy_->owns_queue(); }
  std::optional<sim::QueueOrder> queue() const override { return policy_->queue(); }
  bool keeps_basic() const override { return policy_->keeps_basic(); }

  std::vector<sim::Act> decide(const sim::SimulatedView& view) override {
    look(view);
    auto acts = policy_->decide(view);
    for (const sim::Act& act : acts) said += std::to_string(act.job) + (act.plan ? describe(*act.plan) : "-") + "\n";
    return acts;
  }

  std::string said;

 private:
  void look(const sim::SimulatedView& view) {
    std::map<GpuId, JobId> owners;
    for (const ElasticJob& job : view.input.jobs) {
      for (const auto* holdings : {&job.anchor, &job.extensions})
        for (const Holding& held : *holdings)
          for (const int gpu : held.gpus) REQUIRE(owners.emplace(GpuId{held.node, gpu}, held.job).second);
      REQUIRE(job.plan);
      REQUIRE(validate(*job.plan, job.model.layers).empty());
      if (!policy_->keeps_basic()) continue;
      // The GPUs granted at the start stay.
      int basic = 0;
      for (const Holding& held : job.anchor) basic += static_cast<int>(held.gpus.size());
      REQUIRE(basic == job.min_gpus);
      const auto first = anchors_.try_emplace(job.id, job.anchor).first;
      REQUIRE(first->second == job.anchor);
    }
    for (const NodeView& node : view.input.cluster.nodes)
      for (std::size_t gpu = 0; gpu < node.gpu_owner.size(); ++gpu) {
        const auto known = owners.find({node.name, static_cast<int>(gpu)});
        REQUIRE(node.gpu_owner[gpu] == (known == owners.end() ? 0 : known->second));
      }
    std::vector<JobId> extensions;
    std::set<GpuId> leaving;
    for (const ElasticJob& job : view.input.jobs)
      for (const Holding& held : job.extensions) {
        extensions.push_back(held.job);
        if (job.phase == JobPhase::starting || job.phase == JobPhase::ending)
          for (const int gpu : held.gpus) leaving.insert({held.node, gpu});
      }
    std::sort(extensions.begin(), extensions.end());
    REQUIRE(view.input.extensions == extensions);
    for (const NodeView& node : view.input.cluster.nodes)
      for (const int gpu : node.freeing) REQUIRE(leaving.erase({node.name, gpu}) == 1);
    for (const auto* job : view.jobs) {
      const auto before = left_.find(job->id);
      if (before != left_.end()) REQUIRE(job->iterations_left <= before->second);
      left_[job->id] = job->iterations_left;
      REQUIRE(job->iterations_left >= 0);
      REQUIRE(job->plan.has_value() == (job->step_seconds > 0));
    }
  }

  std::unique_ptr<sim::Policy> policy_;
  std::map<JobId, double> left_;
  std::map<JobId, std::vector<Holding>> anchors_;
};

World random_world(std::uint64_t seed) {
  World world(4, 8, {1});
  world.kinds = sim::paper_kinds(*world.site, world.cluster);
  std::erase_if(world.kinds, [](const sim::JobKind& kind) { return kind.gpus() > 16; });
  sim::Random random(seed);
  double now = 0;
  for (int i = 0; i < 25; ++i) {
    now += random.real() * 200;
    world.add(now, 20 + random.real() * 900, static_cast<std::size_t>(random.below(world.kinds.size())));
  }
  return world;
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("no GPU serves two jobs, basic demands stay, work is never lost, all jobs end, everything repeats") {
    for (const std::string& name : sim::policy_names())
      for (const std::uint64_t seed : {1u, 2u, 3u}) {
        CAPTURE(name);
        CAPTURE(seed);
        World world = random_world(seed);
        if (seed == 2) world.options.delays.preempt = sim::Preemption::oldest;
        if (seed == 3) world.options.delays = {2, 4, 3, 20, 10, 5, sim::Preemption::youngest};
        std::vector<sim::PolicyRun> runs;
        std::vector<std::string> said;
        for (int again = 0; again < 2; ++again) {
          Watched policy(sim::make_policy(name));
          runs.push_back(world.run(policy));
          said.push_back(policy.said);
        }
        CHECK(said[0] == said[1]);
        double held = 0;
        for (std::size_t i = 0; i < world.jobs.size(); ++i) {
          const sim::JobOutcome& job = runs[0].jobs[i];
          CHECK(job.id == i + 1);
          CHECK(job.start >= job.submit);
          CHECK(job.end > job.start);
          CHECK(job.end == runs[1].jobs[i].end);
          CHECK(job.lost_gpu_seconds <= job.gpu_seconds);
          held += job.gpu_seconds;
        }
        // The levels count the same GPU time in another way.
        double level = 0;
        for (std::size_t i = 1; i < runs[0].levels.size(); ++i)
          level += runs[0].levels[i - 1].gpus * (runs[0].levels[i].time - runs[0].levels[i - 1].time);
        CHECK(held == doctest::Approx(level));
        CHECK(runs[0].levels.back().gpus == 0);
      }
  }

  TEST_CASE("suika-dp changes nothing but data parallelism") {
    const World world = random_world(4);
    Watched watched(sim::make_policy("suika-dp"));
    long plans = 0;
    Scripted policy([&](const sim::SimulatedView& view) {
      auto acts = watched.decide(view);
      for (const sim::Act& act : acts) {
        const auto job = std::find_if(view.jobs.begin(), view.jobs.end(), [&](auto* j) { return j->id == act.job; });
        CHECK(act.plan->stages.size() == static_cast<std::size_t>((*job)->kind->pp));
        for (const Stage& stage : act.plan->stages) CHECK(stage.tp == (*job)->kind->tp);
        ++plans;
      }
      return acts;
    });
    policy.keeps_basic_ = true;
    policy.method_ = sim::Method::device;
    policy.cooldown_ = watched.cooldown();
    world.run(policy);
    CHECK(plans > 0);
  }
}
