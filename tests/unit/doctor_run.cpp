#include "planner/cli/doctor/toy_job.hpp"
#include "tests/unit/doctor_cases.hpp"

using namespace espalier;
using namespace espalier::cli::doctor;
using namespace espalier::cli::doctor::cases;

namespace {

ToyRun good() {
  ToyRun run;
  run.job.program = "/opt/espalier/bin/espalier-train";
  run.id = 12;
  run.waited = 1.5;
  run.seen = Json{{"step_seconds", 0.2}};
  run.most_gpus = 2;
  run.steps = run.all_steps = 100;
  run.said = "salloc: Granted job allocation 12\nespalier: launch: generation 0 starts\nlast words\n";
  return run;
}

Finding part(const ToyRun& run, const std::string& name) {
  for (Finding& found : judge_run(run))
    if (found.check == name) return found;
  return skipped("no such finding");
}

}  // namespace

TEST_CASE("doctor --run: a job that started, reported, grew and ended") {
  const auto findings = judge_run(good());
  CHECK(findings.size() == 4);
  for (const Finding& found : findings) {
    INFO(found.check << ": " << found.found);
    CHECK(found.verdict == Verdict::ok);
  }
}

TEST_CASE("doctor --run: a busy cluster is no fault, a refused job is") {
  ToyRun run = good();
  run.id = 0;
  run.waited = 60;
  CHECK(part(run, "run-start").verdict == Verdict::warning);
  CHECK(part(run, "run-end").verdict == Verdict::skipped);
  run.waited = 0.1;
  run.said = "salloc: error: Job submit/allocate failed: Invalid account\n";
  CHECK(part(run, "run-start").verdict == Verdict::fault);
  CHECK(says(part(run, "run-start"), "Invalid account"));
}

TEST_CASE("doctor --run: a training that espalierd does not see, or that reports no step") {
  ToyRun run = good();
  run.seen = Json{{"step_seconds", 0.0}};
  CHECK(part(run, "run-report").verdict == Verdict::fault);
  run.seen.reset();
  run.unseen = "job 12: not an elastic job that this planner has seen";
  CHECK(part(run, "run-report").verdict == Verdict::fault);
  CHECK(says(part(run, "run-report"), "trained without espalierd's knowledge: job 12: not an elastic job"));
  run.steps = 0;
  CHECK(says(part(run, "run-report"), "never heard of it: espalier: launch: generation 0 starts"));
}

TEST_CASE("doctor --run: no growth is no fault, no end is") {
  ToyRun run = good();
  run.most_gpus = 1;
  CHECK(part(run, "run-growth").verdict == Verdict::skipped);
  run.steps = 40;
  CHECK(part(run, "run-end").verdict == Verdict::fault);
  CHECK(says(part(run, "run-end"), "40 of 100 steps"));
  run.steps = 100;
  run.failed = true;
  CHECK(says(part(run, "run-end"), "failed"));
}
