#include <doctest/doctest.h>

#include "planner/cli/records.hpp"
#include "tests/unit/schedule_cases.hpp"

using namespace espalier;
using namespace espalier::cli;

namespace {
Json some_job() {
  auto job = test::job(10, "n1", {0, 1});
  job.name = "train";
  test::extend(job, 20, "n2", {0, 1, 3});
  Json json = job;
  json["gpus"] = 5;
  json["connected"] = true;
  json["tokens_per_second"] = 1234.5;
  return json;
}
std::string text(const Record& record, bool line = true) { return format(record, line); }
bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("records are wrapped by a newline and three spaces, or stand on one line") {
  const Record record{{{"A", "1"}, {"B", "2"}}, {}, {{"C", "(null)"}}};
  CHECK(format(record, false) == "A=1 B=2\n   C=(null)\n\n");
  CHECK(format(record, true) == "A=1 B=2 C=(null)\n");
}

TEST_CASE("a name cannot steer the terminal or forge a line") {
  CHECK(format({{{"Name", "a\x1b[2J\nJobId=1"}}}, true) == "Name=a?[2J?JobId=1\n");
}

TEST_CASE("a job's record") {
  const std::string record = text(job_record(some_job()));
  for (const char* part :
       {"JobId=10 ", "Name=train ", "UserId=", "State=RUNNING ", "Generation=0 ", "Step=0 ", "TotalSteps=0 ", "GPUs=5 ",
        "MinGPUs=1 ", "MaxGPUs=8 ", "Accuracy=bitwise ", "AnchorGPUs=n1/[0-1] ", "Extensions=20:n2/[0-1,3] ",
        "Plan=pp5/dp1/tp1 ", "Layers=2+2+2+1+1 ", "PlanGPUs=n1/0,n1/1,n2/0,n2/1,n2/3 ", "StepTime=1.0000 ",
        "TokensPerSec=1234.5", "Held=No "}) {
    CAPTURE(part);
    CHECK(holds(record, part));
  }
  CHECK(text(job_record(some_job()), false).substr(0, 9) == "JobId=10 ");
}

TEST_CASE("percentages have two digits, and whole ones from 10 on") {
  CHECK(percent_text(0.0062) == "0.62%");
  CHECK(percent_text(0.05) == "5%");
  CHECK(percent_text(0.126) == "13%");
  CHECK(percent_text(1.5) == "150%");
  CHECK(percent_text(nullptr) == "(null)");
}

TEST_CASE("absent things are (null)") {
  auto json = some_job();
  json["plan"] = nullptr;
  json["name"] = "";
  json["step_seconds"] = 0;
  json["tokens_per_second"] = nullptr;
  json["extensions"] = Json::array();
  json["ended"] = true;
  const std::string record = text(job_record(json));
  for (const char* part : {"Name=(null)", "Plan=(null)", "Layers=(null)", "PlanGPUs=(null)", "StepTime=(null)",
                           "TokensPerSec=(null)", "Extensions=(null)", "State=ENDED"})
    CHECK(holds(record, part));
}

TEST_CASE("a decision's record and its candidates") {
  Decision decision;
  decision.id = 7;
  decision.time = 1000.25;
  decision.trigger = Trigger::gpus_released;
  decision.kind = DecisionKind::grow;
  decision.job = 10;
  decision.reason = "2 idle GPUs";
  decision.plan = *test::job(10, "n1", {0, 1}).plan;
  decision.acquire = {{"n1", 2, 2, 100, 60}, {"n2", 1, 1, 100, 60}};
  decision.release = {20, 21};
  decision.predicted_step_seconds = 0.5;
  decision.pause_ms = 12.34;
  decision.candidates = {{"pp2 dp1 tp1 | 4+4 layers | n1:2", 1, 0.5, 0.25, ""}, {"pp3", 2, 0.75, 0.1, "slower"}};
  Json json = decision;
  json["moments"] = {{"event", 1000.0}, {"seen", 1000.02}, {"decided", 1000.02}, {"proposed", 1000.021}};
  json["phases_ms"] = {{"acquire", 100.0}};
  const std::string record = text(decision_record(json));
  for (const char* part :
       {"DecisionId=7 ", "Trigger=gpus_released ", "Kind=grow ", "JobId=10 ", "Outcome=under way ",
        "Acquire=n1:2,n2:1 ", "Release=20,21 ", "Plan=pp2/dp1/tp1 ", "PredictedStep=0.5000 ", "MeasuredStep=(null) ",
        "PredictionError=(null) ", "PauseMs=12.3 ", "EventToSeenMs=20.0 ", "SeenToDecidedMs=0.0 ",
        "DecidedToProposedMs=1.0 ", "ProposedToFinishedMs=(null) ", "acquireMs=100.0 ", "Reason=2 idle GPUs"}) {
    CAPTURE(part);
    CHECK(holds(record, part));
  }
  const auto candidates = candidate_records(json);
  REQUIRE(candidates.size() == 2);
  CHECK(text(candidates[0]) ==
        "Candidate=1 AddedGPUs=1 PredictedStep=0.5000 Benefit=0.250 Plan=pp2 dp1 tp1 | 4+4 layers | n1:2 "
        "LostBecause=(null): it was chosen\n");
  CHECK(holds(text(candidates[1]), "LostBecause=slower"));
}

TEST_CASE("a decision tells how far its prediction was off, once the step is measured") {
  Decision decision;
  decision.predicted_step_seconds = 0.5;
  decision.measured_step_seconds = 0.4;
  CHECK(
      holds(text(decision_record(Json(decision))), "PredictedStep=0.5000 MeasuredStep=0.4000 PredictionError=+25.0% "));
  decision.measured_step_seconds = 0.505;
  CHECK(holds(text(decision_record(Json(decision))), "PredictionError=-1.0% "));
  decision.predicted_step_seconds = 0;
  CHECK(holds(text(decision_record(Json(decision))), "PredictionError=(null) "));
}

TEST_CASE("a waiting job's record") {
  Json waiting{{"id", 30}, {"gpus", 4}, {"nodes", 2}, {"priority", 4294901728.0}, {"only_nodes", "n[1-2]"}};
  CHECK(text(waiting_record(waiting)) == "WaitingJobId=30 GPUs=4 Nodes=2 Priority=4294901728 OnlyNodes=n[1-2]\n");
  waiting["tasks"] = 12;  // of an array
  CHECK(holds(text(waiting_record(waiting)), "Tasks=12"));
}

TEST_CASE("a node's record names the holders of its GPUs") {
  auto node = test::node("n1", 5);
  node.gpu_owner = {10, 10, 0, static_cast<JobId>(-1), 20};
  Json json = node;
  json["idle_gpus"] = 1;
  const std::string record = text(node_record(json));
  CHECK(holds(record, "HeldGPUs=10/[0-1],20/4,unknown/3 "));
  CHECK(holds(record, "IdleGPUs=1 "));
  CHECK_FALSE(holds(record, "Slow="));
  json["slow"] = {{"share", 0.614}, {"jobs", 1}};
  CHECK(holds(text(node_record(json)), "Slow=computes at 61% of its like, as 1 job measured"));
  CHECK(holds(record, "Switches=spine.leaf1"));
  CHECK_FALSE(holds(record, "SlowLinks="));
  json["slow_links"] = {{"to", {"n2", "n3"}}, {"share", 0.206}, {"jobs", 2}};
  CHECK(holds(text(node_record(json)), "SlowLinks=to n[2-3] at 21% of their like, as 2 jobs measured"));
}

TEST_CASE("plans whose stages differ say so") {
  auto plan = *test::job(10, "n1", {0, 1}).plan;
  plan.stages[1].replicas = {{1, {{"n1", 1}}}, {1, {{"n1", 2}}}};
  CHECK(plan_text(Json(plan)) == "pp2/dp1+2/tp1");
  CHECK(layers_text(Json(plan)) == "4+4");
  CHECK(plan_text(Json(nullptr)) == "(null)");
}

TEST_CASE("numbers and times") {
  CHECK(number_text(0, 2) == "(null)");
  CHECK(number_text(1.005, 1) == "1.0");
  CHECK(time_text(0) == "(null)");
  CHECK(time_text(1000.25).ends_with(".250"));
  CHECK(gpu_list("n1", {3, 1, 0, 2, 7}) == "n1/[0-3,7]");
}
