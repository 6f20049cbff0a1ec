// The plans that `espalier plan` finds and its predictions.
#include <doctest/doctest.h>

#include "planner/core/json.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::plan_files;

namespace {

Json study(const std::string& job, const std::string& cluster, const std::string& gpus) {
  const Folder folder;
  const std::string where = cluster.starts_with("cluster-") ? cluster : folder.write("c.toml", cluster);
  return Json::parse(plan(folder.write("j.toml", job), where, gpus, {"--json"}));
}

std::string refusal(const std::string& job, const std::string& cluster, const std::string& gpus) {
  const Folder folder;
  const std::string where = cluster.starts_with("cluster-") ? cluster : folder.write("c.toml", cluster);
  return complaint(folder, [&] { plan(folder.write("j.toml", job), where, gpus); });
}

const std::string kSmall = "model = \"gpt2-124m\"\nglobal_batch = 8\n";
const std::string kLlama = "model = \"llama2-7b\"\nglobal_batch = 64\nrecompute = true\n";
const std::string kMixed =
    "[[nodes]]\nname = \"h1\"\ngpus = 4\ngpu_type = \"h100\"\n[[nodes]]\nname = \"o[1-2]\"\ngpus = 2\ngpu_type = "
    "\"a100\"\n";

}  // namespace

TEST_SUITE("plan") {
  TEST_CASE("on one GPU a step takes the model's FLOPs at the given utilization, and the optimizer's traffic") {
    const Json found = study(kSmall + "utilization = 0.5\n", "cluster-a", "1");
    // A layer: 2 * 1024 * 12 * 768^2 + 4 * 1024^2 * 768 = 17,716,740,096 FLOPs a sample; the head 79,047,426,048.
    // 8 samples take a forward pass and a backward pass of twice the FLOPs, at half of 989.5
    // TFLOPS.
    const double compute = 3 * 8 * (12 * 17716740096.0 + 79047426048.0) / (0.5 * 989.5e12);
    // 163,037,184 parameters. Adam moves 2 * 14 + 2 bytes of each at 3.35 TB/s.
    const double optimizer = 30 * 163037184.0 / 3.35e12;
    CHECK(found["plans"][0]["step_seconds"].get<double>() == doctest::Approx(compute + optimizer).epsilon(1e-9));
    CHECK(found["plans"][0]["tokens_per_second"].get<double>() ==
          doctest::Approx(8 * 1024 / (compute + optimizer)).epsilon(1e-9));
    CHECK(found["plans"][0]["assumed"] == Json{"time", "memory"});
    CHECK(found["measured"].is_null());
  }

  TEST_CASE("the measured plan is predicted to take what it took, and others follow from it") {
    const std::string measured =
        kLlama + "step_seconds = 6\npresent = { pp = 2, tp = 2, micro_batches = 64 }\n";  // of one sample: no replicas
    const Json kept = study(measured + "accuracy = \"bitwise\"\n", "cluster-a", "4,8");
    const Json& first = kept["plans"][0];
    CHECK(first["plan"]["stages"][0]["tp"] == 2);
    CHECK(first["step_seconds"].get<double>() <= 6 * (1 + 1e-6));  // other stages or micro-batches may be faster
    CHECK(first["assumed"] == Json{"memory"});
    CHECK(kept["measured"] == "6 s a step with pp2/dp1/tp2, 64 micro-batches");
    const Json faster = study(measured, "cluster-a", "4");
    CHECK(faster["plans"][0]["step_seconds"].get<double>() < 6);
  }

  TEST_CASE("with accuracy=bitwise all plans keep the TP degree of the first") {
    const Json found = study(kLlama + "accuracy = \"bitwise\"\n", "cluster-a", "4,8,16");
    const Json& first = found["plans"][0]["plan"];
    for (const Json& planned : found["plans"]) {
      for (const Json& stage : planned["plan"]["stages"]) CHECK(stage["tp"] == first["stages"][0]["tp"]);
    }
    CHECK(found["plans"][2]["used_gpus"] > found["plans"][0]["used_gpus"]);
  }

  TEST_CASE("plans are valid, on the first GPUs in affinity order, and more GPUs are never slower") {
    const Json found = study(kLlama, "cluster-b", "3,8,12,64,100");
    double before = 1e30;
    for (const Json& planned : found["plans"]) {
      const Plan made = planned["plan"].get<Plan>();
      CHECK(validate(made, 32).empty());
      CHECK(made.gpu_count() == planned["used_gpus"]);
      CHECK(made.gpu_count() <= planned["gpus"]);
      CHECK(planned["step_seconds"].get<double>() <= before);
      before = planned["step_seconds"].get<double>();
      for (const GpuId& gpu : made.ranks())  // 8 on n1, then n2, ...
        CHECK((std::stoi(gpu.node.substr(1)) - 1) * 8 + gpu.index < planned["gpus"].get<int>());
      for (const Json& stage : planned["stages"])
        CHECK(stage["memory_bytes"]["peak"].get<double>() <= stage["memory_bytes"]["limit"].get<double>());
    }
  }

  TEST_CASE("the first GPUs are those of one node also where PCIe is slower than a rail") {
    const std::string nodes = "[[nodes]]\nname = \"n[1-4]\"\ngpus = 8\ngpu_type = \"l40s\"\n";
    const Json found = study("model = \"gpt2-350m\"\nglobal_batch = 16\n", nodes, "4");
    const Plan made = found["plans"][0]["plan"].get<Plan>();
    CHECK(made.gpu_count() == 4);
    for (const GpuId& gpu : made.ranks()) CHECK(gpu.node == "n1");
  }

  TEST_CASE("micro_batches fixes N_b") {
    for (const int n : {4, 16}) {
      const Json found = study(kLlama + "micro_batches = " + std::to_string(n) + "\n", "cluster-a", "4,8");
      for (const Json& planned : found["plans"]) CHECK(planned["plan"]["micro_batches"] == n);
    }
  }

  TEST_CASE("only GPUs of the allowed types are used, and types that were not measured are marked") {
    const Json only = study(kLlama + "gpu_types = [\"a100\"]\nprecision = \"bf16\"\nzero1 = true\n", kMixed, "4");
    for (const GpuId& gpu : only["plans"][0]["plan"].get<Plan>().ranks()) CHECK(gpu.node.starts_with("o"));
    const Json both = study(kLlama + "step_seconds = 6\npresent = { pp = 4, micro_batches = 64 }\n", kMixed, "4,8");
    CHECK(both["plans"][0]["assumed"] == Json{"memory"});
    CHECK(both["plans"][1]["used_gpus"] > 4);
    CHECK(both["plans"][1]["assumed"] == Json{"time", "memory"});
  }

  TEST_CASE("memory of the model's formulas gives way to a plan that evidently runs") {
    const Json found =
        study(kLlama + "precision = \"fp32\"\nstep_seconds = 60\npresent = { pp = 1, micro_batches = 64 }\n",
              "cluster-a", "1");
    CHECK(found["plans"][0]["plan"].is_object());
    bool told = false;
    for (const Json& sentence : found["assumed"])
      told = told || sentence.get<std::string>().find("so that the measured plan fits") != std::string::npos;
    CHECK(told);
  }

  TEST_CASE("a measured step that no GPU can do is refused, and a doubtful one has a note") {
    const std::string present = "present = { pp = 4, micro_batches = 64 }\nsequence = 2048\n";
    const auto refused = [&](const std::string& seconds) {
      return refusal(kLlama + "step_seconds = " + seconds + "\n" + present, "cluster-a", "4");
    };
    CHECK(refused("0.000001").starts_with("j.toml: step_seconds: 1e-06 s is impossible: at 100% of the BF16 peak"));
    const std::string text = refused("1");
    const std::string words = "this plan computes for ";
    const double least = std::stod(text.substr(text.find(words) + words.size()));
    // A forward pass of the layers and the head on 64 samples, four times with recomputation, on four GPUs: 1.9 s
    // without what the pipeline waits.
    CHECK(least > 1.8);
    CHECK(least < 2.2);
    const auto notes = [&](double seconds) {
      return study(kLlama + "step_seconds = " + std::to_string(seconds) + "\n" + present, "cluster-a", "4")["notes"];
    };
    REQUIRE(notes(1.1 * least).size() == 1);
    CHECK(notes(1.1 * least)[0].get<std::string>().find("of the BF16 peak, ") != std::string::npos);
    CHECK(notes(2 * least).empty());
  }

  TEST_CASE("a measured plan that is far too large for its GPUs is refused") {
    CHECK(refusal("model = \"llama2-70b\"\nglobal_batch = 64\nrecompute = true\nstep_seconds = 100\n"
                  "present = { dp = 8, tp = 8, micro_batches = 8 }\n",
                  "cluster-a", "64")
              .starts_with("j.toml: present: does not fit: its GPUs hold "));
  }

  TEST_CASE("the schedule auto is as fast as the fastest of the schedules that it may choose") {
    const std::string job = "model = \"gpt2-xl\"\nglobal_batch = 64\nschedule = ";
    const auto seconds = [&](const std::string& schedule) {
      return study(job + "\"" + schedule + "\"\n", "cluster-a", "64")["plans"][0]["step_seconds"].get<double>();
    };
    const double chosen = seconds("auto");
    for (const char* schedule : {"1f1b", "zb-h1", "zb-v"}) {
      INFO(schedule);
      CHECK(chosen <= seconds(schedule) * (1 + 1e-9));
    }
  }

  TEST_CASE("more parameters in a layer take more time and memory") {
    const std::string config =
        R"({"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 4096, "num_attention_heads": 32,
            "max_position_embeddings": 2048, "vocab_size": 32000, "intermediate_size": )";
    const Folder folder;
    folder.write("usual.json", config + "11008}");
    folder.write("wide.json", config + "22016}");
    const auto of = [&](const std::string& name) {
      const std::string job = folder.write("j.toml", "config = \"" + name + "\"\nglobal_batch = 8\nrecompute = true\n");
      return Json::parse(plan(job, "cluster-a", "1", {"--json"}));
    };
    const Json usual = of("usual.json"), wide = of("wide.json");
    // 2 * 2048 more FLOPs for each of 3 * 4096 * 11008 elements, 8 layers and samples. 4 times with
    // recomputation, at 40%. And 30 bytes of optimizer traffic for each element.
    const double elements = 8 * 3.0 * 4096 * 11008;
    CHECK(wide["plans"][0]["step_seconds"].get<double>() - usual["plans"][0]["step_seconds"].get<double>() ==
          doctest::Approx(elements * (8 * 4 * 2 * 2048 / (0.4 * 989.5e12) + 30 / 3.35e12)).epsilon(1e-6));
    const auto state = [](const Json& found) {
      return found["plans"][0]["stages"][0]["memory_bytes"]["parameters_and_optimizer"].get<double>();
    };
    CHECK(state(wide) - state(usual) == doctest::Approx(14 * elements).epsilon(1e-9));
  }

  TEST_CASE("what cannot be planned says what is wrong") {
    CHECK(refusal(kSmall, "cluster-a", "65") == "--gpus: 65: the cluster has 64 GPUs that the job may use");
    CHECK(refusal(kSmall + "gpu_types = [\"a100\"]\n", kMixed, "5") ==
          "--gpus: 5: the cluster has 4 GPUs that the job may use");
    CHECK(refusal(kSmall + "gpu_types = [\"b200\"]\n", kMixed, "1") ==
          "j.toml: gpu_types: the cluster has no GPU of type \"b200\"");
    CHECK(refusal(kSmall + "min_gpus = 2\nmax_gpus = 4\n", "cluster-a", "1,2") ==
          "--gpus: 1: the job takes 2 to 4 GPUs; see min_gpus and max_gpus in j.toml");
    CHECK(refusal(kSmall + "min_gpus = 2\nmax_gpus = 4\n", "cluster-a", "2,8") ==
          "--gpus: 8: the job takes 2 to 4 GPUs; see min_gpus and max_gpus in j.toml");
    CHECK(refusal(kSmall + "step_seconds = 1\npresent = { dp = 16 }\n", "cluster-a", "8") ==
          "j.toml: present: plan: a micro-batch of 8 samples cannot feed 16 replicas; use fewer micro-batches");
    CHECK(refusal(kSmall + "step_seconds = 1\npresent = { pp = 9, dp = 8 }\n", "cluster-a", "8") ==
          "j.toml: present: plan: 9 stages of 8 replicas need 72 GPUs, there are 64");
    // One sample at a time on at least nine GPUs allows neither nine replicas nor nine stages.
    CHECK(refusal("family = \"gpt2\"\nlayers = 1\nhidden = 64\nheads = 1\nsequence = 64\nvocabulary = 64\n"
                  "global_batch = 1\nmin_gpus = 9\n",
                  "cluster-a",
                  "9") == "--gpus: 9: no valid plan with at least 9 GPUs: 1 layer and 1 sample cannot be divided so");
  }

  TEST_CASE("a long sequence without recomputation fits, because fused attention keeps no scores") {
    const Json found = study("model = \"llama2-7b\"\nsequence = 16384\nglobal_batch = 64\n", "cluster-a", "8,16");
    for (const Json& plan : found["plans"]) CHECK(plan["plan"].is_object());
  }

  TEST_CASE("where memory is short it says how much is needed and what would help") {
    const std::string message = refusal("model = \"llama2-70b\"\nglobal_batch = 64\n", "cluster-a", "1,8");
    CHECK(message.starts_with("--gpus: 8: does not fit: needs "));
    CHECK(message.ends_with(
        " GB on a GPU, which has 72.0 GB for it; take more GPUs; recompute = true lowers it, but not enough"));
    // ZeRO-1 divides less among replicas than stages do among GPUs.
    CHECK(message.find("zero1") == std::string::npos);
    // 16 bytes of each of 65.3 billion parameters on 8 GPUs, and less than twice that.
    const double needed = std::stod(message.substr(message.find("needs ") + 6));
    CHECK(needed > 16 * 65.3 / 8);
    CHECK(needed < 2 * 16 * 65.3 / 8);
    // GPipe holds every micro-batch's activations at once, 1F1B those of as many as there are stages.
    const std::string fixed = "model = \"llama2-70b\"\nglobal_batch = 64\nmicro_batches = 64\nmax_gpus = 8\n";
    const auto needs = [&](const std::string& schedule) {
      const std::string text = refusal(fixed + "schedule = \"" + schedule + "\"\n", "cluster-a", "1,8");
      CHECK((text.find("schedule = \"1f1b\"") != std::string::npos) == (schedule == "gpipe"));
      return std::stod(text.substr(text.find("needs ") + 6));
    };
    CHECK(needs("gpipe") > 1.1 * needs("1f1b"));
    const std::string one = "model = \"llama2-7b\"\nglobal_batch = 64\n";
    CHECK(refusal(one + "micro_batches = 1\n", "cluster-a", "8")
              .ends_with("; take more GPUs or micro_batches = 0 or recompute = true"));
    const Json found = study("model = \"llama2-70b\"\nglobal_batch = 64\nrecompute = true\n", "cluster-a", "8,32");
    CHECK(found["plans"][0]["plan"].is_null());
    CHECK(found["plans"][0]["why_not"].get<std::string>().starts_with("does not fit: needs "));
    CHECK(found["plans"][1]["speedup"] == 1.0);
  }
}
