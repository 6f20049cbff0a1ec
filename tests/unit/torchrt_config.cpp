#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

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

// The message with the file's path replaced by FILE.
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
  CHECK(config.model == ModelConfig{4, 32, 4, 16, 256});
  CHECK(config.training.global_batch == 8);
  CHECK(config.training.clip_norm == 1.0);
  CHECK(config.training.schedule == "1f1b");
  CHECK(model_shape(config).micro_batches == 2);
}

TEST_CASE("overrides win, typed or bare") {
  const ConfigFile file(kGood);
  const Config config = load_config(file.path_, {"training.steps=99", "data.path=/some/file",
                                                 "metrics.path=\"m.jsonl\"", "training.learning_rate=1"});
  CHECK(config.training.steps == 99);
  CHECK(config.data_path == "/some/file");
  CHECK(config.metrics_path == "m.jsonl");
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
            .rfind("FILE:8: training.schedule: is \"zz\"", 0) == 0);
  CHECK(complaint(changed("[data]", "[data")).rfind("FILE: is not valid TOML", 0) == 0);
  CHECK_THROWS_AS(load_config("/nonexistent.toml"), Error);
}

TEST_CASE("a wrong override is named as such") {
  CHECK(complaint(kGood, {"training.stepz=4"}) ==
        "--set training.stepz=4: training.stepz: unknown key; remove it or correct its name");
  CHECK(complaint(kGood, {"training.steps=many"}) ==
        "--set training.steps=many: training.steps: must be an integer, not string");
  CHECK(complaint(kGood, {"steps=4"}) == "--set steps=4: is not of the form section.key=value");
  CHECK(complaint(kGood, {"nowhere.steps=4"}) == "--set nowhere.steps=4: there is no section [nowhere]");
}

TEST_CASE("a worker's environment is checked, and absent without a launcher") {
  const auto with = [](const char* launcher, const char* token, const char* generation) {
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
  CHECK_THROWS_AS(with("node1", "0123456789abcdef", "3"), Error);
  CHECK_THROWS_AS(with("node1:70000", "0123456789abcdef", "3"), Error);
  CHECK_THROWS_AS(with("node1:4711", "0123", "3"), Error);
  CHECK_THROWS_AS(with("node1:4711", "0123456789/../..", "3"), Error);
  CHECK_THROWS_AS(with("node1:4711", nullptr, "3"), Error);
  CHECK_THROWS_AS(with("node1:4711", "0123456789abcdef", "-3"), Error);
  CHECK_THROWS_AS(with("node1:4711", "0123456789abcdef", "3x"), Error);
  for (const char* name : {"ESPALIER_LAUNCHER", "ESPALIER_TOKEN", "ESPALIER_GENERATION"}) ::unsetenv(name);
  CHECK_FALSE(worker_environment());
}
