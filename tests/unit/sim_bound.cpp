// The lower bound of the average job completion time.
#include <doctest/doctest.h>

#include <map>

#include "planner/cli/preset_clusters.hpp"
#include "planner/core/grid/gpu_pools.hpp"
#include "planner/core/solver/evaluator.hpp"
#include "planner/sim/bound.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/policies/regular_plan.hpp"
#include "planner/sim/random.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

double average(const sim::PolicyRun& run) {
  double sum = 0;
  for (const sim::JobOutcome& job : run.jobs) sum += job.jct();
  return sum / static_cast<double>(run.jobs.size());
}

void fill(World& world, std::uint64_t seed, int jobs, double gap) {
  world.kinds = sim::paper_kinds(*world.site, world.cluster);
  std::erase_if(world.kinds, [](const sim::JobKind& kind) { return kind.gpus() > 16; });
  sim::Random random(seed);
  double now = 0;
  for (int i = 0; i < jobs; ++i) {
    now += random.real() * gap;
    world.add(now, 20 + random.real() * 900, static_cast<std::size_t>(random.below(world.kinds.size())));
  }
}

}  // namespace

TEST_SUITE("bound") {
  TEST_CASE("shortest remaining time first, by hand") {
    CHECK(sim::srpt_average({}, {}) == 0);
    CHECK(sim::srpt_average({0}, {5}) == 5);
    // The second one interrupts the first: ends at 3 and 12.
    CHECK(sim::srpt_average({0, 1}, {10, 2}) == doctest::Approx((12 + 2) / 2.0));
    // It is not shorter than what is left of the first: ends at 10 and 19.
    CHECK(sim::srpt_average({0, 1}, {10, 9}) == doctest::Approx((10 + 18) / 2.0));
    // Nothing is there between 2 and 10.
    CHECK(sim::srpt_average({0, 10}, {2, 3}) == doctest::Approx((2 + 3) / 2.0));
  }

  TEST_CASE("no symmetric plan takes less GPU time, or less time, than the bounds of its job say") {
    const auto preset = cli::preset_cluster("cluster-arena-b");
    const Site site = site_from_view(preset->view, {}, preset->hardware).site;
    std::vector<int> gpus(site.hardware.types.size(), 0);
    const auto pools = gpu_pools(preset->view, site);
    for (const GpuPool& pool : pools) gpus[static_cast<std::size_t>(pool.type)] = pool.gpus;
    int plans = 0;
    for (const sim::JobKind& kind : sim::paper_kinds(site, preset->view)) {
      if (kind.size == sim::JobSize::XL) continue;
      PlanBounds bounds;
      Evaluator evaluator({site.hardware, site.topology, kind.coefficients, bounds});
      for (const GpuPool& pool : pools)
        for (const int count : {1, 2, 8, 16, 64}) {
          const auto pieces = compact_pieces(pool, preset->view, site, count);
          const auto plan = sim::fastest_even_plan(evaluator, pieces);
          if (!plan) continue;
          ++plans;
          CHECK(count * plan->ms >= sim::least_gpu_ms(kind, pool.type) * (1 - 1e-9));
          CHECK(plan->ms >= sim::least_step_ms(kind, site.hardware, gpus) * (1 - 1e-9));
        }
    }
    CHECK(plans > 40);
  }

  TEST_CASE("no plan beats the bounds of a job whose replicas of several GPUs compute faster than their share") {
    const ClusterView cluster = cluster_of(4, 8);
    const auto site = site_of(cluster);
    sim::JobKind kind = small_kind(*site, cluster);
    kind.coefficients.tp_degrees = {1, 2, 4};
    kind.coefficients.degree_factors = {{1, 1}, {2, 0.7}, {4, 0.8}};
    PlanBounds bounds;
    Evaluator evaluator({site->hardware, site->topology, kind.coefficients, bounds});
    const GpuPool pool = gpu_pools(cluster, *site).at(0);
    bool closer = false;
    for (const int count : {1, 2, 4, 8, 16, 32}) {
      const auto plan = sim::fastest_even_plan(evaluator, compact_pieces(pool, cluster, *site, count));
      REQUIRE(plan);
      CHECK(count * plan->ms >= sim::least_gpu_ms(kind, pool.type) * (1 - 1e-9));
      CHECK(plan->ms >= sim::least_step_ms(kind, site->hardware, {32}) * (1 - 1e-9));
      sim::JobKind plain = kind;
      plain.coefficients.degree_factors.clear();
      closer = closer || count * plan->ms < sim::least_gpu_ms(plain, pool.type);
    }
    CHECK(closer);  // the factors matter here
  }

  TEST_CASE("no policy beats the bound on one type of GPU") {
    for (const std::uint64_t seed : {1u, 2u, 3u})
      for (const double gap : {5.0, 200.0}) {
        World world(4, 8, {1});
        fill(world, seed, 15, gap);
        const sim::JctBound bound = sim::jct_bound(*world.site, world.cluster, world.kinds, world.jobs);
        CHECK(bound.seconds() > 0);
        for (const std::string& name : sim::policy_names()) {
          CAPTURE(name);
          CAPTURE(seed);
          CAPTURE(gap);
          const auto policy = sim::make_policy(name);
          CHECK(average(world.run(*policy)) >= bound.seconds());
        }
      }
  }

  TEST_CASE("no policy beats the bound on two types, whose jobs have different ratios of speed") {
    for (const std::uint64_t seed : {4u, 5u})
      for (const double gap : {5.0, 100.0}) {
        World world(2, 4);
        world.cluster = cluster_of(6, 4);
        for (int n = 0; n < 3; ++n) world.cluster.nodes[static_cast<std::size_t>(n)].gpu_type = "v100-32gb";
        world.site = site_of(world.cluster);
        fill(world, seed, 12, gap);
        for (std::size_t k = 0; k < world.kinds.size(); k += 2) {
          // This kind is as fast on the old type.
          auto& gpu = world.kinds[k].coefficients.gpu;
          gpu[0].comp = gpu[1].comp = std::min(gpu[0].comp, gpu[1].comp);
          world.kinds[k].on.clear();
          world.kinds[k] = *sim::tuned(world.kinds[k], *world.site, world.cluster);
        }
        world.options.delays.launch_seconds = 3;
        world.options.delays.end_seconds = 2;
        const sim::JctBound bound =
            sim::jct_bound(*world.site, world.cluster, world.kinds, world.jobs, world.options.delays);
        for (const std::string& name : sim::policy_names()) {
          if (name == "metis") continue;  // minutes on two types
          CAPTURE(name);
          CAPTURE(seed);
          const auto policy = sim::make_policy(name);
          CHECK(average(world.run(*policy)) >= bound.seconds());
        }
      }
  }

  TEST_CASE("a job alone that one GPU serves best has its own time as the bound") {
    // It only computes and has one sample: no plan of it is faster than one GPU's.
    World world(1, 1);
    world.add(0, 500);
    const sim::JctBound bound = sim::jct_bound(*world.site, world.cluster, world.kinds, world.jobs);
    const auto policy = sim::make_policy("fifo");
    const double jct = average(world.run(*policy));
    CHECK(bound.one_machine <= jct);
    CHECK(bound.one_machine > 0.95 * jct);
  }
}
