// espalier-launch: see espalier-launch(1). Started by the SPANK plugin and by extension jobs, not by hand.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "launcher/conform/conform.hpp"
#include "launcher/job/launcher.hpp"
#include "launcher/node/directory.hpp"
#include "launcher/node/keeper.hpp"
#include "launcher/node/tether.hpp"
#include "launcher/node/vault.hpp"
#include "launcher/process/execute.hpp"
#include "launcher/process/resource_limits.hpp"
#include "launcher/profile/profile_job.hpp"
#include "launcher/slurm/ask_patiently.hpp"
#include "launcher/world/container.hpp"
#include "planner/core/error.hpp"
#include "planner/core/standard_output.hpp"
#include "planner/wire/clock.hpp"

namespace {

using Words = std::vector<std::string>;

constexpr const char* kUsage =
    "Usage: espalier-launch run -- PROGRAM [ARGUMENT...]\n"
    "       espalier-launch keeper [--extension|--base|--base-node]\n"
    "       espalier-launch clean JOB\n"
    "       espalier-launch profile [--max=GPUS] [--accuracy=bitwise|relaxed] JOB -- PROGRAM [ARGUMENT...]\n"
    "       espalier-launch conform [--brief] [--only CASE,...] [--list] [--patience SECONDS] [--steps-option NAME]\n"
    "                               -- PROGRAM [ARGUMENT...]\n"
    "The last plays a launcher against a worker; `espalier profile` runs the one before. The others are started by "
    "srun --elastic and by Slurm's epilog, not\n"
    "by hand; see espalier-launch(1).\n";

// The step's program without the launcher. One of several tasks runs in a step of its own, since keepers have taken the
// place of the other tasks. So does one that belongs into a container, where pyxis puts that step.
Words without_launcher(const Words& program, const Words& container) {
  const auto of_step = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "1" : value);
  };
  const std::string tasks = of_step("SLURM_STEP_NUM_TASKS");
  if (container.empty() && tasks == "1") return program;
  Words command{"srun", "--overlap", "--mem=0", "-N" + of_step("SLURM_STEP_NUM_NODES"), "-n" + tasks};
  command.insert(command.end(), container.begin(), container.end());
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

// A slurmctld or munged that is being restarted must not cost a job its elasticity, nor a movable job its life.
void complete_patiently(espalier::launcher::JobContext& context) {
  static constexpr std::chrono::seconds kMost{180}, kBetween{2};
  const auto waits = [&context](const std::string& why) {
    std::fprintf(stderr, "espalier: launch: %s; it is asked again for %d s before %s\n", why.c_str(),
                 static_cast<int>(kMost.count()),
                 context.movable ? "the job ends" : "the program runs without elasticity");
  };
  espalier::launcher::ask_patiently([&context] { espalier::launcher::complete(context); }, waits,
                                    {kMost, kBetween, espalier::wire::steady_now,
                                     [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }});
}

// Never a failed job because of us: when the launcher cannot start, the user's program runs as srun would run it.
int run(const Words& program) {
  const char* const options = std::getenv("ESPALIER_PYXIS");
  const Words container = espalier::launcher::container_options(options == nullptr ? "" : options);
  const int problem = container.empty() ? espalier::launcher::execution_error(program.front()) : 0;
  if (problem != 0) {
    std::fprintf(stderr, "espalier: launch: execve(): %s: %s\n", program.front().c_str(), std::strerror(problem));
    return 2;  // as srun ends
  }
  std::signal(SIGPIPE, SIG_IGN);  // a peer may go away at any moment
  rlimit descriptors{};
  const bool limited = ::getrlimit(RLIMIT_NOFILE, &descriptors) == 0;
  try {
    auto context = espalier::launcher::read_context(program);
    espalier::launcher::allow_many_descriptors();  // the context has the limits of the ranks, which stay as they are
    if (std::getenv("ESPALIER_LOG") == nullptr) spdlog::set_level(spdlog::level::from_str(context.config.log_level));
    complete_patiently(context);
    const std::string name = espalier::launcher::vault_name(espalier::launcher::vault_prefix(context.job, context.step),
                                                            std::to_string(context.job));
    std::unique_ptr<espalier::launcher::Vault> vault;
    if (!context.movable) try {  // the nodes of a base have vaults of their own
        vault = std::make_unique<espalier::launcher::Vault>(name);
      } catch (const espalier::Error& error) {
        spdlog::warn("espalier: launch: {}; after a loss the job goes on with older state", error.what());
      }
    espalier::launcher::Launcher launcher(std::move(context), [&vault](const espalier::wire::Keep& what) {
      if (vault) vault->keep(what.generation, what.copies);
    });
    return launcher.run();
  } catch (const std::exception& error) {
    if (espalier::launcher::is_movable()) {  // without its base it has no GPUs to run on
      std::fprintf(stderr, "espalier: launch: %s; the job ends\n", error.what());
      return 1;
    }
    std::signal(SIGPIPE, SIG_DFL);
    if (limited) ::setrlimit(RLIMIT_NOFILE, &descriptors);
    std::fprintf(stderr, "espalier: launch: %s; the program runs without elasticity\n", error.what());
    return espalier::launcher::replace_by(without_launcher(program, container));
  }
}

void clean(const std::string& number) {
  espalier::JobId job = 0;
  const char* const end = number.data() + number.size();
  if (const auto [last, error] = std::from_chars(number.data(), end, job); error != std::errc{} || last != end)
    throw espalier::Error("clean: \"" + number + "\" is not the number of a job");
  espalier::launcher::remove_of_job(espalier::launcher::work_directory(espalier::wire::load_config()), job);
}

// The exit code of a command whose result is what it printed.
int printed(int code) {
  espalier::flush_standard_output();
  return code;
}

int dispatch(const Words& words) {
  const std::string& command = words.front();
  Words rest(words.begin() + 1, words.end());
  if (command == "run") {
    if (!rest.empty() && rest.front() == "--") rest.erase(rest.begin());
    if (rest.empty()) throw espalier::Error("run: no program given");
    return run(rest);
  }
  if (command == "keeper") {
    ::prctl(PR_SET_NAME, "espalier-keeper");
    if (rest == Words{"--extension"}) return espalier::launcher::keep_extension();
    if (rest == Words{"--base"}) return espalier::launcher::keep_base(true);
    if (rest == Words{"--base-node"}) return espalier::launcher::keep_base(false);
    return espalier::launcher::keep_anchor();
  }
  if (command == "clean") {
    if (rest.size() != 1) throw espalier::Error("clean: the number of one job is expected");
    clean(rest.front());
    return 0;
  }
  if (command == "profile") return printed(espalier::launcher::profile(rest));
  if (command == "conform")
    return espalier::launcher::play_conformance(rest, std::filesystem::read_symlink("/proc/self/exe").string());
  if (command == "step") return espalier::launcher::tether(rest);
  if (command == "--help" || command == "-h") return std::fputs(kUsage, stdout), printed(0);
  if (command == "--version" || command == "-V") return std::puts("espalier-launch " ESPALIER_VERSION), printed(0);
  throw espalier::Error("\"" + command + "\": unknown command; see espalier-launch --help");
}

// What spdlog does not know it takes for "off".
void set_level(const std::string& name) {
  const auto level = spdlog::level::from_str(name);
  if (level != spdlog::level::off) return spdlog::set_level(level);
  spdlog::warn("espalier: launch: ESPALIER_LOG=\"{}\": not debug, info, warning or error; info is used", name);
}

}  // namespace

int main(int argc, char** argv) {
  auto log = spdlog::stderr_color_mt("espalier");
  log->set_pattern("%v");
  spdlog::set_default_logger(log);
  if (const char* level = std::getenv("ESPALIER_LOG"); level != nullptr) set_level(level);
  Words words(argv + 1, argv + argc);
  // Before Slurm 23.11 the plugin can only exchange argv[0]: role and program come in the environment (spank/remote.h).
  if (const char* role = std::getenv("ESPALIER_TASK"); role != nullptr) {
    const char* program = std::getenv("ESPALIER_PROGRAM");
    Words start{role, "--", program == nullptr ? "" : program};
    words.insert(words.begin(), start.begin(), start.end());
    ::unsetenv("ESPALIER_TASK");
    ::unsetenv("ESPALIER_PROGRAM");
  }
  if (words.empty()) return std::fputs(kUsage, stderr), 2;
  try {
    return dispatch(words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "espalier: launch: %s\n", error.what());
    return 2;
  }
}
