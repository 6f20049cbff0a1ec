// The planner's own additions to Algorithm 2: the order of turns, and jobs that end soon.
#include <doctest/doctest.h>

#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// Two jobs and one idle GPU that either could use. Job 1 has four GPUs, job 2 one.
PlanningInput contended() {
  PlanningInput input = input_of({node("n1", 6)}, {job(1, "n1", {0, 1, 2, 3}), job(2, "n1", {4})});
  for (ElasticJob& one : input.jobs) {
    deepen(one, 60);
    one.total_steps = 1000;  // of a second each: job 1 has four times the work
  }
  return input;
}

std::vector<JobId> grown(const PlanningInput& input, const SchedulerOptions& options) {
  std::vector<JobId> ids;
  for (const Decision& decision : make_suika_scheduler(options)->decide(input))
    if (decision.kind == DecisionKind::grow) ids.push_back(decision.job);
  return ids;
}

SchedulerOptions boldest() {
  SchedulerOptions options;
  options.lambda = 64;
  return options;
}

}  // namespace

TEST_SUITE("schedule") {
  TEST_CASE("jobs with little work left come first as much as the policy says") {
    SchedulerOptions options = boldest();
    options.short_first = 8;
    CHECK(grown(contended(), options) == std::vector<JobId>{2});
    options.short_first = -8;
    CHECK(grown(contended(), options) == std::vector<JobId>{1});
  }

  TEST_CASE("a job's weight decides whose turn it is, and never whether idle GPUs are used") {
    PlanningInput input = contended();
    for (const JobId light : {JobId{1}, JobId{2}}) {
      input.weights = {{light, 1e-6}};
      CHECK(grown(input, boldest()) == std::vector<JobId>{3 - light});
    }
    input.weights = {{1, 1e-6}, {2, 1e-6}};
    CHECK(grown(input, boldest()).size() == 1);
    SchedulerOptions printed = boldest();
    printed.as_printed = true;
    const auto either = grown(input, printed);
    input.weights = {{either.front(), 1e-6}};
    CHECK(grown(input, printed) == either);
  }

  TEST_CASE("a job whose end is not known has the mean work of the others") {
    PlanningInput input = contended();
    input.jobs.push_back(job(3, "n1", {5}));
    hold(input.cluster, input.jobs.back().anchor.front());
    input.cluster.nodes.front().gpu_owner.push_back(0);
    deepen(input.jobs.back(), 60);
    SchedulerOptions options = boldest();
    options.short_first = 8;
    CHECK(grown(input, options) == std::vector<JobId>{2});
    options.short_first = -8;
    CHECK(grown(input, options) == std::vector<JobId>{1});
  }

  TEST_CASE("as printed, nobody's turn depends on anything but the benefit") {
    SchedulerOptions options = boldest();
    options.as_printed = true;
    options.short_first = 8;
    const auto with = grown(contended(), options);
    options.short_first = -8;
    CHECK(grown(contended(), options) == with);
    CHECK(with.size() == 1);
  }

  TEST_CASE("a job that ends before its new plan runs is left alone") {
    PlanningInput input = contended();
    input.jobs.erase(input.jobs.begin());
    SchedulerOptions options = boldest();
    options.start_seconds = 25;
    input.jobs[0].total_steps = 100;
    input.jobs[0].step = 80;  // 20 s are left
    CHECK(grown(input, options).empty());
    input.jobs[0].step = 20;  // 80 s are left
    CHECK(grown(input, options) == std::vector<JobId>{2});
    input.jobs[0].total_steps = 0;  // unknown
    CHECK(grown(input, options) == std::vector<JobId>{2});
    input.jobs[0].total_steps = 100;
    input.jobs[0].step = 80;
    options.as_printed = true;
    CHECK(grown(input, options) == std::vector<JobId>{2});
  }
}
