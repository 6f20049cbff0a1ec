// Measured plans: their files, their placed plans, and the file of a cluster's bandwidths.
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/model/published_models.hpp"
#include "tests/bench/planner/cluster.hpp"
#include "tests/bench/planner/measured_plan.hpp"

using namespace espalier;
using namespace espalier::bench;

namespace {

// A file that is removed with the object.
class Scratch {
 public:
  explicit Scratch(const std::string& text) {
    char name[] = "/tmp/espalier-bench-XXXXXX";
    std::FILE* file = fdopen(mkstemp(name), "w");
    std::fputs(text.c_str(), file);
    std::fclose(file);
    path_ = name;
  }
  ~Scratch() { std::filesystem::remove(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string kHeader =
    "gpus,model,nodes,placement,pp,dp,tp,micro_batches,global_batch,iteration_time_s,fwdbwd_ms\n";

void refused(const std::string& text, const std::string& why) {
  const Scratch file(text);
  try {
    read_measurements(file.path());
    FAIL("accepted: " << text);
  } catch (const Error& error) {
    const std::string what = error.what();
    CHECK(what.find(file.path()) == 0);
    CHECK_MESSAGE(what.find(why) != std::string::npos, what);
  }
}

Measurement measurement(const std::string& placement, int pp, int dp, int tp) {
  Measurement m;
  m.model = "LLaMA-2-7B";
  m.shape = published_model(m.model);
  m.shape.global_batch = 16;
  m.shape.micro_batches = 1;
  m.placement = placement;
  m.pp = pp, m.dp = dp, m.tp = tp;
  return m;
}

}  // namespace

TEST_CASE("measurements are read with their columns in any order, empty cells as not measured") {
  const Scratch file(kHeader +
                     "16,LLaMA-2-7B,2,88,2,4,2,1,8,1.289247,1161.1\n\n5,GPT-2-XL(1.5B),1,5,1,1,5,1,16,1.03,\n");
  const auto rows = read_measurements(file.path());
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].where == file.path() + ":2");
  CHECK(rows[0].name() == "88 pp2 dp4 tp2");
  CHECK(rows[0].times.iteration == doctest::Approx(1289.247));
  CHECK(rows[0].times.forward_backward == doctest::Approx(1161.1));
  CHECK(rows[0].times.optimizer == 0);
  CHECK(rows[0].shape == ModelShape{"llama", 32, 4096, 32, 2048, 32000, 8, 1});
  CHECK(rows[1].where == file.path() + ":4");
  CHECK(rows[1].times.forward_backward == 0);
  CHECK(rows[1].shape.hidden == 1600);
}

TEST_CASE("a malformed measurement is refused with file, line and column") {
  refused("", ":1: the line that names the columns is missing");
  refused("model,gpus\n", ":1: column nodes: missing");
  refused("model,model\n", ":1: column model: given twice");
  refused("model,loss\n", ":1: column loss: unknown");
  refused(kHeader, "holds no measurement");
  refused(kHeader + "16,LLaMA-2-7B,2\n", ":2: has 3 cells, there are 11 columns");
  refused(kHeader + "16,LLaMA-2-7B,2,88,2,4,x,1,8,1.2,1\n", ":2: column tp: \"x\" is no whole number of at least 1");
  refused(kHeader + "16,LLaMA-2-7B,2,88,2,4,0,1,8,1.2,1\n", ":2: column tp: \"0\"");
  refused(kHeader + "16,LLaMA-2-7B,2,8x,2,4,2,1,8,1.2,1\n", ":2: column placement: \"8x\"");
  refused(kHeader + "16,LLaMA-2-7B,2,87,2,4,2,1,8,1.2,1\n", ":2: column placement: holds 15 GPUs, the row says 16");
  refused(kHeader + "16,LLaMA-2-7B,2,88,2,4,4,1,8,1.2,1\n", ":2: column gpus: 16 is not pp x dp x tp = 32");
  refused(kHeader + "16,LLaMA-2-7B,3,88,2,4,2,1,8,1.2,1\n", ":2: column nodes: the placement has 2");
  refused(kHeader + "16,LLaMA-2-7B,2,88,2,4,2,3,8,1.2,1\n", ":2: column micro_batches");
  refused(kHeader + "16,LLaMA-2-7B,2,88,2,4,2,4,8,1.2,1\n", ":2: column dp");
  refused(kHeader + "16,LLaMA-2-7B,2,88,2,4,2,1,8,,1\n", ":2: column iteration_time_s: \"\" is no positive time");
  refused(kHeader + "16,LLaMA-2-7B,2,88,2,4,2,1,8,1.2,-1\n", ":2: column fwdbwd_ms: \"-1\"");
  refused(kHeader + "16,LLaMA-2-7B,2,88,2,4,2,1,8,nan,1\n", ":2: column iteration_time_s: \"nan\"");
  refused(kHeader + "16,Mystery-9B,2,88,2,4,2,1,8,1.2,1\n",
          ":2: column model: model \"Mystery-9B\": its shape is unknown");
  CHECK_THROWS_WITH_AS(read_measurements("/nowhere.csv"), "/nowhere.csv: cannot be read", Error);
}

TEST_CASE("models are known by family and size, however their names are written") {
  CHECK(published_model("LLaMA-2-7B").hidden == 4096);
  CHECK(published_model("llama2-13b").layers == 40);
  CHECK(published_model("LLaMA-30B").layers == 60);
  CHECK(published_model("GPT-2-XL(1.5B)").layers == 48);
  CHECK(published_model("gpt2-xl").layers == 48);
  CHECK(published_model("gpt2 350M").hidden == 1024);
  CHECK(published_model("Qwen2-0.5B").hidden == 896);
  CHECK(published_model("Qwen2.5-7B").vocabulary == 152064);
  CHECK(published_model("llama-30b") == published_model("LLaMA-33B"));
  CHECK(published_model("llama-70b").key_value_heads == 8);
  CHECK(published_model("gpt2 2.6b") == published_model("gpt2 2.7b"));
  CHECK_THROWS_AS(published_model("LLaMA-2"), Error);
  // Another generation has other widths and another vocabulary. Qwen's first has no number.
  for (const char* name : {"llama3-70b", "Llama-3.3-70B", "Qwen1.5-7B", "qwen3 7b", "qwen-7b", "Qwen-72B"})
    CHECK_THROWS_WITH_AS(published_model(name), doctest::Contains("are not known"), Error);
  for (const char* name : {"LLaMA-8B", "llama-32b", "llama2-30b", "llama2-65b", "llama-1-34b", "codellama-7b"}) {
    INFO(name);
    CHECK_THROWS_WITH_AS(published_model(name), doctest::Contains("its shape is unknown"), Error);
  }
  CHECK_THROWS_AS(published_model("7B"), Error);
}

TEST_CASE("LLaMA-2 has other samples than LLaMA, and its 34B is not LLaMA's 33B") {
  CHECK(published_model("llama-7b").sequence == 2048);
  CHECK(published_model("llama2-7b").sequence == 4096);
  CHECK(published_model("LLaMA-2-13B").sequence == 4096);
  for (const char* name : {"llama2-34b", "codellama-34b", "CodeLlama-34b"}) {
    const ModelShape shape = published_model(name);
    CHECK(shape.layers == 48);
    CHECK(shape.hidden == 8192);
    CHECK(shape.key_value_heads == 8);
    CHECK(shape.intermediate == 22016);
    CHECK(shape.vocabulary == 32000);
  }
}

// The numbers that the model cards give, in billions. Qwen2's two small ones have one matrix for embedding and head.
TEST_CASE("published models have as many parameters as they were published with") {
  const std::vector<std::tuple<const char*, bool, double>> published{
      {"gpt2-xl", true, 1.558},     {"llama-7b", false, 6.738},    {"llama-13b", false, 13.016},
      {"llama-65b", false, 65.286}, {"llama2-34b", false, 33.744}, {"llama2-70b", false, 68.977},
      {"qwen2-0.5b", true, 0.494},  {"qwen2-1.5b", true, 1.544},   {"qwen2-7b", false, 7.616},
      {"qwen2-72b", false, 72.706}};
  for (const auto& [name, tied, billions] : published) {
    INFO(name);
    CHECK(total_parameters(published_model(name), tied) / 1e9 == doctest::Approx(billions).epsilon(0.001));
  }
}

TEST_CASE("a model that has no known shape may bring it in columns") {
  const Scratch file(
      "gpus,model,nodes,placement,pp,dp,tp,micro_batches,global_batch,iteration_time_s,family,layers,hidden,heads,"
      "sequence,vocabulary\n1,Mystery,1,1,1,1,1,2,4,1.5,llama,3,64,4,128,1000\n");
  CHECK(read_measurements(file.path())[0].shape == ModelShape{"llama", 3, 64, 4, 128, 1000, 4, 2});
}

TEST_CASE("ranks fill the nodes stage by stage, and the ring counts the node with the fewest members") {
  // Stages of 8: 5 + 3, then 2 + 3 + 3.
  PlacedPlan plan = place(measurement("5533", 2, 8, 1));
  CHECK(plan.stages[0].layers == 16);
  CHECK(plan.stages[0].shares.most[0] == 2);
  CHECK(plan.stages[0].shape.least_members == 3);
  CHECK(plan.stages[0].shape.level == 1);
  CHECK(plan.stages[1].shape.least_members == 2);
  // 6 + 6 + 4 GPUs in pairs make rings with 3, 3 and 2 members.
  plan = place(measurement("664", 1, 8, 2));
  CHECK(plan.stages[0].shape.least_members == 2);
  CHECK(plan.stages[0].shape.class_count == 1);
  CHECK(plan.stages[0].shape.classes[0] == ReplicaClass{0, 0, 8});
  // Each stage has a node of its own, so no ring leaves the node.
  plan = place(measurement("88", 2, 4, 2));
  CHECK(plan.stages[0].shape.level == 0);
  CHECK(plan.stages[0].shape.least_members == 4);
  CHECK(plan.stages[0].next == Boundary{0, 4, 1});
}

TEST_CASE("a TP group across nodes is a kind of its own, its ranks' rings are counted apart") {
  // 5 + 3 GPUs in pairs: the third replica has one GPU on each node. TP rank 0 has three GPUs on n0
  // and one on n1. TP rank 1 has two on each.
  const PlacedPlan plan = place(measurement("53", 1, 4, 2));
  const StageShape& shape = plan.stages[0].shape;
  REQUIRE(shape.class_count == 2);
  CHECK(shape.classes[0] == ReplicaClass{0, 0, 3});
  CHECK(shape.classes[1] == ReplicaClass{0, 1, 1});
  CHECK(shape.least_members == 1);
  const Hardware hardware = hardware_of({});
  CHECK(hardware.kinds[1].tp_bandwidth == hardware.kinds[0].nic_bandwidth);
  CHECK(hardware.kinds[3].tp_bandwidth == 3 * hardware.kinds[0].nic_bandwidth);
}

TEST_CASE("a cluster's bandwidths survive their file, and a wrong one is refused with what is wrong") {
  const Scratch file("");
  const ClusterBandwidths kept{1.5e8, 2e6, 3e8, 1.1e8, 9.7e6, 8e10};
  write_cluster(file.path(), kept);
  CHECK(read_cluster(file.path()) == kept);
  const auto refused_cluster = [](const std::string& text, const std::string& why) {
    const Scratch wrong(text);
    try {
      read_cluster(wrong.path());
      FAIL("accepted: " << text);
    } catch (const Error& error) {
      CHECK_MESSAGE(std::string(error.what()).find(wrong.path() + why) == 0, error.what());
    }
  };
  refused_cluster("{", ": is not JSON");
  refused_cluster("[]", ": must be a JSON object");
  refused_cluster("{\"tp\": 1}", ".saturation_low: missing");
  refused_cluster("{\"tp\": -1}", ".tp: must be positive");
  refused_cluster("{\"ts\": 1}", ".ts: unknown field");
}
