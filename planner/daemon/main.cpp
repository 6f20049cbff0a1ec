// espalierd: the planner's process. Options, configuration, log, signals, and the parts put together.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "planner/core/error.hpp"
#include "planner/core/standard_output.hpp"
#include "planner/daemon/answers.hpp"
#include "planner/daemon/event_dispatch.hpp"
#include "planner/daemon/events.hpp"
#include "planner/daemon/gate.hpp"
#include "planner/daemon/instance_lock.hpp"
#include "planner/daemon/metrics/metrics.hpp"
#include "planner/daemon/options.hpp"
#include "planner/daemon/question_thread.hpp"
#include "planner/daemon/rule_names.hpp"
#include "planner/wire/grant.h"
#include "planner/wire/munge_check.hpp"
#include "planner/wire/scheduler_options.hpp"

namespace espalier {
namespace {

constexpr int kKeptDecisions = 20000, kKeptTransitions = 200000;

StoreLimits store_limits(const wire::Config& config) {
  return {kKeptDecisions, kKeptTransitions, std::int64_t{config.store_mb} << 20};
}

PlannerSettings settings_of(const wire::Config& config, bool shadow) {
  PlannerSettings settings;
  settings.scheduler = wire::scheduler_options(config);
  settings.hardware = config.hardware;
  settings.partition = config.partition;
  settings.rules = {config.extension_constraint, config.extension_reservation, config.extension_qos,
                    config.extension_account,    config.max_lease_minutes,     config.share};
  settings.health = {config.health_command, config.health_timeout_seconds, config.health_valid_minutes};
  settings.profiling = {config.profiling_gpus, config.profiling_per_user, config.profiling_minutes};
  settings.max_gpus = config.max_gpus;
  settings.migrate_gain = config.migrate_gain;
  settings.trial_percent = config.trial_percent;
  settings.plan_trials = config.plan_trials;
  settings.poll_seconds = config.poll_seconds;
  settings.outcome_seconds = config.acquire_seconds + 1.5 * config.start_seconds + config.switch_seconds + 30;
  // At a boundary a hand-off may wait for one step, one checkpoint write and one checkpoint read.
  // Each of the three may take hang_seconds.
  settings.boundary_seconds = 3.0 * config.hang_seconds;
  settings.shadow = shadow;
  settings.refuses_late_deadlines = config.refuses_late_deadlines;
  settings.share_profiles = config.share_profiles;
  settings.grant = make_grants(ESPALIER_GRANT_KEY, config.partition);
  return settings;
}

void set_up_log(const Options& options, const std::string& level) {
  auto log = spdlog::stderr_color_mt("espalierd");
  // Without --foreground the service manager adds the time.
  log->set_pattern(options.foreground ? "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v" : "%l: %v");
  log->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(log));
  spdlog::set_level(spdlog::level::from_str(level));
}

void make_directory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
    throw Error(path + ": cannot be made: " + std::strerror(errno) + "; make it and give it to the user of espalierd");
}

// What the store holds of users' jobs is for the user of espalierd alone, also where an earlier
// espalierd or the administrator made the folder.
void make_private(const std::string& path) {
  make_directory(path, 0700);
  if (::chmod(path.c_str(), 0700) != 0)
    spdlog::warn("{}: its mode cannot be set to 0700: {}; give it to the user of espalierd", path,
                 std::strerror(errno));
}

// Each elastic job holds a connection, so the limit is raised as far as the system allows.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void log_calibrated(const wire::Config& config) {
  const wire::Calibrated& calibrated = config.calibrated;
  if (!calibrated.problem.empty())
    spdlog::error("{}; nothing of that file is used: run espalier calibrate again", calibrated.problem);
  else if (!calibrated.path.empty())
    spdlog::info("{}: {} figures measured, {} of them overruled by {}", calibrated.path,
                 calibrated.used.size() + calibrated.overruled.size(), calibrated.overruled.size(),
                 config.path.empty() ? "nothing" : config.path);
}

wire::Config load_configuration(const Options& options) {
  wire::Config config = wire::load_planner_config(options.config);
  try {
    check_share_rules(config.share);
  } catch (const Error& error) {
    throw Error(config.path + ": " + error.what());
  }
  return config;
}

// Applies new settings to the running daemon. A setting that needs a restart keeps its old value
// and logs a warning.
void reload(wire::Config& config, Planner& planner, Store& store, Metrics& metrics, RuleNames& names,
            const Options& options) {
  try {
    const wire::Config fresh = load_configuration(options);
    if (fresh.planner_port != config.planner_port || fresh.run_dir != config.run_dir ||
        fresh.state_dir != config.state_dir || fresh.partition != config.partition ||
        fresh.topology_file != config.topology_file || fresh.extension_qos != config.extension_qos ||
        fresh.metrics_address != config.metrics_address)
      spdlog::warn(
          "{}: port, run_dir, state_dir, partition, qos, topology_file and the address of metrics change only with a "
          "restart",
          fresh.path);
    const wire::Config old = std::exchange(config, fresh);
    config.planner_port = old.planner_port;
    config.run_dir = old.run_dir;
    config.state_dir = old.state_dir;
    config.partition = old.partition;
    config.topology_file = old.topology_file;
    config.extension_qos = old.extension_qos;
    config.metrics_address = old.metrics_address;
    metrics.configure(config);
    planner.configure(settings_of(config, options.shadow));
    store.limit(store_limits(config));
    spdlog::set_level(spdlog::level::from_str(config.log_level));
    log_calibrated(config);
    names.check(config.share, config.objective);
    spdlog::info("configuration read again from {}", config.path.empty() ? "the defaults" : config.path);
  } catch (const Error& error) {
    spdlog::error("{}; the configuration stays as it was", error.what());
  }
}

// Where MUNGE does not work, says so. `close` is called when Slurm has told that the site uses none: then nobody can
// log in over the network. Elsewhere munged may still come. Users of this host are known by their sockets in either
// case.
wire::Watch watch_munge(wire::Loop& loop, const Planner& planner, std::function<void()> close) {
  const std::string problem = wire::munge_problem();
  if (problem.empty()) return {};
  spdlog::error("{}; until then only users of this host can talk to espalierd", wire::without_munge("", problem));
  return loop.every(wire::Loop::Milliseconds(1000),
                    [&planner, problem, close = std::move(close), done = false]() mutable {
                      const auto slurm = planner.last_snapshot();
                      if (done || !slurm) return;
                      done = true;
                      if (!wire::lacks_munge(slurm->auth_type, problem)) return;
                      spdlog::error("{}, and restart espalierd; it does not listen on the network now, so no job grows",
                                    wire::without_munge(slurm->auth_type, problem));
                      close();
                    });
}

// Runs until a signal ends the loop. False: a thread is still inside libslurm.
bool serve(const Options& options) {
  wire::Config config = load_configuration(options);
  set_up_log(options, config.log_level);
  log_calibrated(config);
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  make_directory(config.run_dir, 0755);
  make_private(config.state_dir);
  const InstanceLock lock(config.state_dir + "/espalierd.lock");
  const std::string database = config.state_dir + "/espalier.db";
  Store store(database);
  store.limit(store_limits(config));
  store.prune(kKeptDecisions, kKeptTransitions);

  wire::Loop loop;
  SlurmAgent slurm(loop, make_slurm(config.partition, config.extension_qos, config.topology_file));
  Planner planner(loop, slurm, store, settings_of(config, options.shadow));
  Answers answers(planner, config);
  QuestionThread questions(loop, planner, answers, database);
  Gate gate(planner, QuestionDesk::Sources{
                         [&](const wire::Query& query, const wire::Peer& peer) { return answers.answer(query, peer); },
                         [&](const wire::Query& query, const wire::Peer& peer, QuestionThread::Done done) {
                           questions.ask(query, peer, std::move(done));
                         },
                         ReadAnswers::answers});
  const auto on_connection = [&](const wire::ConnectionPtr& link) { gate.welcome(link); };
  auto tcp = wire::listen_tcp(loop, wire::Door{{wire::Service::planner}, 0, "", {}}, "0.0.0.0", config.planner_port,
                              on_connection);
  const auto local = wire::listen_local(loop, config.run_dir + "/control.sock", on_connection);
  EventSockets events(
      loop, config.run_dir + "/events.sock", config.planner_port,
      [&](uid_t uid) { return is_administrator(uid, planner.slurm_user()); },
      [&](const wire::Event& event) { dispatch(event, planner); });
  const auto munge = watch_munge(loop, planner, [&] {
    tcp.reset();
    events.close_network();
  });
  Metrics metrics(loop, planner, config);
  RuleNames names(loop, slurm);
  names.check(config.share, config.objective);
  const auto hup = loop.on_signal(SIGHUP, [&] { reload(config, planner, store, metrics, names, options); });
  const auto term = loop.on_signal(SIGTERM, [&] { loop.stop(); });
  const auto interrupt = loop.on_signal(SIGINT, [&] { loop.stop(); });
  const auto tidy = loop.every(wire::Loop::Milliseconds(3600 * 1000), [&] {
    try {
      store.prune(kKeptDecisions, kKeptTransitions);
    } catch (const Error& error) {
      spdlog::error("{}", error.what());
    }
  });
  spdlog::info("espalierd {} on port {}, {}, {}{}", ESPALIER_VERSION, config.planner_port, config.run_dir,
               config.state_dir, options.shadow ? ", shadow: acts on nothing" : "");
  loop.run();
  spdlog::info("stopping");
  const bool idle = slurm.stop();
  if (!idle) spdlog::warn("a call to Slurm is still under way; it is left behind");
  return idle;
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  try {
    const espalier::Options options = espalier::parse_options(argc, argv);
    if (options.help || options.version) {
      std::fputs(options.help ? espalier::kUsage : "espalierd " ESPALIER_VERSION "\n", stdout);
      espalier::flush_standard_output();
      return 0;
    }
    // Does not call exit(): the thread left behind may still use objects that exit() destroys.
    if (!espalier::serve(options)) std::_Exit(0);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "espalier: espalierd: %s\n", error.what());
    return 1;
  }
}
