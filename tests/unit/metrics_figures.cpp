// What the metrics count, the bound on their series, and that no value of a launcher becomes a label.
#include <doctest/doctest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>

#include "planner/daemon/metrics/decision_figures.hpp"
#include "planner/daemon/metrics/figures_collector.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {

std::string text_of(const ClusterFigures& figures) {
  FiguresCollector collector;
  collector.publish(figures);
  return prometheus::TextSerializer().Serialize(collector.Collect());
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

DecisionRecord record_of(DecisionKind kind, const std::string& outcome) {
  DecisionRecord record;
  record.decision.kind = kind;
  record.decision.outcome = outcome;
  record.decision.pause_ms = 20;
  record.moments = {{"event", 99.95}, {"seen", 99.99}, {"decided", 100}, {"finished", 104}};
  return record;
}

std::string text_of(prometheus::Registry& registry) {
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

}  // namespace

TEST_CASE("every GPU counts once, by what it does") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    run_job(slurm, slurm_job(11, 1000, {{11, "n2", {0}}}, "espalier:ext:10:x"));
    run_job(slurm, slurm_job(12, 1001, {{12, "n2", {1, 2}}}));
    slurm.cluster.nodes[1].freeing = {2};
    slurm.cluster.waiting.emplace_back();
    slurm.cluster.waiting.back().gpus = 3;
    slurm.cluster.waiting.back().tasks = 4;  // of an array
    slurm.cluster.nodes.push_back(node("n3", 2));
    slurm.cluster.nodes.back().usable = false;
  });
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return daemon.planner->jobs().contains(10); }));
  const ClusterFigures figures = look(*daemon.planner, 10);
  CHECK(figures.anchor == 2);
  CHECK(figures.lent == 1);
  CHECK(figures.other == 1);
  CHECK(figures.freeing == 1);
  CHECK(figures.idle == 3);
  CHECK(figures.closed == 2);
  CHECK(figures.waiting_jobs == 1);
  CHECK(figures.wanted_gpus == 12);
  CHECK(figures.connected == 1);
  CHECK(figures.slurm_answers);
  REQUIRE(figures.rows.size() == 1);
  CHECK(figures.rows[0].anchor_gpus == 2);
  const std::string text = text_of(figures);
  CHECK(has_line(text, "espalier_gpus{state=\"lent\"} 1"));
  CHECK(has_line(text, "espalier_gpus{state=\"idle\"} 3"));
  CHECK(has_line(text, "espalier_job_gpus{slurm_job=\"10\",uid=\"1000\",part=\"anchor\"} 2"));
  CHECK(has_line(text, "espalier_slurm_up 1"));
}

TEST_CASE("no job has series where Slurm keeps jobs private") {
  Daemon daemon;
  const auto link = daemon.launcher();
  daemon.slurm_says([](SlurmSnapshot& slurm) { slurm.private_jobs = true; });
  REQUIRE(daemon.until([&] { return daemon.planner->jobs().contains(10); }));
  const ClusterFigures figures = look(*daemon.planner, 10);
  CHECK(figures.rows.empty());
  CHECK(figures.connected == 1);
  CHECK(text_of(figures).find("uid=") == std::string::npos);
}

TEST_CASE("a thousand jobs stay below one megabyte, and further ones are counted only") {
  ClusterFigures figures;
  for (JobId id = 1; id <= 1000; ++id) {
    JobFigures row;
    row.id = 4000000000u + id;
    row.uid = 4294967294u;
    row.anchor_gpus = row.lent_gpus = 16384;
    row.generation = 2000000000;
    row.step = std::int64_t{1} << 53;
    row.step_seconds = 1 / 3.0;
    row.tokens_per_second = 1e9 / 3.0;
    figures.rows.push_back(row);
  }
  const std::string text = text_of(figures);
  CHECK(text.size() < 1000000);
  CHECK(text.find("slurm_job=\"4000001000\"") != std::string::npos);
}

TEST_CASE("the jobs with most GPUs keep their series") {
  Daemon daemon;
  daemon.slurm_says([](SlurmSnapshot& slurm) {
    run_job(slurm, slurm_job(11, 1000, {{11, "n2", {0, 1, 2}}}));
    run_job(slurm, slurm_job(12, 1000, {{12, "n2", {3}}}));
  });
  const auto first = daemon.launcher();
  const auto second = daemon.connect(1000), third = daemon.connect(1000);
  second->says(wire::Register{job(11, "n2", {0, 1, 2}), "n2", 2});
  third->says(wire::Register{job(12, "n2", {3}), "n2", 3});
  REQUIRE(daemon.until([&] { return daemon.planner->jobs().size() == 3; }));
  const ClusterFigures figures = look(*daemon.planner, 2);
  REQUIRE(figures.rows.size() == 2);
  CHECK(figures.rows[0].id == 10);
  CHECK(figures.rows[1].id == 11);
  CHECK(figures.rows_left_out == 1);
  CHECK(look(*daemon.planner, 0).rows.empty());
}

TEST_CASE("decisions are counted by kind and by the class of their outcome") {
  prometheus::Registry registry;
  DecisionFigures figures(registry);
  figures.decided(record_of(DecisionKind::grow, ""));
  figures.finished(record_of(DecisionKind::grow, "committed"));
  figures.finished(record_of(DecisionKind::grow, "aborted: \"} evil 1\n"));
  figures.finished(record_of(DecisionKind::shrink, "nonsense\xff"));
  figures.decided(record_of(DecisionKind::migrate, "shadow"));
  figures.finished(record_of(DecisionKind::recover, "committed"));
  const std::string text = text_of(registry);
  CHECK(has_line(text, "espalier_decisions_total{kind=\"grow\",outcome=\"committed\"} 1"));
  CHECK(has_line(text, "espalier_decisions_total{kind=\"grow\",outcome=\"aborted\"} 1"));
  CHECK(has_line(text, "espalier_decisions_total{kind=\"shrink\",outcome=\"other\"} 1"));
  CHECK(has_line(text, "espalier_decisions_total{kind=\"migrate\",outcome=\"shadow\"} 1"));
  CHECK(has_line(text, "espalier_losses_total 1"));
  CHECK(has_line(text, "espalier_pause_seconds_count{kind=\"grow\"} 1"));
  CHECK(has_line(text, "espalier_pause_seconds_sum{kind=\"grow\"} 0.02"));
  CHECK(has_line(text, "espalier_change_seconds_sum{kind=\"grow\"} 8"));
  CHECK(has_line(text, "espalier_reaction_seconds_count 2"));
  CHECK(text.find("evil") == std::string::npos);
}

TEST_CASE("the error of a prediction is told as a share of the measured time") {
  prometheus::Registry registry;
  DecisionFigures figures(registry);
  DecisionRecord record = record_of(DecisionKind::grow, "committed");
  figures.measured(record);  // nothing was predicted
  record.decision.predicted_step_seconds = 1.5;
  record.decision.measured_step_seconds = 2;
  figures.measured(record);
  CHECK(has_line(text_of(registry), "espalier_prediction_error_ratio_count{kind=\"grow\"} 1"));
  CHECK(has_line(text_of(registry), "espalier_prediction_error_ratio_sum{kind=\"grow\"} 0.25"));
}

TEST_CASE("the planner tells its observer of a decision, its outcome and its measured time") {
  struct Listener final : PlannerObserver {
    void decided(const DecisionRecord& record) override {
      said.push_back("decided " + to_string(record.decision.kind));
    }
    void finished(const DecisionRecord& record) override { said.push_back("finished " + record.decision.outcome); }
    void measured(const DecisionRecord&) override { said.push_back("measured"); }
    std::vector<std::string> said;
  } listener;
  Daemon daemon;
  daemon.planner->observe(&listener);
  const auto link = daemon.launcher();
  REQUIRE(daemon.until([&] { return link->got<wire::Propose>().has_value(); }));
  CHECK(listener.said == std::vector<std::string>{"decided grow"});
  const Decision decision = link->got<wire::Propose>()->decision;
  link->says(outcome_of(decision, "committed"));
  CHECK(listener.said.back() == "finished committed");
  ElasticJob news = job(10, "n1", {0, 1});
  news.generation = 1;
  news.step_seconds = 0.5;
  for (const int step : {60, 80}) {
    news.step = step;
    link->says(wire::Status{news});
  }
  CHECK(std::count(listener.said.begin(), listener.said.end(), "measured") == 1);
  daemon.planner->observe(nullptr);
}

TEST_CASE("each phase of a job has a series") {
  const std::string text = text_of(ClusterFigures{});
  for (int phase = 0; phase <= static_cast<int>(JobPhase::ending); ++phase) {
    const std::string line = "espalier_jobs{phase=\"" + to_string(static_cast<JobPhase>(phase)) + "\"} 0";
    CAPTURE(line);
    CHECK(has_line(text, line));
  }
}
