#include <doctest/doctest.h>

#include "launcher/job/deadline_words.hpp"

using namespace espalier;
using namespace espalier::launcher;

namespace {

// Own GPUs: 300 s; best that was found: 100 s on 8; no plan can do it in less than 50 s.
wire::DeadlineChecked checked(bool measured, bool refuses = true) {
  return {true, refuses, {1300, 1100, 2, 8, measured, 1050}};
}
bool has(const DeadlineVerdict& verdict, const std::string& text) {
  return verdict.text.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a deadline that the job's own GPUs keep is admitted, with the predicted ends") {
  const auto verdict = judge_deadline(checked(true), 1300, 1000, false);
  CHECK(!verdict.refused);
  CHECK(!verdict.doubtful);
  CHECK(has(verdict, ": admitted: predicted end "));
  CHECK(has(verdict, " on its 2 GPUs, "));
  CHECK(has(verdict, " on 8 GPUs at best (by what a job like it measured)"));
}

TEST_CASE("a deadline that only more GPUs keep is admitted, and says so") {
  const auto verdict = judge_deadline(checked(true), 1299, 1000, false);
  CHECK(!verdict.refused);
  CHECK(has(verdict, ": admitted, but it is kept only with more GPUs: predicted end "));
}

TEST_CASE("a deadline that no number of GPUs keeps is refused where that was measured and the site refuses") {
  const auto verdict = judge_deadline(checked(true), 1040, 1000, false);
  CHECK(verdict.refused);
  CHECK(has(verdict, ": refused: 60 s too late even on the most GPUs that help: "));
  CHECK(has(verdict, "; give a later deadline, a larger MAX or fewer steps, or leave deadline= out"));
  const auto lenient = judge_deadline(checked(true, false), 1040, 1000, false);
  CHECK(!lenient.refused);
  CHECK(lenient.doubtful);
  CHECK(has(lenient, ": will be missed: 60 s too late"));
  CHECK(has(lenient, "; the site lets it start all the same"));
  const auto rough = judge_deadline(checked(false), 1040, 1000, false);
  CHECK(!rough.refused);
  CHECK(rough.doubtful);
  CHECK(has(rough, "(by the GPUs' data sheets alone; nothing is measured yet); too rough a figure to refuse the job"));
}

TEST_CASE("a deadline that only plans which were not looked at may keep is no reason to refuse the job") {
  const auto verdict = judge_deadline(checked(true), 1060, 1000, false);
  CHECK(!verdict.refused);
  CHECK(verdict.doubtful);
  CHECK(has(verdict, ": will probably be missed: 40 s too late even on the most GPUs that help: "));
  CHECK(has(verdict, "; a plan that was not looked at may keep it, so the job starts"));
  wire::DeadlineChecked older = checked(true);  // of a planner that tells no bound
  older.forecast.least_end = 0;
  CHECK(!judge_deadline(older, 1040, 1000, false).refused);
}

TEST_CASE("a deadline that is over is refused whatever is known") {
  CHECK(judge_deadline({false, true, {}}, 1000, 1000, false).refused);
  CHECK(has(judge_deadline({false, true, {}}, 1000, 1000, false), ": refused: it is over already; "));
  CHECK(!judge_deadline({false, false, {}}, 1000, 1000, false).refused);
}

TEST_CASE("without a number of steps, or with a training that goes on, nothing can be told and nothing is refused") {
  const auto unknown = judge_deadline({false, true, {}}, 1040, 1000, false);
  CHECK(!unknown.refused);
  CHECK(has(unknown, ": cannot be told yet: "));
  const auto resumed = judge_deadline(checked(true), 1040, 1000, true);
  CHECK(!resumed.refused);
  CHECK(has(resumed, "training goes on from an earlier state"));
  CHECK(!judge_deadline(checked(true), 999, 1000, true).refused);
}

TEST_CASE("an unchecked deadline names the reason") {
  CHECK(unchecked_deadline(1000, "the planner does not answer")
            .find(": could not be checked: the planner does not answer; the job goes on") != std::string::npos);
}
