// The search on GPUs of several Slurm jobs of a training, against all ways and against nodes in their place.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "planner/core/model/evaluate_plan.hpp"
#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/virtual_job.hpp"
#include "planner/core/solver/from_scratch.hpp"
#include "tests/unit/island_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_SUITE("islands") {
  // Of the first idle GPUs in the order, against all ways to take as many.
  TEST_CASE("the first idle GPUs are as good as the best ones, where whole nodes come first") {
    std::mt19937 random(32);
    double whole_most = 1, whole_sum = 0, place_sum = 0;
    int cases = 0;
    for (int round = 0; round < 40; ++round) {
      const auto site = site_of(4, 4);
      const ElasticJob one =
          relaxed_job({0, 1, 2, 3}, uniform_plan(1, 1, 8, 32, 4, {{"n1", 0}, {"n1", 1}, {"n1", 2}, {"n1", 3}}, 4));
      std::vector<NodeGpus> idle;
      for (int node = 1; node < 4; ++node) {
        NodeGpus gpus{node, {}};
        for (std::int16_t gpu = 0, count = static_cast<std::int16_t>(random() % 5); gpu < count; ++gpu)
          gpus.gpus.push_back(gpu);
        if (!gpus.gpus.empty()) idle.push_back(gpus);
      }
      const auto virtual_job = VirtualJob::make(one, site, talkative());
      REQUIRE(virtual_job);
      const auto ms_on = [&](const std::vector<NodeGpus>& more) {
        auto all = virtual_job->held();
        all.insert(all.end(), more.begin(), more.end());
        const auto found = plan_from_scratch(virtual_job->evaluator(), pieces_of(all, *site), {20'000, {}});
        REQUIRE(found.best);
        return found.best->ms;
      };
      const auto first = [&](int count, AffinityTies ties) {
        std::vector<NodeGpus> taken;
        for (const GpuAt& gpu :
             affinity_order(site->hardware, site->topology, virtual_job->held(), idle, count, ties)) {
          if (taken.empty() || taken.back().node != gpu.node) taken.push_back({gpu.node, {}});
          taken.back().gpus.push_back(gpu.gpu);
        }
        std::sort(taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.node < b.node; });
        return taken;
      };
      std::vector<NodeGpus> taken;
      double best = 0;
      const auto all_ways = [&](auto&& self, std::size_t at, int left) -> void {
        if (left == 0) {
          const double ms = ms_on(taken);
          best = best > 0 ? std::min(best, ms) : ms;
          return;
        }
        if (at == idle.size()) return;
        self(self, at + 1, left);
        for (int here = 1; here <= std::min(left, static_cast<int>(idle[at].gpus.size())); ++here) {
          taken.push_back({idle[at].node, {idle[at].gpus.begin(), idle[at].gpus.begin() + here}});
          self(self, at + 1, left - here);
          taken.pop_back();
        }
      };
      int sum = 0;
      for (const NodeGpus& node : idle) sum += static_cast<int>(node.gpus.size());
      for (int count = 1; count <= sum; ++count) {
        best = 0;
        all_ways(all_ways, 0, count);
        const double whole = ms_on(first(count, AffinityTies::whole_first)) / best;
        whole_most = std::max(whole_most, whole);
        whole_sum += std::log(whole);
        place_sum += std::log(ms_on(first(count, AffinityTies::by_place)) / best);
        ++cases;
      }
    }
    const double whole_mean = std::exp(whole_sum / cases), place_mean = std::exp(place_sum / cases);
    MESSAGE(cases, " cases: whole nodes first ", whole_mean, " of the best, at most ", whole_most, "; by place ",
            place_mean);
    CHECK(cases > 100);
    CHECK(whole_mean < 1.01);
    CHECK(whole_mean < place_mean);
  }

  // The same problem twice: once with islands, once with a node for each. Plans are the same, and as good as the best.
  TEST_CASE("a site with islands has the plans of one on which they are nodes") {
    std::mt19937 random(31);
    int larger = 0;
    for (int round = 0; round < 60; ++round) {
      const auto divided = site_of(2, 8);
      auto separate = std::make_shared<Site>();
      separate->hardware = divided->hardware;
      ElasticJob one = relaxed_job({0}, uniform_plan(1, 1, 8, 32, 4, {{"n1", 0}}));
      int next = 1, parts = 0;
      std::vector<Piece> nodes;
      for (const std::string name : {"n1", "n2"})
        for (int gpu = 0; gpu < 8;) {
          const int count = std::min(1 + static_cast<int>(random() % 4), 8 - gpu);
          Holding held{static_cast<JobId>(20 + next), name, {}};
          for (int i = 0; i < count; ++i) held.gpus.push_back(gpu++);
          if (next++ == 1) one.anchor = {held};
          else one.extensions.push_back(held);
          nodes.push_back({separate->topology.add_node("p" + std::to_string(parts++), 0,
                                                       std::vector<std::int16_t>(static_cast<std::size_t>(count), 0),
                                                       {"spine", "leaf1"}),
                           0, static_cast<std::int16_t>(count)});
        }
      const auto own = site_for(std::shared_ptr<const Site>(divided), one);
      const JobCoefficients coefficients = talkative();
      const PlanBounds bounds;
      const Problem with{own->hardware, own->topology, coefficients, bounds};
      const Problem without{separate->hardware, separate->topology, coefficients, bounds};
      const auto held = held_gpus(held_by(one, *own));
      Evaluator a(with), b(without);
      const auto found = plan_from_scratch(a, pieces_of(held, *own), {50'000, {}});
      const auto wanted = plan_from_scratch(b, nodes, {50'000, {}});
      REQUIRE(found.best);
      REQUIRE(wanted.best);
      CHECK(found.best->ms == doctest::Approx(wanted.best->ms));
      ElasticJob fresh = one;
      fresh.plan.reset();
      const auto plan = materialize(with, found.best->sketch, fresh, held);
      REQUIRE(plan);
      check_groups(*plan, one);
      // As the model of placed plans has it, GPU by GPU.
      CHECK(evaluate_plan(own->hardware, own->topology, coefficients, *plan).printed_ms ==
            doctest::Approx(found.best->ms));
      larger += plan->stages.front().tp > 1;
    }
    CHECK(larger > 0);
  }
}
