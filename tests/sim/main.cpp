// A seeded simulation of launchers, planner, keepers and workers on a model of Slurm. `make test-sim` runs 100,000
// histories; `build/test/sim --seed N --verbose` tells one of them.
//
// Real parts: the launcher (state machine, actions, extensions, worlds, connection to the planner), the keeper's rules,
// and the planner with its gate, scheduler and store (SQLite in memory, which outlives the planner's process). They run
// unchanged on virtual time: seams_*.cpp replace the event loop, sockets, child processes and libslurm.
// Models: Slurm (slurm_model), the ranks of generations (generation), the network (network).
//
// The seed decides the history: a cluster of two or three nodes, one or two elastic jobs, plain jobs that want their
// GPUs, and faults (faults.cpp). With --movable most elastic jobs are movable: they hold their GPUs by bases, which are
// replaced, and Slurm requeues the job when it loses the launcher's node. With --arena the planner has that policy, and
// every second node another type of GPU.
// - Connections break, or are cut for a while. Datagrams are lost, doubled or overtaken.
// - Processes die or stand still. The planner and launchers also die in the middle of an event.
// - Workers and nodes are lost while a job trains. The next generation takes the state that survives.
// - slurmctld stands still, or its answer is lost.
// - The nodes of a base boot before its processes start.
// - Jobs and extensions are cancelled. Leases of extensions end. Users make requests.
// - The disk is full. The planner's store is lost.
// Then the faults end, and all parts must agree. Then the jobs are cancelled, and nothing may be left. invariants.cpp
// looks after every event.
//
// A history that breaks an invariant is run once more with a log. The log, the seed and the invariant are printed.
// --mutant NAME breaks the model on purpose (mutant.hpp). --mutants checks that the invariants notice each mutant.
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "tests/sim/history.hpp"

namespace espalier::sim {
namespace {

struct Options {
  std::uint64_t seed = 1;
  long histories = 1, steps = std::numeric_limits<long>::max(), jobs = 1;
  bool verbose = false, mutants = false, survey = false, movable = false, arena = false;
  Mutant mutant = Mutant::none;
};

constexpr const char* kUsage =
    "Usage: sim [--movable] [--arena] [--seed N] [--histories N] [--jobs N] [--steps N] [--mutant NAME] [--verbose | "
    "--survey]\n"
    "       sim [--movable] [--arena] --mutants [--seed N] [--histories N]\n";

[[noreturn]] void usage() {
  std::fputs(kUsage, stderr);
  for (const std::string& name : mutant_names()) std::fprintf(stderr, "  mutant %s\n", name.c_str());
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] {
      if (i + 1 == argc) usage();
      return std::strtoll(argv[++i], nullptr, 10);
    };
    if (word == "--seed") options.seed = static_cast<std::uint64_t>(number());
    else if (word == "--histories") options.histories = static_cast<long>(number());
    else if (word == "--jobs") options.jobs = std::max(1L, static_cast<long>(number()));
    else if (word == "--steps") options.steps = static_cast<long>(number());
    else if (word == "--verbose") options.verbose = true;
    else if (word == "--mutants") options.mutants = true;
    else if (word == "--survey") options.survey = true;
    else if (word == "--movable") options.movable = true;
    else if (word == "--arena") options.arena = true;
    else if (word == "--mutant" && i + 1 < argc && mutant_from(argv[i + 1])) options.mutant = *mutant_from(argv[++i]);
    else usage();
  }
  return options;
}

// Prints the seed of a history that ends the simulator itself.
volatile std::sig_atomic_t seed_high = 0, seed_low = 0;

void name_seed(int number) {
  char text[64];
  const auto seed =
      static_cast<unsigned long long>(static_cast<unsigned>(seed_high)) << 32 | static_cast<unsigned>(seed_low);
  const int length = std::snprintf(text, sizeof text, "signal %d in seed %llu\n", number, seed);
  if (::write(STDOUT_FILENO, text, static_cast<std::size_t>(length)) < 0) std::_Exit(2);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

std::string run_one(std::uint64_t seed, const Options& options, Mutant mutant, long& events) {
  seed_high = static_cast<std::sig_atomic_t>(seed >> 32);
  seed_low = static_cast<std::sig_atomic_t>(seed & 0xffffffff);
  History history(seed, mutant, false, options.movable, options.arena);
  std::string what = history.run(options.steps);
  events += history.steps();
  return what;
}

// Adds the product's own log to the history's.
class Teller final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit Teller(History& history) : history_(history) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    history_.note([&] { return "  | " + std::string(message.payload.data(), message.payload.size()); });
  }
  void flush_() override {}
  History& history_;
};

void tell(std::uint64_t seed, Mutant mutant, const Options& options) {
  History told(seed, mutant, true, options.movable, options.arena);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("told", std::make_shared<Teller>(told)));
  spdlog::set_level(spdlog::level::debug);
  const std::string broken = told.run(options.steps);
  spdlog::set_level(spdlog::level::off);
  for (const std::string& line : told.log()) std::printf("%s\n", line.c_str());
  std::printf("seed %llu: %ld events, %.1f s: %s\n", static_cast<unsigned long long>(seed), told.steps(),
              told.timeline.now(), broken.empty() ? "every invariant held" : broken.c_str());
}

// The first seed of `count` seeds that breaks an invariant. 0: none does.
std::uint64_t first_broken(const Options& options, Mutant mutant, long count, long& events, std::string& what) {
  for (std::uint64_t seed = options.seed; seed < options.seed + static_cast<std::uint64_t>(count); ++seed) {
    what = run_one(seed, options, mutant, events);
    if (!what.empty()) return seed;
  }
  return 0;
}

// Prints a line for each broken history, and goes on.
bool survey(const Options& options) {
  long broken = 0;
  for (std::uint64_t seed = options.seed; seed < options.seed + static_cast<std::uint64_t>(options.histories); ++seed) {
    long events = 0;
    const std::string what = run_one(seed, options, options.mutant, events);
    if (what.empty()) continue;
    ++broken;
    std::printf("seed %llu, event %ld: %s\n", static_cast<unsigned long long>(seed), events, what.c_str());
  }
  return broken == 0;
}

bool all_mutants_noticed(const Options& options) {
  bool all = true;
  for (const std::string& name : mutant_names()) {
    if (name == "none" || needs_movable(*mutant_from(name)) != options.movable) continue;
    long events = 0;
    std::string what;
    const std::uint64_t seed =
        first_broken(options, *mutant_from(name), std::max(options.histories, 3000L), events, what);
    std::printf("%-18s %s\n", name.c_str(),
                seed == 0 ? "NOT NOTICED" : ("noticed at seed " + std::to_string(seed) + ": " + what).c_str());
    all = all && seed != 0;
  }
  return all;
}

int run(const Options& options) {
  if (options.mutants) return all_mutants_noticed(options) ? 0 : 1;
  if (options.survey) return survey(options) ? 0 : 1;
  if (options.verbose) return tell(options.seed, options.mutant, options), 0;
  const auto start = std::chrono::steady_clock::now();
  long events = 0;
  std::string what;
  const std::uint64_t seed = first_broken(options, options.mutant, options.histories, events, what);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (seed == 0) {
    std::printf("%ld histories from seed %llu, %ld events, %.1f s: every invariant held\n", options.histories,
                static_cast<unsigned long long>(options.seed), events, seconds);
    return 0;
  }
  tell(seed, options.mutant, options);
  std::printf("again: sim%s%s --seed %llu --verbose\n", options.movable ? " --movable" : "",
              options.arena ? " --arena" : "", static_cast<unsigned long long>(seed));
  return 1;
}

// Each process takes an equal part of the seeds.
int run_in_parallel(const Options& options) {
  if (options.jobs == 1 || options.verbose || options.mutants) return run(options);
  std::vector<pid_t> children;
  for (long i = 0; i < options.jobs; ++i) {
    const pid_t child = ::fork();
    if (child < 0) return std::perror("sim: fork"), 2;
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    Options part = options;
    const long first = options.histories * i / options.jobs;
    part.seed += static_cast<std::uint64_t>(first);
    part.histories = options.histories * (i + 1) / options.jobs - first;
    return run(part);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    good = ::waitpid(child, &status, 0) == child && status == 0 && good;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace espalier::sim

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::off);
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE}) std::signal(number, espalier::sim::name_seed);
  ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);  // hwloc would load its plugins for every planner that starts
  return espalier::sim::run_in_parallel(espalier::sim::parse(argc, argv));
}
