// espalier-bench handoff: its arguments, and the hand-off of the project's target.
#include <doctest/doctest.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "tests/bench/planner/commands.hpp"
#include "tests/bench/planner/handoff_arguments.hpp"
#include "tests/bench/planner/transfer_bound.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::bench;
using namespace espalier::torchrt;

TEST_CASE("degrees are GPUs of nodes filled in order") {
  const Plan plan = handoff_plan("2x2x4", 10, 8);
  REQUIRE(plan.stages.size() == 2);
  CHECK(plan.stages[1].layers == 5);
  CHECK(plan.stages[1].tp == 4);
  CHECK(plan.stages[1].replicas[0].gpus[0] == GpuId{"n1", 0});
  CHECK(plan.stages[1].replicas[1].gpus[3] == GpuId{"n1", 7});
  CHECK_THROWS_WITH_AS(handoff_plan("1x1x9", 10, 8), doctest::Contains("spans nodes"), Error);
  CHECK_THROWS_WITH_AS(handoff_plan("11x1x1", 10, 8), doctest::Contains("10 layers cannot fill 11 stages"), Error);
  CHECK_THROWS_AS(handoff_plan("0x1x1", 10, 8), Error);
  for (const char* wrong : {"", "8", "8x4", "8x4x8x2", "-1x1x1", "8x4x8 ", "99999x1x1"})
    CHECK_THROWS_WITH_AS(handoff_plan(wrong, 10, 8), doctest::Contains("neither PPxDPxTP"), Error);
}

TEST_CASE("a plan file is read, and refused by name when it is wrong") {
  const Plan plan = handoff_plan("2x1x2", 10, 8);
  const plan_files::Folder folder;
  const std::string good = folder.write("plan.json", nlohmann::json(plan).dump());
  CHECK(handoff_plan(good, 10, 8) == plan);
  CHECK_THROWS_WITH_AS(handoff_plan(good, 12, 8), doctest::Contains("the model has 12"), Error);
  for (const char* wrong : {"", "{\"stages\": ", "[]", "{}"}) {
    const std::string path = folder.write("wrong.json", wrong);
    CHECK_THROWS_WITH_AS(handoff_plan(path, 10, 8), doctest::Contains(path.c_str()), Error);
  }
}

TEST_CASE("published models have their own key and value heads and widths") {
  const ModelConfig large = handoff_model("llama2-70b");
  CHECK(large.layers == 80);
  CHECK(large.key_value_heads == 8);
  CHECK(large.intermediate == 28672);
  CHECK(!large.tied_embeddings);
  CHECK(handoff_model("llama-65b").intermediate == 22016);
  CHECK(handoff_model("llama2-7b").intermediate == 11008);
  CHECK(handoff_model("qwen2-0.5b").tied_embeddings);
  CHECK(handoff_model("gpt2-xl").tied_embeddings);
  CHECK_THROWS_AS(handoff_model("llama2-71000b"), Error);
  CHECK_THROWS_AS(handoff_model("absent.json"), Error);
}

TEST_CASE("the command refuses what it does not know") {
  const auto parse = [](std::vector<std::string> arguments) {
    CLI::App app;
    add_handoff(app);
    arguments.insert(arguments.begin(), "handoff");
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
  };
  CHECK_THROWS_AS(parse({"--from", "1x1x1"}), CLI::RequiredError);
  CHECK_THROWS_AS(parse({"--to", "1x1x1"}), CLI::RequiredError);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--dtype", "int8"}, {"--memory", "disk"}, {"--node-gpus", "0"}, {"--repeats", "0"}}) {
    std::vector<std::string> arguments{"--from", "1x1x1", "--to", "1x1x1"};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    CHECK_THROWS_AS(parse(arguments), CLI::ValidationError);
  }
  CHECK_THROWS_AS(parse({"--from", "1x1x1", "--to", "1x1x1", "--fast"}), CLI::ExtrasError);
}

TEST_CASE("LLaMA-2 70B from 256 to 320 GPUs sends the least") {
  const ModelConfig model = handoff_model("llama2-70b");
  for (const char* to : {"10x4x8", "10x8x4"})
    for (const bool zero1 : {false, true}) {
      TransferRequest request;
      request.before = handoff_plan("8x4x8", model.layers, 8);
      request.after = handoff_plan(to, model.layers, 8);
      request.zero1_before = request.zero1_after = zero1;
      request.dtype = DataType::bfloat16;
      request.gpu_memory = true;
      const TransferPlan plan(model, request);
      CHECK(plan.bytes_sent() == least_bytes_between_nodes(model, request));
      CHECK(plan.bytes_sent() > 0);
    }
}
