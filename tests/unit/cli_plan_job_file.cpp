// The job file of `espalier plan`.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "planner/cli/plan_job_file.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::cli;
using namespace espalier::plan_files;

namespace {

std::string refusal(const std::string& text) {
  const Folder folder;
  return complaint(folder, [&] { read_plan_job(folder.write("j.toml", text)); });
}

PlanJob read(const std::string& text) {
  const Folder folder;
  return read_plan_job(folder.write("j.toml", text));
}

const std::string kModel = "model = \"llama2-13b\"\nglobal_batch = 256\n";  // two lines
const std::string kMeasured = kModel + "step_seconds = 5\n";                // three

}  // namespace

TEST_SUITE("plan") {
  TEST_CASE("a job file that says the least gets the usual rest") {
    const PlanJob job = read(kModel);
    CHECK(job.shape == ModelShape{"llama", 40, 5120, 40, 4096, 32000, 256, 0});
    CHECK(job.precision == "bf16");
    CHECK(job.training.bytes == ElementBytes{2, 2, 12, 2});
    CHECK_FALSE(job.training.tied);
    CHECK_FALSE(job.training.recompute);
    CHECK_FALSE(job.training.zero1);
    CHECK(job.accuracy == Accuracy::relaxed);
    CHECK(job.utilization == 0.4);
    CHECK_FALSE(job.present);
  }

  TEST_CASE("lists are read from the job file's folder; plans that they are not for run the schedule beside them") {
    const Folder folder;
    folder.write("mine.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    const auto job_of = [&](const std::string& more) {
      ElasticJob job;
      set_schedule(job, read_plan_job(folder.write("j.toml", kModel + "lists = \"mine.csv\"\n" + more)));
      return job;
    };
    CHECK(job_of("").parallel.lists == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    CHECK(job_of("").model.setting->schedule == "1f1b");
    CHECK(job_of("schedule = \"zb-h1\"\n").model.setting->schedule == "zb-h1");
    CHECK(job_of("schedule = \"auto\"\n").model.setting->schedule == "1f1b");
    folder.write("mine.csv", "0F0,3F0,0B0,3B0\n1F0,2F0,2B0,1B0\n");
    CHECK_THROWS_AS(job_of(""), Error);  // a deadlock
    folder.write("mine.csv", "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
    CHECK(job_of("").model.setting->schedule == "zb-v");
    CHECK(job_of("").parallel.chunks == 2);
    CHECK(job_of("").parallel.v_shaped);
  }

  TEST_CASE("lists that cannot be read, are unsound or too long, or beside chunks, are refused by file, line and key") {
    const Folder folder;
    const auto refused = [&](const std::string& more) {
      return complaint(folder,
                       [&] { read_plan_job(folder.write("j.toml", kModel + "lists = \"mine.csv\"\n" + more)); });
    };
    CHECK(refused("").find("mine.csv: cannot be read") != std::string::npos);
    folder.write("mine.csv", "0F0,0B0\n1B0\n");
    CHECK(refused("").find("mine.csv: row 2: 1F0 is missing") != std::string::npos);
    folder.write("mine.csv", "0F0,1F0,1B0,0B0\n2F0,2B0\n");
    CHECK(refused("").find("neither round the stages") != std::string::npos);
    folder.write("mine.csv", std::string(70000, ','));
    CHECK(refused("").find("mine.csv: it is larger than 65536 bytes") != std::string::npos);
    folder.write("mine.csv", "");
    CHECK(refused("").find("mine.csv: the file is empty") != std::string::npos);
    CHECK(refused("chunks = 2\n").find("chunks: not beside lists, which have their own") != std::string::npos);
  }

  TEST_CASE("every key of a job file is read") {
    const PlanJob job = read(
        "family = \"gpt2\"\nlayers = 12\nhidden = 768\nheads = 12\nsequence = 1024\nvocabulary = 50257\n"
        "global_batch = 64\nmicro_batches = 8\naccuracy = \"bitwise\"\nprecision = \"fp32\"\ntied = true\n"
        "recompute = true\nzero1 = true\nmin_gpus = 2\nmax_gpus = 32\ngpu_types = [\"h100\", \"a100\"]\n"
        "step_seconds = 1.5\npresent = { pp = 2, dp = 4, tp = 1, micro_batches = 8 }\n");
    CHECK(job.shape == ModelShape{"gpt2", 12, 768, 12, 1024, 50257, 64, 8});
    CHECK(job.accuracy == Accuracy::bitwise);
    CHECK(job.training.bytes == ElementBytes{});
    CHECK(job.training.tied);
    CHECK(job.training.recompute);
    CHECK(job.training.zero1);
    CHECK(job.min_gpus == 2);
    CHECK(job.max_gpus == 32);
    CHECK(job.gpu_types == std::vector<std::string>{"h100", "a100"});
    CHECK(job.step_seconds == 1.5);
    CHECK(job.present == PresentDegrees{2, 4, 1, 8});
    CHECK(read(kModel + "precision = \"fp32\"\n").utilization == 0.2);
    CHECK(read(kModel + "utilization = 0.5\n").utilization == 0.5);
    CHECK(read(kModel + "sequence = 1024\n").shape.sequence == 1024);
  }

  TEST_CASE("a family may have fewer key and value heads, and a feed-forward of its own width") {
    const std::string sizes =
        "layers = 32\nhidden = 4096\nheads = 32\nsequence = 8192\nvocabulary = 128256\nglobal_batch = 64\n";
    const PlanJob job = read("family = \"llama\"\n" + sizes + "key_value_heads = 8\nintermediate = 14336\n");
    CHECK(job.shape.key_value_heads == 8);
    CHECK(job.shape.intermediate == 14336);
    CHECK(refusal("family = \"llama\"\n" + sizes + "key_value_heads = 5\n") ==
          "j.toml:8: key_value_heads: does not divide heads = 32; choose a divisor");
    CHECK(refusal("family = \"gpt2\"\n" + sizes + "key_value_heads = 8\n") ==
          "j.toml:8: key_value_heads: family \"gpt2\" has as many as heads; remove it");
    CHECK(refusal(kModel + "key_value_heads = 8\n") ==
          "j.toml:3: key_value_heads: not beside model or config, which have their own");
    CHECK(refusal("model = \"llama3-8b\"\n").ends_with("key_value_heads and intermediate where it has its own"));
  }

  TEST_CASE("MTP modules are layers of plans, where the family has them") {
    const std::string sizes =
        "layers = 12\nhidden = 768\nheads = 12\nsequence = 1024\nvocabulary = 50257\nglobal_batch = 64\n";
    const PlanJob job = read("family = \"llama\"\nmtp_layers = 2\n" + sizes);
    CHECK(job.shape.layers == 14);
    CHECK(job.shape.mtp_layers == 2);
    CHECK(read("family = \"llama\"\n" + sizes).shape.mtp_layers == 0);
    CHECK(refusal("family = \"gpt2\"\nmtp_layers = 2\n" + sizes) ==
          "j.toml:2: mtp_layers: family \"gpt2\" has no multi-token prediction; remove it");
    CHECK(refusal(kModel + "mtp_layers = 1\n") ==
          "j.toml:3: mtp_layers: not beside model or config, which have their own");
    CHECK(refusal(kModel + "mtp_layers = -1\n").starts_with("j.toml:3: mtp_layers: must be between 0"));
    CHECK(refusal(kModel + "mtp_layers = 65\n").starts_with("j.toml:3: mtp_layers: must be between 0"));
  }

  TEST_CASE("an unknown or ill-typed key is an error that names file, line and key") {
    CHECK(refusal(kModel + "modle = \"x\"\n") == "j.toml:3: modle: unknown key; see espalier-plan(1)");
    CHECK(refusal("model = 13\n") == "j.toml:1: model: must be a string");
    CHECK(refusal("config = 13\n") == "j.toml:1: config: must be a string");
    CHECK(refusal("family = \"bert\"\n") == "j.toml:1: family: must be gpt2, llama or qwen2");
    for (const char* key : {"layers", "hidden", "heads", "sequence", "vocabulary", "global_batch", "micro_batches",
                            "min_gpus", "max_gpus"}) {
      CHECK(refusal("\n" + std::string(key) + " = \"1\"\n") ==
            "j.toml:2: " + std::string(key) + ": must be a whole number");
      CHECK(refusal("\n" + std::string(key) + " = -1\n")
                .starts_with("j.toml:2: " + std::string(key) + ": must be between "));
    }
    CHECK(refusal(kModel + "global_batch = 8\n").find("no valid TOML") != std::string::npos);  // twice
    CHECK(refusal(kModel + "accuracy = \"good\"\n") == "j.toml:3: accuracy: must be bitwise or relaxed");
    CHECK(refusal(kModel + "precision = \"fp8\"\n") == "j.toml:3: precision: must be fp32 or bf16");
    for (const char* key : {"tied", "recompute", "zero1"})
      CHECK(refusal(kModel + key + " = 1\n") == "j.toml:3: " + std::string(key) + ": must be true or false");
    CHECK(refusal(kModel + "gpu_types = \"h100\"\n") == "j.toml:3: gpu_types: must be a list of strings");
    CHECK(refusal(kModel + "gpu_types = [1]\n") == "j.toml:3: gpu_types: must be a list of strings that are not empty");
    CHECK(refusal(kModel + "utilization = \"half\"\n") == "j.toml:3: utilization: must be a number");
    CHECK(refusal(kModel + "utilization = 45\n").starts_with("j.toml:3: utilization: must be between"));
    CHECK(refusal(kModel + "step_seconds = 0\n").starts_with("j.toml:3: step_seconds: must be between"));
    CHECK(refusal(kModel + "present = 4\n") == "j.toml:3: present: must be a table");
    CHECK(refusal(kModel + "present = { pp = 1, vp = 2 }\n") ==
          "j.toml:3: present.vp: unknown key; see espalier-plan(1)");
    for (const char* key : {"pp", "dp", "tp", "micro_batches"})
      CHECK(refusal(kModel + "present = { " + key + " = 0 }\n")
                .starts_with("j.toml:3: present." + std::string(key) + ": must be between 1"));
  }

  TEST_CASE("a job file says one thing about one thing") {
    const std::string one = "give one of model (a published model's name), config (the path of a config.json) and ";
    CHECK(refusal("global_batch = 8\n").starts_with("j.toml: " + one));
    CHECK(refusal(kModel + "family = \"gpt2\"\n").starts_with("j.toml: " + one));
    CHECK(refusal("model = \"llama2-13b\"\n") == "j.toml: global_batch: missing; give the samples of a step");
    CHECK(refusal("family = \"gpt2\"\nlayers = 2\n") ==
          "j.toml: hidden: missing; a family needs layers, hidden, heads, sequence and vocabulary");
    CHECK(refusal("model = \"bloom-7b\"\n").starts_with("j.toml:1: model: model \"bloom-7b\": its shape is unknown"));
    CHECK(refusal(kModel + "heads = 8\n") == "j.toml:3: heads: not beside model or config, which have their own");
    CHECK(refusal("family = \"gpt2\"\nlayers = 2\nhidden = 10\nheads = 3\nsequence = 8\nvocabulary = 9\n") ==
          "j.toml:4: heads: does not divide hidden = 10; choose a divisor");
    CHECK(refusal(kModel + "micro_batches = 7\n") == "j.toml:3: micro_batches: does not divide global_batch = 256");
    CHECK(refusal(kModel + "min_gpus = 9\nmax_gpus = 8\n") == "j.toml:3: min_gpus: is larger than max_gpus");
    CHECK(refusal(kMeasured) ==
          "j.toml:3: step_seconds: needs present = { pp =, dp =, tp =, micro_batches = }, the plan that it was "
          "measured on");
    CHECK(refusal(kModel + "present = { pp = 2 }\n") ==
          "j.toml:3: present: needs step_seconds, what a step of that plan took");
    CHECK(refusal(kMeasured + "present = { pp = 2 }\nutilization = 0.4\n") ==
          "j.toml:5: utilization: not beside step_seconds, which tells it; give one of them");
    CHECK(refusal(kMeasured + "present = { micro_batches = 7 }\n") ==
          "j.toml:4: present: micro_batches does not divide global_batch = 256");
    CHECK(refusal(kMeasured + "present = { tp = 3 }\n") ==
          "j.toml:4: present: tp must be a power of two that divides the model's 40 heads");
    CHECK(refusal(kMeasured + "present = { tp = 16 }\n") ==
          "j.toml:4: present: tp must be a power of two that divides the model's 40 heads");
    CHECK(refusal(kMeasured + "present = { pp = 1048576, dp = 2 }\n") == "j.toml:4: present: more than 1048576 GPUs");
    CHECK(refusal(kMeasured + "present = { micro_batches = 8 }\nmicro_batches = 4\naccuracy = \"bitwise\"\n") ==
          "j.toml:5: micro_batches: is not present's, which accuracy = \"bitwise\" keeps");
  }

  TEST_CASE("a folder or a pipe in place of a file is named as what it is") {
    const Folder folder;
    CHECK(complaint(folder, [&] { read_plan_job(folder.path("")); }) == ": is a folder; name a TOML file");
    REQUIRE(::mkfifo(folder.path("pipe").c_str(), 0600) == 0);
    CHECK(complaint(folder, [&] { read_plan_job(folder.path("pipe")); }) ==
          "pipe: is a pipe or a device; name a TOML file");
    std::filesystem::create_directory(folder.path("d"));
    CHECK(complaint(folder, [&] { read_plan_job(folder.write("j.toml", kModel + "lists = \"d\"\n")); }) ==
          "j.toml:3: lists: d: cannot be read");
    CHECK(complaint(folder, [&] { read_plan_job(folder.write("j.toml", "config = \"d\"\nglobal_batch = 8\n")); }) ==
          "d: cannot be read; give the path of a model's config.json");
  }

  TEST_CASE("a job file that is not there is named") {
    CHECK_THROWS_WITH_AS(read_plan_job("/no/such.toml"), "/no/such.toml: cannot be read; check the path and its mode",
                         Error);
  }
}
