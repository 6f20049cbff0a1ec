#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "planner/core/error.hpp"
#include "torchrt/config.hpp"
#include "torchrt/worker.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

const char* const kGood =
    "[model]\nlayers = 4\nhidden = 32\nheads = 4\nsequence = 16\n[training]\nsteps = 10\nglobal_batch = 8\n"
    "micro_batches = 2\n[data]\npath = \"text\"\n";

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { std::ofstream(path_) << text; }
  ~ConfigFile() { ::unlink(path_.c_str()); }
  const std::string path_ = "/tmp/espalier-train-" + std::to_string(::getpid()) + ".toml";
};

// The message, with FILE in place of the file's path.
std::string complaint(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const ConfigFile file(text);
  try {
    load_config(file.path_, overrides);
  } catch (const Error& error) {
    std::string message = error.what();
    const std::size_t at = message.find(file.path_);
    return at == std::string::npos ? message : message.replace(at, file.path_.size(), "FILE");
  }
  return "";
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kGood;
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("a good configuration is read, defaults filled in") {
  const ConfigFile file(kGood);
  const Config config = load_config(file.path_);
  CHECK(config.model.family == "gpt2");
  CHECK(config.model.head_size == 8);
  CHECK(config.model.intermediate == 128);
  CHECK(config.model.vocabulary == 256);
  CHECK(config.model.tied_embeddings);
  CHECK(config.training.dtype == DataType::float32);
  CHECK(config.training.accuracy == Accuracy::bitwise);
  CHECK(config.data.format == TokenFormat::bytes);
  CHECK(config.data.validate_every == 0);
  CHECK_FALSE(config.data.changed);
  CHECK(config.checkpoint.directory.empty());
  CHECK(config.checkpoint.keep == 2);
  CHECK(config.checkpoint.minutes == 30);
  CHECK(config.recovery.snapshot_steps == 0);
  CHECK(config.training.global_batch == 8);
  CHECK(config.training.clip_norm == 1.0);
  CHECK(config.training.schedule == "1f1b");
  CHECK(model_shape(config).micro_batches == 2);
  CHECK(model_shape(config).keeps_scores == false);
}

TEST_CASE("overrides win, typed or bare") {
  const ConfigFile file(kGood);
  const Config config = load_config(file.path_, {"training.steps=99", "data.path=/some/file",
                                                 "metrics.path=\"m.jsonl\"", "training.learning_rate=1"});
  CHECK(config.training.steps == 99);
  CHECK(config.data.path == "/some/file");
  CHECK(config.metrics.path == "m.jsonl");
  CHECK(config.training.learning_rate == 1.0);
}

TEST_CASE("each mistake names file, line and key") {
  CHECK(complaint(changed("heads = 4", "heads = 4\nhaeds = 2")) ==
        "FILE:5: model.haeds: unknown key; remove it or correct its name");
  CHECK(complaint(changed("layers = 4", "layers = \"4\"")) == "FILE:2: model.layers: must be an integer, not string");
  CHECK(complaint(changed("layers = 4", "layers = 0")).rfind("FILE:2: model.layers: is 0; it must lie between 1", 0) ==
        0);
  CHECK(complaint(changed("steps = 10\n", "")) == "FILE: training.steps: is missing; add it to [training]");
  CHECK(complaint(changed("[data]\npath = \"text\"\n", "")) == "FILE: [data]: is missing");
  CHECK(complaint(changed("heads = 4", "heads = 5")) ==
        "FILE:4: model.heads: does not divide hidden = 32; choose a divisor");
  CHECK(complaint(changed("micro_batches = 2", "micro_batches = 3")) ==
        "FILE:9: training.micro_batches: does not divide global_batch = 8; choose a divisor");
  CHECK(complaint(changed("[data]", "[extra]\n[data]")) == "FILE:10: extra: unknown key; remove it");
  CHECK(complaint(changed("steps = 10", "steps = 10\nclip_norm = \"no\"")) ==
        "FILE:8: training.clip_norm: must be a number, not string");
  CHECK(complaint(changed("steps = 10", "steps = 10\nschedule = \"zz\""))
            .rfind("FILE:8: training.schedule: is \"zz\"; known are \"1f1b\", \"gpipe\", \"interleaved\"", 0) == 0);
  CHECK(complaint(changed("steps = 10", "steps = 10\nschedule = \"zz\"")).ends_with("\"memory-min\" and \"auto\""));
  CHECK(complaint(changed("[data]", "[data")).rfind("FILE: is not valid TOML", 0) == 0);
  CHECK_THROWS_AS(load_config("/nonexistent.toml"), Error);
}

TEST_CASE("the schedule decides the chunks, unless [parallel] says how many") {
  const auto limits = [](const std::string& schedule, const std::string& chunks = "") {
    const ConfigFile file(changed("steps = 10", "steps = 10\nschedule = \"" + schedule + "\"") +
                          (chunks.empty() ? "" : "[parallel]\nchunks = " + chunks + "\n"));
    return load_config(file.path_).parallel.limits;
  };
  CHECK(limits("1f1b") == ParallelLimits{});
  CHECK(limits("interleaved").chunks == 2);
  CHECK_FALSE(limits("interleaved").v_shaped);
  CHECK(limits("interleaved", "4").chunks == 4);
  CHECK(limits("gpipe").chunks == 0);
  CHECK(limits("gpipe", "3").chunks == 3);
  for (const char* name : {"zb-v", "v-half", "v-min"}) {
    CHECK(limits(name).chunks == 2);
    CHECK(limits(name).v_shaped);
  }
  const auto problem = [](const std::string& schedule, const std::string& chunks) {
    return complaint(changed("steps = 10", "steps = 10\nschedule = \"" + schedule + "\"") +
                     "[parallel]\nchunks = " + chunks + "\n");
  };
  CHECK(problem("zb-v", "3").find("parallel.chunks: is 3; training.schedule = \"zb-v\" has 2 chunks on each stage") !=
        std::string::npos);
  CHECK(problem("1f1b", "2").find("has 1 chunk on each stage") != std::string::npos);
  CHECK(problem("interleaved", "0").find("parallel.chunks: is 0") != std::string::npos);
  CHECK(problem("interleaved", "65").find("parallel.chunks: is 65") != std::string::npos);
  // "auto" leaves both to the planner.
  CHECK(limits("auto") == ParallelLimits{});
  CHECK(problem("auto", "2").find("parallel.chunks: has no meaning with training.schedule = \"auto\"") !=
        std::string::npos);
}

TEST_CASE("every key of every section is read") {
  const ConfigFile file(
      "[model]\nfamily = \"qwen2\"\nlayers = 4\nhidden = 32\nheads = 4\nkey_value_heads = 2\nintermediate = 96\n"
      "sequence = 16\nvocabulary = 1000\ntied_embeddings = true\nrope_theta = 1e6\nnorm_epsilon = 1e-5\n"
      "attention_dropout = 0.1\nweights = \"w\"\n"
      "[training]\nsteps = 10\nglobal_batch = 8\nmicro_batches = 2\nseed = 7\nlearning_rate = 1e-2\n"
      "minimum_learning_rate = 1e-3\nwarmup_steps = 2\nweight_decay = 0.2\nbeta1 = 0.8\nbeta2 = 0.9\nepsilon = 1e-6\n"
      "clip_norm = 0.5\nschedule = \"gpipe\"\ndtype = \"bfloat16\"\naccuracy = \"relaxed\"\nzero1 = true\n"
      "recompute = true\nthreads = 2\n"
      "[data]\npath = \"tokens.bin\"\nformat = \"uint32\"\nvalidation = \"v\"\nvalidate_every = 5\n"
      "validation_samples = 16\nchanged = true\n"
      "[checkpoint]\ndirectory = \"c\"\nevery = 3\nkeep = 4\nresume = false\n[recovery]\nsnapshot_steps = 50\n"
      "[metrics]\npath = \"m\"\nprogress_every = 2\npeak_tflops = 1.5\n[profile]\nevery = 9\ndense = 8\nlinks = 60\n"
      "[handoff]\nmethod = \"overlap\"\nearly = false\n[device]\ngflops = 0.25\njobs_reach = false\n");
  const Config config = load_config(file.path_);
  CHECK(config.model.key_value_heads == 2);
  CHECK(config.model.intermediate == 96);
  CHECK(config.model.tied_embeddings);
  CHECK(config.model.attention_bias);
  CHECK(config.model.rope_theta == 1e6);
  CHECK(config.model.attention_dropout == 0.1);
  CHECK(model_shape(config).keeps_scores == true);
  CHECK(config.weights == "w");
  CHECK(config.training.dtype == DataType::bfloat16);
  CHECK(config.training.accuracy == Accuracy::relaxed);
  CHECK(config.training.zero1);
  CHECK(config.training.recompute);
  CHECK(config.training.threads == 2);
  CHECK(config.data.format == TokenFormat::uint32);
  CHECK(config.data.validation == "v");
  CHECK(config.data.validation_samples == 16);
  CHECK(config.data.changed);
  CHECK(config.checkpoint.every == 3);
  CHECK(config.recovery.snapshot_steps == 50);
  CHECK_FALSE(config.checkpoint.resume);
  CHECK(config.metrics.peak_tflops == 1.5);
  CHECK(config.profile.every == 9);
  CHECK(config.profile.dense == 8);
  CHECK(config.profile.links == 60);
  CHECK(config.handoff.method == HandoffMethod::overlap);
  CHECK_FALSE(config.handoff.early);
  CHECK(config.device.gflops == 0.25);
  CHECK_FALSE(config.device.jobs_reach);
}

TEST_CASE("a .bin file holds 16-bit tokens unless told otherwise, and validation has defaults") {
  const ConfigFile file(changed("\"text\"", "\"tokens.bin\"\nvalidation = \"v.bin\""));
  const Config config = load_config(file.path_);
  CHECK(config.data.format == TokenFormat::uint16);
  CHECK(config.data.validate_every == 100);
  CHECK(config.data.validation_samples == 8);
}

TEST_CASE("a least learning rate above the learning rate is refused") {
  const std::vector<std::string> rates{"training.learning_rate=1e-3", "training.minimum_learning_rate=2e-3"};
  CHECK(complaint(kGood, rates).find("minimum_learning_rate: is above learning_rate") != std::string::npos);
  CHECK(complaint(kGood, {"training.learning_rate=2e-3", "training.minimum_learning_rate=2e-3"}) == "");
}

TEST_CASE("a model whose parts do not fit each other is refused by key") {
  CHECK(complaint(changed("heads = 4", "heads = 4\nfamily = \"bert\"")) ==
        "FILE:5: model.family: is \"bert\"; known are \"gpt2\", \"llama\", \"qwen2\"");
  CHECK(complaint(changed("heads = 4", "heads = 4\nkey_value_heads = 2")) ==
        "FILE:5: model.key_value_heads: is no key of family \"gpt2\"; remove it");
  CHECK(complaint(changed("heads = 4", "heads = 4\nfamily = \"llama\"\nresidual_dropout = 0.1")) ==
        "FILE:6: model.residual_dropout: is no key of family \"llama\"; remove it");
  CHECK(complaint(changed("heads = 4", "heads = 4\nfamily = \"llama\"\nkey_value_heads = 3")) ==
        "FILE:6: model.key_value_heads: does not divide heads = 4; choose a divisor");
  CHECK(complaint(changed("heads = 4", "heads = 32\nfamily = \"llama\""))
            .rfind("FILE:4: model.heads: makes heads of 1, which cannot be rotated", 0) == 0);
  CHECK(complaint(changed("heads = 4", "heads = 4\nattention_dropout = 1.0"))
            .rfind("FILE:5: model.attention_dropout: is 1; it must lie between 0 and 0.99", 0) == 0);
  CHECK(complaint(changed("heads = 4", "heads = 4\nconfig = \"config.json\"")) ==
        "FILE:2: model.layers: is decided by model.config = \"config.json\"; remove it");
}

TEST_CASE("words, truth values and dependent keys are checked") {
  CHECK(complaint(changed("steps = 10", "steps = 10\ndtype = \"float16\"")) ==
        "FILE:8: training.dtype: is \"float16\"; known are \"float32\", \"bfloat16\"");
  CHECK(complaint(changed("steps = 10", "steps = 10\naccuracy = \"exact\"")) ==
        "FILE:8: training.accuracy: is \"exact\"; known are \"bitwise\", \"relaxed\"");
  CHECK(complaint(changed("steps = 10", "steps = 10\nzero1 = 1")) ==
        "FILE:8: training.zero1: must be true or false, not integer");
  CHECK(complaint(changed("\"text\"", "\"text\"\nformat = \"int8\"")) ==
        "FILE:12: data.format: is \"int8\"; known are \"bytes\", \"uint16\", \"uint32\"");
  CHECK(complaint(changed("\"text\"", "\"text\"\nvalidate_every = 3")) ==
        "FILE:12: data.validate_every: needs data.validation, the file to validate on");
  CHECK(complaint(changed("\"text\"", "\"text\"\nvalidation = \"v\"\nvalidation_samples = 12")) ==
        "FILE:13: data.validation_samples: is not a multiple of training.global_batch = 8; choose one");
  CHECK(complaint(changed("[data]", "[checkpoint]\nkeep = 0\n[data]")).rfind("FILE:11: checkpoint.keep: is 0", 0) == 0);
  CHECK(complaint(changed("[data]", "[checkpoint]\nminutes = -1\n[data]"))
            .rfind("FILE:11: checkpoint.minutes: is -1", 0) == 0);
  CHECK(complaint(changed("[data]", "[checkpoint]\nresume = \"no\"\n[data]")) ==
        "FILE:11: checkpoint.resume: must be true or false, not string");
  CHECK(complaint(changed("[data]", "[metrics]\npeak = 3\n[data]")) ==
        "FILE:11: metrics.peak: unknown key; remove it or correct its name");
  CHECK(complaint(changed("[data]", "[profile]\nlinks = 1801\n[data]")).rfind("FILE:11: profile.links: is 1801", 0) ==
        0);
  CHECK(complaint(changed("[data]", "[profile]\nevery = -1\n[data]")).rfind("FILE:11: profile.every: is -1", 0) == 0);
}

TEST_CASE("the speed of a device is off, or one that ends a step some day") {
  const auto device = [](const std::string& value) {
    return complaint(changed("[data]", "[device]\ngflops = " + value + "\n[data]"));
  };
  CHECK(device("0").empty());
  CHECK(device("1e3").empty());
  CHECK(device("1e-4") ==
        "FILE:11: device.gflops: is slower than 0.001, a million operations a second; 0 turns it off");
  CHECK(device("-1").rfind("FILE:11: device.gflops: is -1; it must lie between 0", 0) == 0);
  CHECK(device("1e10").rfind("FILE:11: device.gflops: is 1e+10; it must lie between 0", 0) == 0);
  CHECK(device("nan").rfind("FILE:11: device.gflops: is nan", 0) == 0);
  CHECK(device("\"fast\"") == "FILE:11: device.gflops: must be a number, not string");
  CHECK(complaint(changed("[data]", "[device]\nflops = 1\n[data]")) ==
        "FILE:11: device.flops: unknown key; remove it or correct its name");
  CHECK(complaint(changed("[data]", "[device]\njobs_reach = 1\n[data]")) ==
        "FILE:11: device.jobs_reach: must be true or false, not integer");
  CHECK(complaint(changed("[data]", "[device]\ntimes = \"/nowhere\"\n[data]")) ==
        "device.times: /nowhere: cannot be read");
  CHECK(complaint(changed("[data]", "[device]\ngflops = 1\ntimes = \"/nowhere\"\n[data]")) ==
        "FILE:12: device.times: replaces device.gflops; remove one of them");
}

TEST_CASE("a hand-off through the disk needs a place there, and one by checkpoint to resume from it") {
  CHECK(complaint(changed("[data]", "[handoff]\nmethod = \"device\"\n[data]")).empty());
  CHECK(complaint(changed("[data]", "[handoff]\nmethod = \"copy\"\n[data]")) ==
        "FILE:11: handoff.method: is \"copy\"; known are \"adopt\", \"device\", \"overlap\", \"checkpoint\"");
  CHECK(complaint(changed("[data]", "[handoff]\nmethod = 1\n[data]")) ==
        "FILE:11: handoff.method: must be a string, not integer");
  CHECK(complaint(changed("[data]", "[handoff]\nearly = 1\n[data]")) ==
        "FILE:11: handoff.early: must be true or false, not integer");
  CHECK(complaint(changed("[data]", "[handoff]\nway = \"device\"\n[data]")) ==
        "FILE:11: handoff.way: unknown key; remove it or correct its name");
  for (const char* method : {"overlap", "checkpoint"})
    CHECK(complaint(changed("[data]", "[handoff]\nmethod = \"" + std::string(method) + "\"\n[data]")) ==
          "FILE:11: handoff.method: goes through checkpoints and needs checkpoint.directory, where they are written");
  const std::string kept = "[checkpoint]\ndirectory = \"c\"\nresume = false\n[handoff]\nmethod = ";
  CHECK(complaint(changed("[data]", kept + "\"overlap\"\n[data]")).empty());
  CHECK(complaint(changed("[data]", kept + "\"checkpoint\"\n[data]")) ==
        "FILE:14: handoff.method: starts every generation from a checkpoint and needs checkpoint.resume = true");
}

TEST_CASE("a model may come from Hugging Face's config.json") {
  const std::string json = "/tmp/espalier-config-" + std::to_string(::getpid()) + ".json";
  std::ofstream(json) << R"({"model_type": "qwen2", "num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64, "vocab_size": 500,
    "tie_word_embeddings": true})";
  const ConfigFile file("[model]\nconfig = \"" + json +
                        "\"\nsequence = 16\n[training]\nsteps = 1\nglobal_batch = 1\n[data]\npath = \"text\"\n");
  const Config config = load_config(file.path_);
  ::unlink(json.c_str());
  CHECK(config.model.family == "qwen2");
  CHECK(config.model.layers == 3);
  CHECK(config.model.sequence == 16);
  CHECK(config.model.positions == 64);
  // The file has been removed.
  CHECK_THROWS_WITH_AS(load_config(file.path_), doctest::Contains(json.c_str()), Error);
}

TEST_CASE("a wrong override is named as such") {
  CHECK(complaint(kGood, {"training.stepz=4"}) ==
        "--set training.stepz=4: training.stepz: unknown key; remove it or correct its name");
  CHECK(complaint(kGood, {"training.steps=many"}) ==
        "--set training.steps=many: training.steps: must be an integer, not string");
  CHECK(complaint(kGood, {"steps=4"}) == "--set steps=4: is not of the form section.key=value");
  CHECK(complaint(kGood, {"nowhere.steps=4"}) == "--set nowhere.steps=4: there is no section [nowhere]");
}

TEST_CASE("a worker's vault is that of the Slurm job whose step it is, else the anchor's, else none of Slurm's") {
  const std::map<std::string, std::string> before = {
      {"ESPALIER_LAUNCHER", "node1:4711"}, {"ESPALIER_TOKEN", "0123456789abcdef"},    {"ESPALIER_GENERATION", "3"},
      {"OMPI_COMM_WORLD_RANK", "2"},       {"ESPALIER_VAULT", "espalier-vault-17.0"}, {"ESPALIER_HEARTBEAT", "0.25"}};
  for (const auto& [name, value] : before) ::setenv(name.c_str(), value.c_str(), 1);
  ::unsetenv("SLURM_JOB_ID");
  CHECK(worker_environment()->vault == "espalier-vault-17.0");
  CHECK(worker_environment()->owner.empty());
  CHECK(worker_environment()->heartbeat == std::chrono::milliseconds(250));
  ::setenv("ESPALIER_ANCHOR", "17", 1);
  CHECK(worker_environment()->owner == "17");
  ::setenv("SLURM_JOB_ID", "23", 1);
  CHECK(worker_environment()->owner == "23");
  ::setenv("ESPALIER_HEARTBEAT", "0", 1);
  CHECK_THROWS_AS(worker_environment(), Error);
  ::setenv("ESPALIER_HEARTBEAT", "1", 1);
  CHECK(worker_environment()->patience == std::chrono::seconds(600));
  ::setenv("ESPALIER_PATIENCE", "1985", 1);
  CHECK(worker_environment()->patience == std::chrono::seconds(1985));
  for (const char* wrong : {"0", "-1", "2592001", "1e3", "long"}) {
    ::setenv("ESPALIER_PATIENCE", wrong, 1);
    CHECK_THROWS_WITH_AS(worker_environment(), doctest::Contains("ESPALIER_PATIENCE: "), Error);
  }
  ::unsetenv("ESPALIER_PATIENCE");
  for (const auto& [name, value] : before) ::unsetenv(name.c_str());
  for (const char* name : {"ESPALIER_ANCHOR", "SLURM_JOB_ID"}) ::unsetenv(name);
}

TEST_CASE("a worker's environment is checked, and absent without a launcher") {
  const auto with = [](const char* launcher, const char* token, const char* generation, const char* rank = "2") {
    rank ? ::setenv("OMPI_COMM_WORLD_RANK", rank, 1) : ::unsetenv("OMPI_COMM_WORLD_RANK");
    ::setenv("ESPALIER_LAUNCHER", launcher, 1);
    token ? ::setenv("ESPALIER_TOKEN", token, 1) : ::unsetenv("ESPALIER_TOKEN");
    ::setenv("ESPALIER_GENERATION", generation, 1);
    return worker_environment();
  };
  const auto environment = with("node1:4711", "0123456789abcdef", "3");
  REQUIRE(environment);
  CHECK(environment->host == "node1");
  CHECK(environment->port == 4711);
  CHECK(environment->generation == 3);
  CHECK(environment->rank == 2);
  CHECK(environment->vault.empty());
  CHECK(environment->heartbeat.count() == 0);
  CHECK_THROWS_AS(with("node1", "0123456789abcdef", "3"), Error);
  CHECK_THROWS_AS(with("node1:70000", "0123456789abcdef", "3"), Error);
  CHECK_THROWS_AS(with("node1:4711", "0123", "3"), Error);
  CHECK_THROWS_AS(with("node1:4711", "0123456789/../..", "3"), Error);
  CHECK_THROWS_AS(with("node1:4711", nullptr, "3"), Error);
  CHECK_THROWS_AS(with("node1:4711", "0123456789abcdef", "-3"), Error);
  CHECK_THROWS_AS(with("node1:4711", "0123456789abcdef", "3x"), Error);
  CHECK_THROWS_AS(with("node1:4711", "0123456789abcdef", "3", nullptr), Error);
  CHECK_THROWS_AS(with("node1:4711", "0123456789abcdef", "3", "-1"), Error);
  for (const char* name : {"ESPALIER_LAUNCHER", "ESPALIER_TOKEN", "ESPALIER_GENERATION", "OMPI_COMM_WORLD_RANK"})
    ::unsetenv(name);
  CHECK_FALSE(worker_environment());
}
