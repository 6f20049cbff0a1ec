// espalier-toy [--steps N] [--pause SECONDS] [--metrics FILE]: the smallest elastic training, for `espalier doctor
// --run` on sites without a libtorch. It learns nothing: a step of its 8 samples takes SECONDS on one GPU, half as long
// on two, and its state is the number of steps. It speaks espalier-worker(7) by the library for C, and needs neither
// MPI nor a GPU.
#include <espalier/worker.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "planner/core/error.hpp"
#include "planner/core/standard_output.hpp"
#include "torchrt/toy/star_sum.hpp"

namespace {

using namespace espalier;
using torchrt::toy::StarSum;
using Clock = std::chrono::steady_clock;

constexpr int kBatch = 8;

struct Options {
  std::int64_t steps = 100;
  double pause = 0.25;
  std::string metrics;
};

espalier_worker* worker = nullptr;

[[noreturn]] void fail(const std::string& message, bool peer = false) {
  std::fprintf(stderr, "espalier: toy: %s\n", message.c_str());
  espalier_fail(worker, message.c_str(), peer);
  std::_Exit(1);
}

int call(int result) {
  if (result == ESPALIER_LEAVE) std::_Exit(0);
  if (result == ESPALIER_FAILED) fail(espalier_error(worker));
  return result;
}

int sum_for_library(double* values, int count, void* sum) {
  return (*static_cast<StarSum*>(sum))(values, count) ? 0 : 1;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) fail(std::string(name) + " is not set; start it by srun --elastic");
  return value;
}

// One step. Whether the processes stand after it.
bool train(const Options& options, std::int64_t step, StarSum& sum, std::ofstream& metrics) {
  std::int64_t first = 0;
  const auto begin = Clock::now();
  const double share = static_cast<double>(espalier_samples(worker, step, &first)) / kBatch;
  std::this_thread::sleep_for(std::chrono::duration<double>(options.pause * share));
  espalier_computed(worker);
  double wanted = call(espalier_switch_wanted(worker));
  if (!sum(&wanted, 1)) fail("another process is gone; the job's output and espalier explain tell which", true);
  espalier_summed(worker);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  call(espalier_report(worker, step, 1.0 / static_cast<double>(step), seconds));
  if (metrics.is_open()) metrics << "{\"step\":" << step << ",\"gpus\":" << espalier_size(worker) << "}" << std::endl;
  return wanted > 0 && step < options.steps;
}

// Until all steps are done. `memory` holds their number while others take it.
void train_on(const Options& options, std::int64_t step, StarSum& sum) {
  const wire::Descriptor memory(::memfd_create("espalier-toy", MFD_CLOEXEC));
  if (::ftruncate(memory.get(), sizeof step) != 0) fail("no memory for its state");
  std::ofstream metrics;
  if (espalier_rank(worker) == 0 && !options.metrics.empty()) {
    metrics.open(options.metrics, std::ios::app);
    if (!metrics.is_open()) fail("--metrics " + options.metrics + ": cannot be opened for writing; name another file");
  }
  while (step < options.steps) {
    if (!train(options, ++step, sum, metrics)) continue;
    if (::pwrite(memory.get(), &step, sizeof step, 0) != sizeof step) fail("its state cannot be written");
    call(espalier_give(worker, step, memory.get(), sizeof step));
    call(espalier_stand(worker, step));
  }
  call(espalier_done(worker, step));
}

void run(const Options& options) {
  espalier_program program{};
  program.size = sizeof program;
  program.global_batch = kBatch;
  program.total_steps = options.steps;
  program.name = "espalier-toy";
  worker = espalier_join(&program);
  if (worker == nullptr) throw Error("toy: " + std::string(espalier_error(nullptr)));
  // Of this generation's processes alone: the launcher gives the job's token to nobody else.
  const std::string secret = variable("ESPALIER_TOKEN") + ":" + std::to_string(espalier_generation(worker));
  StarSum sum(espalier_rank(worker), espalier_size(worker), variable("MASTER_ADDR"), variable("MASTER_PORT"), secret);
  espalier_profile profile{};
  profile.size = sizeof profile;
  profile.gradient_bytes = profile.weight_bytes = profile.state_bytes = sizeof(std::int64_t);
  profile.sum = sum_for_library;
  profile.context = &sum;
  call(espalier_measure(worker, &profile));
  std::int64_t step = 0;
  call(espalier_start(worker, &step));
  if (espalier_takes(worker)) {
    // The launcher has told the step, which is all the state. After a loss it begins anew.
    const bool lost = espalier_recovers(worker);
    if (lost) step = 0;
    call(espalier_taken(worker, step, lost ? "start" : nullptr));
  }
  call(espalier_commit(worker));
  train_on(options, step, sum);
  espalier_free(worker);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("The smallest elastic training, for espalier doctor --run", "espalier-toy");
  app.add_option("--steps", options.steps, "of the training")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  app.add_option("--pause", options.pause, "seconds that a step takes on one GPU")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  app.add_option("--metrics", options.metrics, "a file that gets a line for each step");
  app.set_version_flag("--version", "espalier-toy " ESPALIER_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() != 0) {
      std::fprintf(stderr, "espalier: toy: %s; see espalier-toy --help\n", problem.what());
      return problem.get_exit_code();
    }
    const int code = app.exit(problem);
    try {
      flush_standard_output();
    } catch (const Error& error) {
      std::fprintf(stderr, "espalier: toy: %s\n", error.what());
      return 1;
    }
    return code;
  }
  if (!std::isfinite(options.pause)) {  // CLI::Range takes "nan"
    std::fputs("espalier: toy: --pause: must be a number of seconds\n", stderr);
    return 2;
  }
  if (espalier_has_launcher() == 0) {
    std::fputs("espalier: toy: no launcher leads this process; start it by srun --elastic=1:2\n", stderr);
    return 1;
  }
  try {
    run(options);
  } catch (const std::exception& problem) {
    if (worker != nullptr) fail(problem.what());
    std::fprintf(stderr, "espalier: %s\n", problem.what());
    return 1;
  }
  return 0;
}
