// From traces to jobs.
#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "planner/sim/workload.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

sim::Trace trace_of(int jobs, int gpus = 2) {
  sim::Trace trace;
  for (int i = 0; i < jobs; ++i)
    trace.jobs.push_back({100.0 + 10 * i, 60.0 + i % 7, gpus, std::to_string(i), {}, i + 2});
  return trace;
}

std::vector<sim::JobKind> paper() {
  const ClusterView cluster = cluster_of(8, 8);
  return sim::paper_kinds(*site_of(cluster), cluster);
}

double gpu_seconds(const sim::Workload& workload, const std::vector<sim::JobKind>& kinds) {
  return std::accumulate(workload.jobs.begin(), workload.jobs.end(), 0.0, [&](double sum, const auto& job) {
    return sum + job.iterations * kinds[job.kind].step_seconds * kinds[job.kind].gpus();
  });
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("Suika's Tab. 1 on 64 GPUs: all but the two largest, each with a micro-batch that fits") {
    const auto kinds = paper();
    CHECK(kinds.size() == 15);
    for (const sim::JobKind& kind : kinds) {
      CHECK(kind.step_seconds > 0);
      CHECK(kind.shape.global_batch % kind.micro_batches == 0);
    }
  }

  TEST_CASE("a job whose steps the trace tells does these, whatever it took") {
    const auto kinds = paper();
    sim::Trace trace = trace_of(3);
    trace.jobs[1].steps = 250;
    sim::WorkloadOptions options;
    options.mapping = sim::Mapping::gpus;
    const sim::Workload workload = sim::make_workload(trace, kinds, 64, options);
    REQUIRE(workload.jobs.size() == 3);
    CHECK(workload.jobs[1].iterations == 250);
    const sim::JobKind& kind = kinds[workload.jobs[0].kind];
    CHECK(workload.jobs[0].iterations * kind.step_seconds * kind.gpus() == doctest::Approx(2 * 60));
    CHECK(workload.gpu_seconds == doctest::Approx(gpu_seconds(workload, kinds)));
  }

  TEST_CASE("deadlines are drawn evenly from the range, by the seed alone") {
    const auto kinds = paper();
    sim::WorkloadOptions options;
    const sim::Trace trace = trace_of(400);
    for (const sim::SimulatedJob& job : sim::make_workload(trace, kinds, 64, options).jobs) CHECK(job.deadline == 0);
    options.deadline_low = 0.5;
    options.deadline_high = 1.5;
    const auto factors = [&] {
      std::vector<double> result;
      for (const sim::SimulatedJob& job : sim::make_workload(trace, kinds, 64, options).jobs)
        result.push_back((job.deadline - job.submit) / (job.iterations * kinds[job.kind].step_seconds));
      return result;
    };
    const auto first = factors();
    for (const double factor : first) {
      CHECK(factor >= 0.5 - 1e-9);
      CHECK(factor <= 1.5 + 1e-9);
    }
    CHECK(std::accumulate(first.begin(), first.end(), 0.0) / 400 == doctest::Approx(1).epsilon(0.1));
    CHECK(factors() == first);
    options.deadline_low = options.deadline_high = 2;
    for (const double factor : factors()) CHECK(factor == doctest::Approx(2));
  }

  TEST_CASE("jobs are sampled in proportion to the cluster, and take the GPU time they took") {
    const auto kinds = paper();
    sim::WorkloadOptions options;
    options.trace_gpus = 640;
    const sim::Workload workload = sim::make_workload(trace_of(1000), kinds, 64, options);
    CHECK(workload.jobs.size() == 100);
    CHECK(workload.in_window == 1000);
    CHECK(gpu_seconds(workload, kinds) == doctest::Approx(workload.gpu_seconds));
    double traced = 0;
    for (const auto& job : workload.jobs) traced += 2 * (60 + std::stoi(job.trace_id) % 7);
    CHECK(workload.gpu_seconds == doctest::Approx(traced));
    CHECK(workload.jobs.front().submit == 0);
    const int first = std::stoi(workload.jobs.front().trace_id);
    for (std::size_t i = 0; i < workload.jobs.size(); ++i) {
      CHECK(workload.jobs[i].id == i + 1);
      CHECK(workload.jobs[i].submit == 10 * (std::stoi(workload.jobs[i].trace_id) - first));
    }
  }

  TEST_CASE("run times keep their proportions when kinds are chosen at random") {
    const auto kinds = paper();
    const sim::Workload workload = sim::make_workload(trace_of(50), kinds, 64, {});
    const auto seconds = [&](std::size_t i) {
      const auto& job = workload.jobs[i];
      return job.iterations * kinds[job.kind].step_seconds / (60 + std::stoi(job.trace_id) % 7);
    };
    for (std::size_t i = 1; i < workload.jobs.size(); ++i) CHECK(seconds(i) == doctest::Approx(seconds(0)));
  }

  TEST_CASE("sizes come in the mix that is asked for") {
    const auto kinds = paper();
    sim::WorkloadOptions options;
    std::array<int, 4> counts{};
    for (const auto& job : sim::make_workload(trace_of(10000), kinds, 64, options).jobs)
      ++counts[static_cast<std::size_t>(kinds[job.kind].size)];
    CHECK(counts[0] == doctest::Approx(6000).epsilon(0.03));
    CHECK(counts[1] == doctest::Approx(2000).epsilon(0.06));
    CHECK(counts[2] == doctest::Approx(2000).epsilon(0.06));
    CHECK(counts[3] == 0);
    options.mix = {0, 0, 0, 1};
    for (const auto& job : sim::make_workload(trace_of(100), kinds, 64, options).jobs)
      CHECK(kinds[job.kind].size == sim::JobSize::XL);
  }

  TEST_CASE("the same seed gives the same jobs, another one others") {
    const auto kinds = paper();
    sim::WorkloadOptions options;
    options.trace_gpus = 640;
    const auto ids = [&](std::uint64_t seed) {
      options.seed = seed;
      std::string all;
      for (const auto& job : sim::make_workload(trace_of(1000), kinds, 64, options).jobs)
        all += job.trace_id + ":" + std::to_string(job.kind) + " ";
      return all;
    };
    CHECK(ids(1) == ids(1));
    CHECK(ids(1) != ids(2));
  }

  TEST_CASE("a site's own jobs keep their GPU time, and their GPUs as nearly as kinds allow") {
    const auto kinds = paper();
    sim::WorkloadOptions options;
    options.mapping = sim::Mapping::gpus;
    for (const auto& [gpus, nearest] : {std::pair(1, 1), {3, 4}, {8, 8}, {12, 16}, {500, 64}}) {
      const sim::Workload workload = sim::make_workload(trace_of(1, gpus), kinds, 64, options);
      const auto& job = workload.jobs.front();
      CHECK(kinds[job.kind].gpus() == nearest);
      CHECK(job.iterations * kinds[job.kind].step_seconds * nearest == doctest::Approx(60.0 * gpus));
    }
    sim::Trace named = trace_of(1, 1);
    named.jobs[0].model = "llama2-13b";
    CHECK(kinds[sim::make_workload(named, kinds, 64, options).jobs.front().kind].model == "llama2-13b");
  }

  TEST_CASE("window, scale and load") {
    const auto kinds = paper();
    sim::WorkloadOptions options;
    options.from = 200;
    options.to = 400;
    CHECK(sim::make_workload(trace_of(100), kinds, 64, options).jobs.size() == 20);
    options.scale = 0.5;
    CHECK(sim::make_workload(trace_of(100), kinds, 64, options).jobs.size() == 10);
    options.scale = 1;
    options.load = 2;
    const auto jobs = sim::make_workload(trace_of(100), kinds, 64, options).jobs;
    CHECK(jobs.back().submit == doctest::Approx(95));
  }

  TEST_CASE("what cannot be sampled is an error that says why") {
    const auto kinds = paper();
    sim::WorkloadOptions options;
    options.scale = 2;
    CHECK(error_of([&] { sim::make_workload(trace_of(10), kinds, 64, options); }) ==
          "workload: 20 jobs are wanted, the trace has 10 in the time that is to be simulated; lower the scale");
    options.scale = 0.01;
    CHECK(error_of([&] { sim::make_workload(trace_of(10), kinds, 64, options); }) ==
          "workload: of 10 jobs none is left when they are sampled in proportion; raise the scale, or take all by "
          "--trace-gpus=0");
    options = {};
    options.from = 1e9;
    CHECK(error_of([&] { sim::make_workload(trace_of(10), kinds, 64, options); }) ==
          "workload: no job of the trace was submitted in the time that is to be simulated; choose another");
    options = {};
    const std::vector<sim::JobKind> small{kinds[0]};
    CHECK(
        error_of([&] { sim::make_workload(trace_of(10), small, 64, options); }) ==
        "workload: the mix wants jobs of size M, and there is no such kind that fits the cluster; give that size 0, or "
        "another table of kinds");
    CHECK(error_of([&] {
            sim::make_workload(trace_of(10), {}, 64, sim::WorkloadOptions{.mapping = sim::Mapping::gpus});
          }) == "workload: there is no kind of jobs to choose from; give a table that has some");
  }

  TEST_CASE("the elastic share is the share of the jobs, or of those of some sizes") {
    const auto kinds = paper();
    const auto trace = trace_of(400);
    sim::WorkloadOptions options;
    options.mix = {1, 1, 1, 0};
    const auto elastic = [&](double share, std::vector<int> sizes) {
      options.elastic_share = share;
      options.elastic_gpus = std::move(sizes);
      std::set<JobId> ids;
      for (const auto& job : sim::make_workload(trace, kinds, 64, options).jobs)
        if (job.elastic) ids.insert(job.id);
      return ids;
    };
    const auto jobs = sim::make_workload(trace, kinds, 64, options).jobs;
    CHECK(elastic(1, {}).size() == jobs.size());
    CHECK(elastic(0, {}).empty());
    const auto fifth = elastic(0.2, {}), half = elastic(0.5, {});
    CHECK(static_cast<double>(fifth.size()) == doctest::Approx(0.2 * static_cast<double>(jobs.size())).epsilon(0.3));
    CHECK(std::includes(half.begin(), half.end(), fifth.begin(), fifth.end()));
    const int size = kinds[jobs[0].kind].gpus();
    const auto sized = elastic(1, {size});
    CHECK_FALSE(sized.empty());
    CHECK(sized.size() < jobs.size());
    for (const JobId id : sized) CHECK(kinds[jobs[id - 1].kind].gpus() == size);
  }

  TEST_CASE("the movable share is a share of the elastic jobs, and changes nothing else") {
    const auto kinds = paper();
    const auto trace = trace_of(400);
    sim::WorkloadOptions options;
    const auto make = [&](double movable, double elastic = 1) {
      options.movable_share = movable;
      options.elastic_share = elastic;
      return sim::make_workload(trace, kinds, 64, options).jobs;
    };
    const auto movable = [](const std::vector<sim::SimulatedJob>& jobs) {
      std::set<JobId> ids;
      for (const auto& job : jobs)
        if (job.movable) ids.insert(job.id);
      return ids;
    };
    const auto none = make(0), half = make(0.5);
    CHECK(movable(none).empty());
    CHECK(movable(make(1)).size() == none.size());
    CHECK(static_cast<double>(movable(half).size()) ==
          doctest::Approx(0.5 * static_cast<double>(none.size())).epsilon(0.2));
    const auto fifth = movable(make(0.2)), halves = movable(half);
    CHECK(std::includes(halves.begin(), halves.end(), fifth.begin(), fifth.end()));
    for (std::size_t i = 0; i < none.size(); ++i) {
      CHECK(none[i].submit == half[i].submit);
      CHECK(none[i].kind == half[i].kind);
      CHECK(none[i].iterations == half[i].iterations);
      CHECK(none[i].time_limit == half[i].time_limit);
    }
    std::set<JobId> elastic;
    const auto some = make(0.5, 0.5);
    for (const auto& job : some)
      if (job.elastic) elastic.insert(job.id);
    const auto both = movable(some);
    CHECK_FALSE(both.empty());
    CHECK(std::includes(elastic.begin(), elastic.end(), both.begin(), both.end()));
    CHECK(movable(make(1, 0)).empty());
  }
}
