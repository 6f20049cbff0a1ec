#include "planner/cli/doctor/toy_job.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "planner/cli/ask.hpp"
#include "planner/cli/doctor/bounded.hpp"
#include "planner/cli/salloc.hpp"
#include "planner/core/error.hpp"

namespace espalier::cli::doctor {
namespace {

constexpr int kSteps = 100;
constexpr int kMinutes = 2;  // the job's time limit, with the start of its processes
constexpr double kAskSeconds = 5;
constexpr std::size_t kDataBytes = 1 << 16;

constexpr const char* kPause = "0.25";  // seconds of a step on one GPU

// For espalier-train. An operation lasts as long as on a device of this speed: also some 0.25 s a step on one GPU,
// whatever the node is.
constexpr const char* kConfig =
    "[model]\nlayers = 4\nhidden = 32\nheads = 4\nsequence = 32\n"
    "[training]\nsteps = %d\nglobal_batch = 8\nmicro_batches = 2\nseed = 1\nlearning_rate = 1e-3\n"
    "[device]\ngflops = 0.5\n"
    "[data]\npath = \"%s/data\"\n"
    "[metrics]\npath = \"%s/metrics.jsonl\"\nprogress_every = 0\n";

// A folder of this user alone, removed with all that is in it.
class Scratch {
 public:
  explicit Scratch(const std::string& in) : path_(in + "/espalier-doctor-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr)
      throw Error(in + ": no folder can be made there: " + std::strerror(errno) + "; name another one with --dir");
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream file(path_ + "/" + name, std::ios::binary);
    if (!(file << text) || !file.flush()) throw Error(path_ + "/" + name + ": cannot be written");
  }

 private:
  std::string path_;
};

std::string config_text(const std::string& folder) {
  std::string text(std::strlen(kConfig) + 2 * folder.size() + 32, '\0');
  text.resize(static_cast<std::size_t>(
      std::snprintf(text.data(), text.size(), kConfig, kSteps, folder.c_str(), folder.c_str())));
  return text;
}

std::string data_text() {
  std::string text(kDataBytes, ' ');
  std::uint32_t state = 1;
  for (char& c : text) c = static_cast<char>('a' + ((state = state * 1664525 + 1013904223) >> 28));
  return text;
}

std::vector<std::string> command_of(const ToyJob& job, const std::string& folder) {
  std::vector<std::string> command{"salloc",
                                   "--job-name=espalier-doctor",
                                   "--elastic=1:2",
                                   "--nodes=1",
                                   "--ntasks=1",
                                   "--gres=" + job.gres,
                                   "--time=" + std::to_string(kMinutes),
                                   "--immediate=" + std::to_string(job.wait_seconds)};
  if (!job.partition.empty()) command.push_back("--partition=" + job.partition);
  command.insert(command.end(), job.extra.begin(), job.extra.end());
  command.insert(command.end(), {"srun", "--elastic=1:2", job.program});
  if (std::filesystem::path(job.program).filename() != kToy) command.push_back(folder + "/toy.toml");
  else
    command.insert(command.end(),
                   {"--steps", std::to_string(kSteps), "--pause", kPause, "--metrics", folder + "/metrics.jsonl"});
  return command;
}

// Steps done, by the last line of the metrics.
long steps_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  long steps = 0;
  while (std::getline(file, line)) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer())
      steps = std::max(steps, json["step"].get<long>());
  }
  return steps;
}

class Watcher {
 public:
  Watcher(const Facts& facts, const Salloc& salloc, ToyRun& run) : facts_(facts), salloc_(salloc), run_(run) {}
  void look() {
    run_.id = salloc_.job_id();
    if (run_.id == 0) return;
    if (run_.waited == 0) run_.waited = since_start();
    const Bounded reply = call_bounded(
        [&] {
          return ask(facts_.config, "job", {{"job", run_.id}}).dump(-1, ' ', false, Json::error_handler_t::replace);
        },
        kAskSeconds);
    if (!reply.succeeded()) {
      run_.unseen = reply.problem();
      return;
    }
    const Json whole = Json::parse(reply.output, nullptr, false);
    Json answer = whole.is_object() ? whole.value("job", Json()) : Json();
    if (!answer.is_object() || answer.value("ended", false)) return;
    run_.most_gpus = std::max(run_.most_gpus, answer.value("gpus", 0));
    // The step time is not known again for a moment after each change.
    if (!run_.seen || answer.value("step_seconds", 0.0) > 0) run_.seen = std::move(answer);
  }
  double since_start() const { return std::chrono::duration<double>(Salloc::Clock::now() - start_).count(); }

 private:
  const Facts& facts_;
  const Salloc& salloc_;
  ToyRun& run_;
  Salloc::Clock::time_point start_ = Salloc::Clock::now();
};

}  // namespace

ToyRun run_toy_job(const Facts& facts, const ToyJob& job) {
  ToyRun run;
  run.job = job;
  run.all_steps = kSteps;
  const EndingSignals signals;
  const Scratch scratch(job.folder);
  scratch.write("toy.toml", config_text(scratch.path()));
  scratch.write("data", data_text());
  {
    Salloc salloc(
        command_of(job, scratch.path()), [] {}, signals);
    Watcher watcher(facts, salloc, run);
    const auto until = Salloc::Clock::now() + std::chrono::seconds(job.wait_seconds + 60 * kMinutes + 60);
    salloc.watch(until, signals, [&] { watcher.look(); });
    run.id = salloc.job_id();
    if (run.id == 0) run.waited = watcher.since_start();
    run.failed = salloc.failed();
    run.said = salloc.told();
  }
  run.steps = steps_in(scratch.path() + "/metrics.jsonl");
  return run;
}

}  // namespace espalier::cli::doctor
