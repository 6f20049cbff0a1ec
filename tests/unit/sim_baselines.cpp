// The baselines in whole simulations. A simulation ends with an error if a policy does what it may
// not do.
#include <doctest/doctest.h>

#include <random>

#include "planner/core/error.hpp"
#include "planner/sim/policies/policies.hpp"
#include "planner/sim/simulation.hpp"
#include "tests/bench/planner/paper_cluster.hpp"

using namespace espalier;
using namespace espalier::sim;

namespace {

struct World {
  std::shared_ptr<const Site> site;
  ClusterView cluster;
  std::vector<JobKind> kinds;
};

// The last `slow_nodes` nodes have GPUs of half the speed.
World world(int nodes, int slow_nodes = 0) {
  World made;
  auto site = std::make_shared<Site>(bench::paper_cluster(nodes, 2));
  if (slow_nodes > 0) {
    auto mixed = std::make_shared<Site>();
    mixed->hardware = site->hardware;
    mixed->hardware.types.push_back({"half", site->hardware.types[0].tflops / 2, 80e9, 1.6e9});
    for (int n = 0; n < nodes; ++n)
      mixed->topology.add_node(site->topology.name(n), 0,
                               std::vector<std::int16_t>(8, static_cast<std::int16_t>(n >= nodes - slow_nodes)),
                               {"spine", "rack" + std::to_string(n / 2)});
    site = std::move(mixed);
  }
  for (int n = 0; n < nodes; ++n) {
    NodeView view;
    view.name = site->topology.name(n);
    view.gpu_type = n >= nodes - slow_nodes ? "half" : "h100";
    view.switches = {"spine", "rack" + std::to_string(n / 2)};
    view.gpu_owner.assign(8, 0);
    made.cluster.nodes.push_back(std::move(view));
  }
  made.kinds = paper_kinds(*site, made.cluster);
  std::erase_if(made.kinds, [](const JobKind& kind) { return kind.size == JobSize::XL; });
  made.site = std::move(site);
  return made;
}

std::vector<SimulatedJob> busy_hour(const World& world, unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<SimulatedJob> jobs;
  double now = 0;
  for (int j = 1; j <= count; ++j) {
    const std::size_t kind = random() % world.kinds.size();
    const double seconds = 30 + static_cast<double>(random() % 3000);
    jobs.push_back({static_cast<JobId>(j), now, kind, seconds / world.kinds[kind].step_seconds, {}});
    now += static_cast<double>(random() % 120);
  }
  return jobs;
}

PolicyRun play(const World& world, const std::vector<SimulatedJob>& jobs, const std::string& name, double error = 0) {
  const auto policy = make_policy(name);
  SimulationOptions options;
  options.prediction_error = error;
  return simulate(world.site, world.cluster, world.kinds, jobs, *policy, options);
}

double average_jct(const PolicyRun& run) {
  double sum = 0;
  for (const JobOutcome& job : run.jobs) sum += job.jct();
  return sum / static_cast<double>(run.jobs.size());
}

}  // namespace

TEST_SUITE("baselines") {
  TEST_CASE("all jobs end on a busy cluster with two types of GPUs") {
    const World mixed = world(4, 2);
    const auto jobs = busy_hour(mixed, 5, 30);
    for (const std::string name :
         {"sia", "rubick", "elasticflow", "gavel", "flextrain", "flextrain-dp", "arena-anchored"}) {
      CAPTURE(name);
      const PolicyRun run = play(mixed, jobs, name);
      for (const JobOutcome& job : run.jobs) CHECK(job.end > job.start);
    }
  }

  TEST_CASE("all jobs end when predictions are wrong") {
    const World four = world(4);
    const auto jobs = busy_hour(four, 9, 30);
    for (const std::string name :
         {"sia", "rubick", "elasticflow", "gavel", "metis", "flextrain", "flextrain-dp", "arena-anchored"}) {
      CAPTURE(name);
      const PolicyRun run = play(four, jobs, name, 0.2);
      for (const JobOutcome& job : run.jobs) CHECK(job.end > job.start);
    }
  }

  TEST_CASE("on an empty cluster the elastic ones make a job faster, and gavel leaves it as it is") {
    const World four = world(4);
    std::size_t kind = 0;
    while (four.kinds[kind].model != "llama2-7b") ++kind;
    const std::vector<SimulatedJob> alone{{1, 0, kind, 4 * 3600 / four.kinds[kind].step_seconds, {}}};
    for (const std::string name :
         {"sia", "rubick", "elasticflow", "metis", "flextrain", "flextrain-dp", "arena-anchored"}) {
      CAPTURE(name);
      const PolicyRun run = play(four, alone, name);
      CHECK(run.jobs[0].most_gpus > 8);
      CHECK(average_jct(run) < 2.5 * 3600);
    }
    // The job waits for a round to begin.
    CHECK(average_jct(play(four, alone, "gavel")) == doctest::Approx(4 * 3600).epsilon(0.03));
  }

  TEST_CASE("jobs that are not elastic keep the GPUs of their submission") {
    const World four = world(4);
    auto jobs = busy_hour(four, 5, 30);
    for (SimulatedJob& job : jobs) job.elastic = job.id % 3 == 0;
    for (const std::string name :
         {"fifo", "suika", "espalier", "metis", "elasticflow", "flextrain", "flextrain-dp", "arena-anchored"}) {
      CAPTURE(name);
      const PolicyRun run = play(four, jobs, name);
      int grown = 0;
      for (const JobOutcome& job : run.jobs) {
        CHECK(job.elastic == (job.id % 3 == 0));
        if (!job.elastic) CHECK(job.most_gpus == job.gpus);
        else grown += job.most_gpus > job.gpus;
      }
      CHECK((grown > 0) == (name != "fifo"));
    }
    for (const std::string name : {"sia", "rubick", "gavel"})
      CHECK_THROWS_WITH_AS(play(four, jobs, name),
                           (name + ": takes every job as elastic; leave it out, or make all jobs elastic").c_str(),
                           Error);
  }

  TEST_CASE("flextrain lets fewer jobs grow where large jobs arrive often") {
    const World four = world(4);
    PolicyOptions greedy, careful;
    greedy.flextrain.least_gpus = 1000;  // nothing is counted
    careful.flextrain.least_gpus = 1;
    const auto jobs = busy_hour(four, 5, 30);
    SimulationOptions options;
    long changes[2];
    for (const bool all : {false, true}) {
      const auto policy = make_policy("flextrain", all ? careful : greedy);
      changes[all] = simulate(four.site, four.cluster, four.kinds, jobs, *policy, options).redeployments;
    }
    CHECK(changes[1] < changes[0]);
  }

  TEST_CASE("sia at most doubles what a job has run on") {
    const World eight = world(8);
    const std::vector<SimulatedJob> alone{{1, 0, 0, 300 / eight.kinds[0].step_seconds, {}}};
    REQUIRE(eight.kinds[0].gpus() == 1);
    // The job is submitted with one GPU. It gets two in the first round (at 60 s) and four in the
    // next. It ends before it could have 16.
    const PolicyRun run = play(eight, alone, "sia");
    CHECK(run.jobs[0].most_gpus >= 2);
    CHECK(run.jobs[0].most_gpus <= 8);
  }
}
