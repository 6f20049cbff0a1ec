// How `espalier plan` prints its results.
#include <doctest/doctest.h>

#include <sstream>

#include "planner/cli/plan_report.hpp"
#include "planner/core/hostlist.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::cli;
using namespace espalier::plan_files;

namespace {

const std::string kJob = "examples/plan/llama2-13b.toml", kCluster = "examples/plan/cluster-a.toml";

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The row of `stage` in the first drawing.
std::string row(const std::string& text, const std::string& stage) {
  for (const std::string& line : lines(text))
    if (holds(line, "|") && line.substr(0, 5) == std::string(5 - stage.size(), ' ') + stage) return line;
  return "";
}

// Two stages, each on one node, made by hand. A step takes 10 ms; stage 0 works 9 ms of it.
PlannedCount two_stages() {
  PlannedCount planned;
  planned.gpus = 5;
  planned.plan = uniform_plan(2, 1, 5, 4, 2, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}}, 2);
  StagePrediction stage;
  stage.comp_fwd = 1;
  stage.comp_bwd = 2;
  stage.comm_fwd = stage.comm_bwd = 0.25;
  stage.time = {1.25, 2.25, 2, 0};
  stage.gradients = 2, stage.sync = 1, stage.optim = 1;
  stage.memory.peak = 30e9, stage.capacity = 72e9;
  planned.prediction.stages = {stage, stage};
  planned.prediction.stages[1].optim = 2;
  planned.prediction.exact_ms = 10;
  planned.measured = true;
  return planned;
}

}  // namespace

TEST_SUITE("plan") {
  TEST_CASE("the examples make a table and a drawing of each plan, at most 100 columns wide") {
    const std::string text = plan(kJob, kCluster, "8,16,32,64");
    for (const std::string& line : lines(text)) CHECK_MESSAGE(line.size() <= 100, line);
    CHECK(holds(text, "llama2-13b: llama, 40 layers, hidden 5120, 40 heads, vocabulary 32000; 256 samples of 4096"));
    CHECK(holds(text, "examples/plan/cluster-a.toml: 8 nodes, 64 h100\n"));
    CHECK(holds(text, "~ assumed: no step was measured: computation reaches 45% of a GPU's BF16 peak\n"));
    CHECK(holds(text, "\n GPUs  plan "));
    for (const char* gpus : {"\n    8  pp", "\n   16  pp", "\n   32  pp", "\n   64  pp"}) CHECK(holds(text, gpus));
    for (const char* gpus : {"\n8 GPUs, ", "\n16 GPUs, ", "\n32 GPUs, ", "\n64 GPUs, "}) CHECK(holds(text, gpus));
    CHECK(holds(text, "of the 90% of a GPU that a plan may fill"));
    CHECK(plan(kJob, kCluster, "8,16,32,64") == text);
  }

  TEST_CASE("what nobody measured has a tilde, and what was measured has none") {
    const std::string assumed = plan(kJob, kCluster, "8");
    const auto header = assumed.find("GPUs  plan");
    CHECK(holds(assumed.substr(header), " ~1.00       ~100%"));
    CHECK(holds(assumed, " s a step (assumed)\n"));
    const Folder folder;
    const std::string job = folder.write("j.toml",
                                         "model = \"llama2-7b\"\nglobal_batch = 64\nrecompute = true\nstep_seconds = "
                                         "6\npresent = { pp = 4, micro_batches = 64 }\n");
    const std::string measured = plan(job, kCluster, "4");
    CHECK(holds(measured, "measured: 6 s a step with pp4/dp1/tp1, 64 micro-batches\n"));
    CHECK(holds(measured, " 1.00        100% "));
    CHECK_FALSE(holds(measured, "(assumed)"));
    CHECK(holds(measured, "~ assumed: parameters and activations are those of the model's shape\n"));
    CHECK(holds(row(measured, "0"), "|  ~"));  // memory is an estimate
  }

  TEST_CASE("a stage's row tells its layers, degrees, share, what it does in a step, memory and GPUs") {
    const std::string text = plan_drawing(two_stages());
    CHECK(text.starts_with("5 GPUs, 2 micro-batches of 2 samples, 0.01 s a step; 1 GPU stays idle\n"));
    // Per step 2 ms forward, 4 backward, 1 TP, 1 synchronization, 1 optimizer and 1 waiting. 4
    // characters stand for 1 ms.
    CHECK(row(text, "0") ==
          "    0  0-2          1x2      2  |ffffffffbbbbbbbbbbbbbbbbttttssssoooo....|  ~30.0/72.0  n1:2");
    CHECK(row(text, "1") ==
          "    1  3-4          1x2      2  |ffffffffbbbbbbbbbbbbbbbbttttssssoooooooo|  ~30.0/72.0  n2:2");
    CHECK(holds(text, "    0        1.25       0.25       2.25       0.25          2          1          1\n"));
    CHECK(holds(text, "    1        1.25       0.25       2.25       0.25          2          1          2\n"));
  }

  TEST_CASE("stages with the same times share a line") {
    PlannedCount planned = two_stages();
    planned.prediction.stages[1] = planned.prediction.stages[0];
    planned.measured = false;
    const std::string text = plan_drawing(planned);
    CHECK(holds(text, "  0-1       ~1.25      ~0.25      ~2.25      ~0.25         ~2         ~1         ~1\n"));
    CHECK(holds(text, " ~0.01 s a step; 1 GPU stays idle (assumed)\n"));
  }

  TEST_CASE("nodes of a stage stand by how many of their GPUs it has") {
    PlannedCount planned = two_stages();
    Plan& made = *planned.plan;
    made.micro_batches = 1;
    made.stages[0] = {3, 1, {}};
    for (const char* node : {"n10", "n9", "n8", "n3", "n3"}) made.stages[0].replicas.push_back({1, {{node, 0}}});
    made.stages[0].replicas[1].share = 2;
    CHECK(row(plan_drawing(planned), "0").ends_with(" n3:2 n[8-10]:1"));
    CHECK(holds(row(plan_drawing(planned), "0"), " 5x1    1-2 "));
    CHECK(fold_hosts({"n2", "n1", "n2", "m1"}) == "m1,n[1-2]");
    CHECK(fold_hosts({}) == "");
  }

  TEST_CASE("-o gives a record for each number of GPUs, --json everything") {
    const auto records = lines(plan(kJob, kCluster, "1,8,16", {"-o"}));
    REQUIRE(records.size() == 3);
    CHECK(records[0].starts_with("GPUs=1 Plan=(null) Reason=does not fit: needs "));
    for (const char* part : {"GPUs=8 ", "UsedGPUs=8 ", "Plan=pp", "Layers=", "MicroBatches=", "StepTime=",
                             "TokensPerSec=", "Speedup=1.000 ", "Efficiency=1.000 ",
                             "PeakMemoryGB=", "MemoryLimitGB=72.00 ", "Assumed=time,memory ", "PlanGPUs=n1/0,"})
      CHECK(holds(records[1], part));
    CHECK(records[2].starts_with("GPUs=16 "));
    const Json json = Json::parse(plan(kJob, kCluster, "8", {"--json"}));
    CHECK(json["job"]["shape"]["layers"] == 40);
    CHECK(json["cluster"] == kCluster);
    CHECK(json["assumed"].size() == 3);
    CHECK(json["plans"][0]["stages"].size() == json["plans"][0]["plan"]["stages"].size());
  }

  TEST_CASE("a number of GPUs on which nothing fits has a line that says so") {
    const std::string text = plan(kJob, kCluster, "1,8");
    CHECK(holds(text, "\n    1  does not fit: needs "));
    CHECK_FALSE(holds(text, "\n1 GPU, "));
  }

  TEST_CASE("one is told as one, and a path of any bytes is no error in JSON") {
    const Folder folder;
    const std::string job = folder.write("j.toml", "model = \"gpt2-124m\"\nglobal_batch = 1\n");
    const std::string text = "[[nodes]]\nname = \"n1\"\ngpus = 1\ngpu_type = \"h100\"\n";
    const std::string table = plan(job, folder.write("c.toml", text), "1");
    CHECK(holds(table, "; 1 sample of 1024 tokens a"));
    CHECK(holds(table, ": 1 node, 1 h100\n"));
    CHECK(holds(table, "\n1 GPU, 1 micro-batch of 1 sample, "));
    CHECK(Json::parse(plan(job, folder.write("c\xff.toml", text), "1", {"--json"}))["plans"].size() == 1);
  }

  TEST_CASE("a GPU type that is not known is noted") {
    const Folder folder;
    const std::string cluster = folder.write("c.toml", "[[nodes]]\nname = \"n1\"\ngpus = 8\ngpu_type = \"cerebro\"\n");
    const std::string job = folder.write("j.toml", "model = \"gpt2-124m\"\nglobal_batch = 8\n");
    CHECK(holds(plan(job, cluster, "8"),
                "note: GPU type \"cerebro\": not known, taken for an A100 of 40 GB; give [gpu.NAME]\n"));
  }
}
