// What the scheduler sees of the waiting jobs.
#include <doctest/doctest.h>

#include <limits>

#include "planner/sim/base_queue.hpp"
#include "tests/unit/sim_cases.hpp"

using namespace espalier;
using namespace espalier::sim_cases;

namespace {

struct Waiting : WaitingJobs {
  explicit Waiting(const std::vector<int>& degrees, sim::QueueOrder order = sim::QueueOrder::fifo)
      : WaitingJobs(cluster_of(2, 4), degrees), cluster(cluster_of(2, 4)), queue(order) {
    for (const sim::SimulatedJobState& state : states) queue.add(state);
  }
  std::vector<WaitingJob> shown(const std::vector<JobId>& extensions) const {
    return sim::shown_waiting(queue, cluster, extensions, 0, [](JobId owner) { return 100.0 * owner; });
  }

  ClusterView cluster;
  sim::BaseQueue queue;
};

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("all that would fit without extensions are shown, and the first that would not with its expected start") {
    Waiting waiting({2, 4, 1});
    waiting.cluster.nodes[0].gpu_owner = {7, 50, 50, 50};
    waiting.cluster.nodes[1].gpu_owner = {8, 9, 51, 51};
    const auto shown = waiting.shown({50, 51});
    REQUIRE(shown.size() == 2);
    CHECK(shown[0].id == 1);
    CHECK(shown[0].gpus == 2);
    CHECK(!shown[0].expected_start);
    CHECK(shown[1].id == 2);
    // n1 is free when job 7 has ended, at 700. n2 would be free at 900.
    CHECK(shown[1].expected_start == 700);
    CHECK(shown[0].priority > shown[1].priority);
  }

  TEST_CASE("where types differ a job is shown with the nodes of the type that it would fit on") {
    Waiting waiting({2, 4});
    CHECK(waiting.shown({})[0].only_nodes.empty());
    waiting.cluster.nodes[0].gpu_type = "a100";
    waiting.cluster.nodes[0].gpu_owner = {7, 7, 7, 50};
    const auto shown = waiting.shown({50});
    CHECK(shown[0].only_nodes == std::vector<std::string>{"n2"});
    CHECK(shown[1].only_nodes == std::vector<std::string>{"n2"});
  }

  TEST_CASE("a job of several nodes waits for the last of them") {
    Waiting waiting({8});
    waiting.cluster.nodes[0].gpu_owner = {7, 0, 0, 0};
    waiting.cluster.nodes[1].gpu_owner = {0, 0, 3, 50};
    const auto shown = waiting.shown({50});
    REQUIRE(shown.size() == 1);
    CHECK(shown[0].nodes == 2);
    CHECK(shown[0].expected_start == 700);
  }

  TEST_CASE("a job that never fits has no expected start in time") {
    const Waiting waiting({8});
    const ClusterView small = cluster_of(1, 4);
    const auto start = sim::expected_start(small, {}, waiting.states[0], [](JobId) { return 0.0; });
    CHECK(start.time == std::numeric_limits<double>::infinity());
    CHECK(start.gpu_type.empty());
  }

  TEST_CASE("with backfill a job passes the first one that does not fit if that one starts no later") {
    Waiting waiting({4, 1, 1}, sim::QueueOrder::backfill);
    waiting.cluster.nodes[0].gpu_owner = {7, 0, 0, 0};
    waiting.cluster.nodes[1].gpu_owner = {9, 9, 9, 9};
    const auto ids = [&] {
      std::vector<JobId> result;
      for (const WaitingJob& job : waiting.shown({})) result.push_back(job.id);
      return result;
    };
    const double step = waiting.kinds[1].step_seconds;
    // Job 1 waits for job 7, which ends by 700. A limit is twice the time on the basic plan.
    waiting.jobs[1].iterations = 349 / step;
    waiting.jobs[2].iterations = 351 / step;
    CHECK(ids() == std::vector<JobId>{1, 2});
    waiting.jobs[2].iterations = 349 / step;
    CHECK(ids() == std::vector<JobId>{1, 2, 3});
    // Beside the node that job 1 waits for, any job may run.
    waiting.jobs[1].iterations = 1e6 / step;
    CHECK(ids() == std::vector<JobId>{1, 3});
    waiting.cluster.nodes[1].gpu_owner = {9, 9, 9, 0};
    CHECK(ids() == std::vector<JobId>{1, 2, 3});
  }

  TEST_CASE("without backfill no job passes") {
    Waiting waiting({4, 1});
    waiting.cluster.nodes[0].gpu_owner = {7, 0, 0, 0};
    waiting.cluster.nodes[1].gpu_owner = {9, 9, 9, 9};
    CHECK(waiting.shown({}).size() == 1);
  }

  TEST_CASE("the queue keeps its order as jobs come and go") {
    Waiting fifo({4, 1, 2}), sjf({4, 1, 2}, sim::QueueOrder::sjf);
    const auto ids = [](const sim::BaseQueue& queue) {
      std::vector<JobId> result;
      for (const auto* job : queue.waiting()) result.push_back(job->id);
      return result;
    };
    CHECK(ids(fifo.queue) == std::vector<JobId>{1, 2, 3});
    fifo.queue.remove(2);
    CHECK(ids(fifo.queue) == std::vector<JobId>{1, 3});
    for (auto& state : sjf.states) state.iterations_left = state.id == 1 ? 1 : 1000;
    for (const JobId id : {1u, 2u, 3u}) sjf.queue.remove(id);
    for (const auto& state : sjf.states) sjf.queue.add(state);
    CHECK(ids(sjf.queue).front() == 1);
  }
}
