// A virtual job's memory must equal the result of a fresh search.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "planner/core/schedule/job_problem.hpp"
#include "planner/core/schedule/materialize.hpp"
#include "planner/core/schedule/virtual_job.hpp"
#include "planner/core/solver/seeds.hpp"
#include "planner/core/solver/shrink.hpp"

using namespace espalier;

namespace {

struct Dice {
  std::mt19937 engine;
  int roll(int low, int high) { return low + static_cast<int>(engine() % static_cast<unsigned>(high - low + 1)); }
};

std::shared_ptr<const Site> site_of(Dice& dice, int nodes) {
  auto site = std::make_shared<Site>();
  site->hardware.types = {{"fast", 2, 1e15, 0}, {"slow", 1, 1e15, 0}};
  site->hardware.kinds.resize(1);
  for (int n = 0; n < nodes; ++n)
    site->topology.add_node("n" + std::to_string(n), 0,
                            std::vector<std::int16_t>(4, static_cast<std::int16_t>(dice.roll(0, 5) == 0)),
                            {"spine", "leaf" + std::to_string(n / 4)});
  return site;
}

JobCoefficients coefficients() {
  JobCoefficients job;
  job.layers = 12;
  job.global_batch = 32;
  job.tp_degrees = {1, 2, 4};
  job.activ_bytes = 1e6;
  job.param_bytes = 2e7;
  job.gpu = {{1, 2, 0.1, 1.5, false, false, false, false}, {2, 2, 0.2, 1.5, false, false, false, false}};
  return job;
}

ElasticJob job_on(const Site& site, const std::vector<GpuId>& gpus) {
  ElasticJob job;
  job.id = 7;
  job.max_gpus = 64;
  job.accuracy = Accuracy::relaxed;
  job.phase = JobPhase::running;
  job.model.layers = 12;
  job.step_seconds = 1;
  job.plan = uniform_plan(static_cast<int>(gpus.size()), 1, 12, 32, 8, gpus);
  for (const GpuId& gpu : gpus) {
    if (job.anchor.empty() || job.anchor.back().node != gpu.node) job.anchor.push_back({7, gpu.node, {}});
    job.anchor.back().gpus.push_back(gpu.index);
  }
  CHECK(site.topology.find(gpus.front().node) >= 0);
  return job;
}

// `site`: as the job that holds `held` sees it.
std::vector<NodeGpus> random_idle(Dice& dice, const Site& site, const std::vector<NodeGpus>& held) {
  std::vector<NodeGpus> idle;
  for (int node = 0; node < site.topology.nodes(); ++node) {
    if (site.topology.whole(node) != node) continue;
    NodeGpus gpus{node, {}};
    for (std::int16_t gpu = 0; gpu < 4; ++gpu) {
      const bool mine = !site.topology.has(node, gpu) || std::any_of(held.begin(), held.end(), [&](const NodeGpus& h) {
        return h.node == node && std::find(h.gpus.begin(), h.gpus.end(), gpu) != h.gpus.end();
      });
      if (!mine && dice.roll(0, 2) > 0) gpus.gpus.push_back(gpu);
    }
    if (!gpus.gpus.empty() && dice.roll(0, 2) > 0) idle.push_back(gpus);
  }
  return idle;
}

void check_same(VirtualJob& remembered, VirtualJob& fresh) {
  REQUIRE(remembered.units().size() == fresh.units().size());
  REQUIRE(remembered.prefixes().size() == fresh.prefixes().size());
  for (std::size_t i = 0; i < fresh.prefixes().size(); ++i) {
    CHECK(remembered.prefixes()[i].gpus == fresh.prefixes()[i].gpus);
    CHECK(remembered.prefixes()[i].plan.feasible() == fresh.prefixes()[i].plan.feasible());
    if (fresh.prefixes()[i].plan.feasible())
      CHECK(remembered.prefixes()[i].plan.ms == doctest::Approx(fresh.prefixes()[i].plan.ms));
  }
}

}  // namespace

TEST_SUITE("schedule") {
  TEST_CASE("looking again at other idle GPUs finds what a first look would") {
    Dice dice{std::mt19937(21)};
    int longer = 0;
    for (int round = 0; round < 60; ++round) {
      const auto site = site_of(dice, 8);
      const ElasticJob job = job_on(*site, {{"n0", 0}, {"n0", 1}, {"n1", 0}});
      const auto remembered = VirtualJob::make(job, site, coefficients());
      REQUIRE(remembered);
      auto idle = random_idle(dice, remembered->site(), remembered->held());
      for (int look = 0; look < 6; ++look) {
        remembered->explore(idle, {});
        const auto fresh = VirtualJob::make(job, site, coefficients());
        fresh->explore(idle, {});
        check_same(*remembered, *fresh);
        longer += fresh->prefixes().size() > 2;
        // One idle GPU goes, or all are dealt again.
        if (dice.roll(0, 2) == 0) idle = random_idle(dice, remembered->site(), remembered->held());
        else if (!idle.empty()) idle.erase(idle.begin() + dice.roll(0, static_cast<int>(idle.size()) - 1));
      }
    }
    CHECK(longer > 100);
  }

  TEST_CASE("every prefix that is remembered uses idle GPUs only, whichever nodes they are on") {
    Dice dice{std::mt19937(22)};
    for (int round = 0; round < 60; ++round) {
      const auto site = site_of(dice, 8);
      const ElasticJob job = job_on(*site, {{"n0", 0}, {"n0", 1}});
      const auto remembered = VirtualJob::make(job, site, coefficients());
      for (int look = 0; look < 6; ++look) {
        const auto idle = random_idle(dice, remembered->site(), remembered->held());
        remembered->explore(idle, {});
        auto all = remembered->held();
        all.insert(all.end(), idle.begin(), idle.end());
        std::map<std::pair<int, int>, int> left;
        for (const Piece& piece : pieces_of(all, remembered->site())) left[{piece.node, piece.type}] += piece.gpus;
        for (const PrefixPlan& prefix : remembered->prefixes()) {
          if (!prefix.plan.feasible()) continue;
          auto rest = left;
          for (const StageSketch& stage : prefix.plan.sketch.stages)
            for (const Piece& piece : stage.pieces) CHECK((rest[{piece.node, piece.type}] -= piece.gpus) >= 0);
        }
      }
    }
  }

  TEST_CASE("after a prefix is taken the longer ones are those of the rest") {
    Dice dice{std::mt19937(23)};
    for (int round = 0; round < 60; ++round) {
      const auto site = site_of(dice, 8);
      const auto job = VirtualJob::make(job_on(*site, {{"n0", 0}, {"n0", 1}}), site, coefficients());
      job->explore(random_idle(dice, job->site(), job->held()), {});
      const auto before = job->prefixes();
      for (std::size_t taken = 1; taken < before.size(); ++taken) {
        if (!before[taken].plan.feasible()) continue;
        job->apply(taken);
        CHECK(job->present().sketch == before[taken].plan.sketch);
        CHECK(count_gpus(pieces_of(job->held(), job->site())) == 2 + before[taken].gpus);
        REQUIRE(job->prefixes().size() == before.size() - taken);
        for (std::size_t i = 0; i < job->prefixes().size(); ++i)
          CHECK(job->prefixes()[i].gpus == before[taken + i].gpus - before[taken].gpus);
        break;
      }
    }
  }

  TEST_CASE("a remainder that was weighed before is the one that a fresh look finds, also when the plan has changed") {
    Dice dice{std::mt19937(27)};
    constexpr SearchEffort kEffort{1, 0, 0};
    int smaller = 0;
    for (int round = 0; round < 60; ++round) {
      const auto site = site_of(dice, 8);
      ElasticJob job = job_on(*site, {{"n0", 0}, {"n1", 0}, {"n1", 1}, {"n2", 3}, {"n3", 0}});
      for (JobId extension = 20; job.anchor.size() > 1; ++extension) {  // its own GPUs are n0's
        job.extensions.push_back({extension, job.anchor.back().node, job.anchor.back().gpus});
        job.anchor.pop_back();
      }
      const auto remembered = VirtualJob::make(job, site, coefficients());
      REQUIRE(remembered);
      const auto look = [&] {
        for (const std::vector<JobId>& without : {std::vector<JobId>{22}, {21, 22}, {20, 21, 22}, {20}}) {
          const auto kept = remembered->held_without(without);
          const auto now = remembered->shrunk_to(kept, kEffort);
          const auto fresh = shrink_plan(remembered->evaluator(), remembered->present().sketch,
                                         pieces_of(kept, remembered->site()), kEffort);
          REQUIRE(now.has_value() == fresh.has_value());
          if (!now) continue;
          CHECK(now->sketch == fresh->sketch);
          CHECK(fits(now->sketch, pieces_of(kept, remembered->site())));
          smaller += !fits(remembered->present().sketch, pieces_of(kept, remembered->site()));
        }
      };
      remembered->stack(kEffort);
      look();
      look();
      const auto better = remembered->replanned({2, 4, 0, 1000});
      remembered->settle(better);
      look();
      remembered->explore(random_idle(dice, remembered->site(), remembered->held()), {});
      if (remembered->prefixes().size() > 1 && remembered->prefixes()[1].plan.feasible()) remembered->apply(1);
      look();
    }
    CHECK(smaller > 500);
  }

  TEST_CASE("a sketch becomes a plan of the GPUs that it counts, and layers stay where they are when they can") {
    Dice dice{std::mt19937(24)};
    for (int round = 0; round < 200; ++round) {
      const auto site = site_of(dice, 6);
      const ElasticJob job = job_on(*site, {{"n0", 2}, {"n0", 0}, {"n1", 3}});
      const auto virtual_job = VirtualJob::make(job, site, coefficients());
      auto available = virtual_job->held();
      for (const NodeGpus& idle : random_idle(dice, virtual_job->site(), available)) {
        const auto at =
            std::find_if(available.begin(), available.end(), [&](const NodeGpus& h) { return h.node == idle.node; });
        if (at == available.end()) available.push_back(idle);
        else at->gpus.insert(at->gpus.end(), idle.gpus.begin(), idle.gpus.end());
      }
      std::sort(available.begin(), available.end(),
                [](const NodeGpus& a, const NodeGpus& b) { return a.node < b.node; });
      for (const WorkingPlan& seed :
           symmetric_seeds(virtual_job->evaluator(), pieces_of(available, virtual_job->site()), 5)) {
        const auto plan = materialize(virtual_job->problem(), seed.sketch, job, available);
        REQUIRE(plan);
        CHECK(validate(*plan, 12) == std::vector<std::string>{});
        CHECK(plan->ranks().front() == GpuId{"n0", 2});
        CHECK(*sketch_of(*plan, virtual_job->site()) == seed.sketch);
      }
      const auto same =
          materialize(virtual_job->problem(), *sketch_of(*job.plan, virtual_job->site()), job, virtual_job->held());
      REQUIRE(same);
      CHECK(same->ranks() == job.plan->ranks());
    }
  }

  TEST_CASE("a node with too few GPUs makes no plan") {
    Dice dice{std::mt19937(25)};
    const auto site = site_of(dice, 2);
    const ElasticJob job = job_on(*site, {{"n0", 0}});
    const auto virtual_job = VirtualJob::make(job, site, coefficients());
    const PlanSketch sketch{8, {{1, 12, {{0, site->topology.gpu_types(0)[0], 2}}}}};
    CHECK_FALSE(materialize(virtual_job->problem(), sketch, job, virtual_job->held()));
  }

  TEST_CASE("a plan on GPUs that the site does not have cannot be scored") {
    Dice dice{std::mt19937(26)};
    const auto site = site_of(dice, 2);
    ElasticJob job = job_on(*site, {{"n0", 0}});
    job.plan->stages[0].replicas[0].gpus[0].node = "gone";
    CHECK_FALSE(VirtualJob::make(job, site, coefficients()));
    job.plan.reset();
    CHECK_FALSE(VirtualJob::make(job, site, coefficients()));
  }
}
