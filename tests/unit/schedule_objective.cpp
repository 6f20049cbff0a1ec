#include <doctest/doctest.h>

#include "planner/core/schedule/objective.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

// 1 s a step, `left` steps to go of 1000; two GPUs that may become eight.
ElasticJob with_left(JobId id, std::int64_t left, double deadline = 0) {
  ElasticJob one = job(id, "n1", {0, 1}, 8);
  one.step_seconds = 1;
  one.total_steps = 1000;
  one.step = 1000 - left;
  one.deadline = deadline;
  return one;
}
Contender contender(const ElasticJob& one, double weight = 1) { return {&one, 2, 2, weight, {}, {}}; }

}  // namespace

TEST_CASE("objectives have names, and no other name is one") {
  CHECK(objective_names() == std::vector<std::string>{"throughput", "jct", "deadline", "fairness"});
  for (const std::string& name : objective_names()) CHECK(to_string(*objective_from(name)) == name);
  CHECK(!objective_from("JCT"));
  CHECK(!objective_from(""));
  CHECK(Objective().kind == ObjectiveKind::jct);
}

TEST_CASE("throughput: work left and deadlines count nothing, weights do") {
  const ElasticJob a = with_left(1, 10), b = with_left(2, 900, 1100);
  const auto found = standings(ObjectiveKind::throughput, {contender(a), contender(b, 0.5)}, 1000, 1);
  CHECK(found[0].discount == 1);
  CHECK(found[0].turn == 1);
  CHECK(found[1].discount == 1);
  CHECK(found[1].turn == 0.5);
  CHECK(describe(found[1]) ==
        "throughput: gains count as they are; weight 0.5; compared with other jobs' gains by a factor of 0.5");
}

TEST_CASE("jct: the turn is the inverse of the work left, and unknown work counts as the mean") {
  const ElasticJob a = with_left(1, 10), b = with_left(2, 90);
  ElasticJob c = with_left(3, 10);
  c.total_steps = 0;
  const auto found = standings(ObjectiveKind::jct, {contender(a), contender(b), contender(c)}, 1000, 1);
  CHECK(found[0].turn == doctest::Approx(1.0 / 20));
  CHECK(found[1].turn == doctest::Approx(1.0 / 180));
  CHECK(found[2].turn == doctest::Approx(1.0 / 100));
  CHECK(standings(ObjectiveKind::jct, {contender(a)}, 1000, 0)[0].turn == 1);
  const ElasticJob late = with_left(4, 300, 1000 + 200);
  const auto urgent = standings(ObjectiveKind::jct, {contender(late)}, 1000, 1)[0];
  CHECK(urgent.discount == doctest::Approx(1.5));
  CHECK(describe(urgent) ==
        "jct: 5 min left at its present speed, 3.33 min to its deadline, so its gains count 1.5-fold; compared with "
        "other jobs' gains by a factor of 0.00167");
}

TEST_CASE("deadline: who is short of time counts four times, unless its deadline is lost") {
  const ElasticJob tiny = with_left(1, 1);                // as much turn as a job can have
  const ElasticJob late = with_left(2, 300, 1000 + 200);  // 1.5 times too slow
  const ElasticJob tight = with_left(3, 90, 1000 + 100);  // a tenth of the time to spare
  const ElasticJob early = with_left(4, 70, 1000 + 100);
  const ElasticJob lost = with_left(5, 900, 1000 + 200);  // 4.5 times too slow, and 4 times the GPUs at most
  const ElasticJob over = with_left(6, 300, 999);
  const auto found = standings(
      ObjectiveKind::deadline,
      {contender(tiny), contender(late), contender(tight), contender(early), contender(lost), contender(over)}, 1000,
      1);
  CHECK(found[1].turn == doctest::Approx(4.0 / 600));
  CHECK(found[1].discount == doctest::Approx(1.5));
  CHECK(found[2].turn == doctest::Approx(4.0 / 180));
  CHECK(found[3].turn == doctest::Approx(1.0 / 140));
  CHECK(found[4].lost);
  CHECK(found[4].discount == 1);
  CHECK(found[4].turn == doctest::Approx(1.0 / 1800));
  CHECK(found[5].turn == doctest::Approx(1.0 / 600));
  CHECK(describe(found[4]).find("which it is as good as sure to miss") != std::string::npos);
}

TEST_CASE("fairness: rho is the end over the end alone, from the submission on") {
  const ElasticJob a = with_left(1, 500), b = with_left(2, 500), c = with_left(3, 500);
  Contender waited = contender(a), quick = contender(b);
  waited.submitted = 0;  // 1000 s ago, 500 s left: 1.5 times its 1000 s alone
  waited.alone_step_seconds = 1;
  quick.submitted = 900;  // 600 s in all, but 2000 s alone
  quick.alone_step_seconds = 2;
  const auto found = standings(ObjectiveKind::fairness, {waited, quick, contender(c)}, 1000, 1);
  CHECK(found[0].rho == doctest::Approx(1.5));
  CHECK(found[1].rho == doctest::Approx(0.3));
  CHECK(found[2].rho == 0);
  CHECK(found[0].turn == doctest::Approx(1.5 / 1000));
  CHECK(found[1].turn == doctest::Approx(0.3 / 1000));
  CHECK(found[2].turn == doctest::Approx(1.0 / 1000));
  CHECK(describe(found[0]).find("rho 1.5: ") != std::string::npos);
  CHECK(describe(found[2]).find("counts with a rho of 1") != std::string::npos);
}

namespace {

JobId first_served(ObjectiveKind kind, const std::vector<ElasticJob>& jobs, const std::map<JobId, double>& submitted) {
  SchedulerOptions options = bold();
  options.objective.kind = kind;
  auto input = input_of({node("n1", 6)}, jobs);
  input.submitted = submitted;
  const auto decisions = make_suika_scheduler(options)->decide(input);
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].objective.starts_with(to_string(kind) + ": "));
  return decisions[0].job;
}

}  // namespace

TEST_CASE("of two equal jobs that want the same idle GPUs, the objective says which gets them") {
  // 11 has more work left, and a deadline that it would miss; 10 has waited longer.
  std::vector<ElasticJob> jobs{job(10, "n1", {0, 1}, 4), job(11, "n1", {2, 3}, 4)};
  jobs[0].total_steps = 10'000;
  jobs[1].total_steps = 20'000;
  CHECK(first_served(ObjectiveKind::jct, jobs, {}) == 10);
  CHECK(first_served(ObjectiveKind::fairness, jobs, {{10, 1000}, {11, 1000}}) == 10);
  CHECK(first_served(ObjectiveKind::fairness, jobs, {{10, 1000}, {11, 1000 - 80'000}}) == 11);
  jobs[1].deadline = 1000 + 15'000;
  CHECK(first_served(ObjectiveKind::deadline, jobs, {}) == 11);
}
