// Runs in a box: espalierd with a large cluster and thousands of launchers that this process plays. `espalier-bench
// daemon` starts it. Prints figures as JSON.
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>

#include <CLI/CLI.hpp>

#include "planner/core/error.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/wire/client.hpp"
#include "planner/wire/descriptor.hpp"
#include "planner/wire/event.h"
#include "tests/bench/daemon/espalierd_process.hpp"
#include "tests/bench/daemon/played_launcher.hpp"
#include "tests/bench/daemon/questions.hpp"

namespace espalier::bench {
namespace {

using Milliseconds = wire::Loop::Milliseconds;

constexpr uid_t kFirstUser = 20000;
constexpr int kUsers = 50;

struct Options {
  int gpus = 16384, launchers = 5000;
  double seconds = 60, settle = 20, questions = 100, churn = 1;
  unsigned seed = 1;
  std::string output;
};

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// Events as slurmctld's and slurmd's plugins send them.
class Events {
 public:
  Events() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  void send(const std::string& text) const {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::snprintf(to.sun_path, sizeof to.sun_path, ESPALIER_RUN_DIR "/events.sock");
    // While espalierd is down nobody takes it; polling tells the same.
    ::sendto(socket_.get(), text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  void released(const std::vector<Holding>& holdings) const {
    for (const Holding& held : holdings) {
      std::string text =
          ESPALIER_EVENT_MAGIC " gpus_released job=" + std::to_string(held.job) + " node=" + held.node + " gpus=";
      for (const int gpu : held.gpus) text += (text.back() == '=' ? "" : ",") + std::to_string(gpu);
      send(text + " exit=0");
    }
  }

 private:
  wire::Descriptor socket_;
};

class Play {
 public:
  Play(const Options& options, const Where& where, const std::string& table)
      : options_(options), where_(where), site_(table, options.gpus), random_(options.seed), kinds_(job_kinds()) {
    for (int i = 0; i < options.launchers; ++i) {
      const JobKind& kind = random_kind(kinds_, random_);
      const JobId job = site_.submit(kFirstUser, kUsers, kind.gpus);
      auto anchor = site_.start(job);
      if (!anchor) throw Error("so many launchers do not fit on " + std::to_string(options.gpus) + " GPUs; name fewer");
      add(kind, job, std::move(*anchor));
    }
  }

  PlayedSite& site() { return site_; }
  wire::Loop& loop() { return loop_; }
  LauncherCounts& counts() { return counts_; }

  // Jobs end and are submitted at the rate of --churn.
  void begin_churn() {
    const Milliseconds period(std::lround(1000 / options_.churn));
    ends_ = loop_.every(period, [this] { end_one(); });
    later_ = loop_.after(period / 2, [this, period] { submits_ = loop_.every(period, [this] { submit_one(); }); });
    starts_ = loop_.every(Milliseconds(200), [this] { start_waiting(); });
  }
  void run_for(double seconds) {
    const auto limit = loop_.after(Milliseconds(std::lround(1000 * seconds)), [this] { loop_.stop(); });
    loop_.run();
  }
  int registered() const {
    return static_cast<int>(
        std::count_if(launchers_.begin(), launchers_.end(), [](const auto& one) { return one.second->registered(); }));
  }
  int launchers() const { return static_cast<int>(launchers_.size()); }
  // Seconds until all launchers have registered with the espalierd that runs now; at most `most`. Those of jobs that
  // started within the last moments may still be on their way.
  double wait_registered(double most) {
    const double begin = clock_seconds();
    const auto all = static_cast<int>(launchers_.size());
    while (registered() < std::min(all, static_cast<int>(launchers_.size())) && clock_seconds() - begin < most)
      run_for(0.05);
    return clock_seconds() - begin;
  }
  std::vector<Questions::Asker> askers() const {
    std::vector<Questions::Asker> all;
    for (const auto& [id, launcher] : launchers_) all.push_back({users_.at(id), id});
    return all;
  }

 private:
  void add(const JobKind& kind, JobId job, std::vector<Holding> anchor) {
    const uid_t uid = uid_of(job);
    // espalierd bounds the newcomers of one address. Here a rack has one.
    Where where = where_;
    const int rack = std::atoi(anchor.front().node.c_str() + 1) / SITE_RACK_NODES;
    where.host = "10.78." + std::to_string(rack / 250) + "." + std::to_string(1 + rack % 250);
    launchers_.emplace(job, std::make_unique<PlayedLauncher>(
                                loop_, site_, where, kind, job, uid, std::move(anchor), counts_,
                                [this](const std::vector<Holding>& held) { events_.released(held); }, random_));
    users_[job] = uid;
  }
  static uid_t uid_of(JobId job) { return kFirstUser + job % kUsers; }

  void end_one() {
    auto at = launchers_.begin();
    std::advance(at, static_cast<long>(random_() % launchers_.size()));
    at->second->leave();
    leaving_.push_back(std::move(at->second));
    users_.erase(at->first);
    launchers_.erase(at);
    if (leaving_.size() > 20) leaving_.pop_front();
  }
  void submit_one() {
    const JobKind& kind = random_kind(kinds_, random_);
    waiting_.emplace_back(site_.submit(kFirstUser, kUsers, kind.gpus), &kind);
    events_.send(ESPALIER_EVENT_MAGIC " job_submitted uid=20000 gpus=" + std::to_string(kind.gpus) +
                 " nodes=1 elastic=1");
  }
  void start_waiting() {
    while (!waiting_.empty()) {
      auto anchor = site_.start(waiting_.front().first);
      if (!anchor) return;
      add(*waiting_.front().second, waiting_.front().first, std::move(*anchor));
      waiting_.pop_front();
    }
  }

  Options options_;
  Where where_;
  wire::Loop loop_;
  PlayedSite site_;
  std::mt19937 random_;
  std::vector<JobKind> kinds_;
  LauncherCounts counts_;
  Events events_;
  std::map<JobId, std::unique_ptr<PlayedLauncher>> launchers_;
  std::map<JobId, uid_t> users_;
  std::deque<std::unique_ptr<PlayedLauncher>> leaving_;
  std::deque<std::pair<JobId, const JobKind*>> waiting_;
  wire::Watch ends_, later_, submits_, starts_;
};

// All decisions that were made after `since`, newest first.
std::vector<Json> decisions_since(const std::string& socket, uid_t planner_uid, double since) {
  std::vector<Json> all;
  Json arguments{{"limit", 1000}};
  for (bool more = true; more;) {
    auto client = wire::Client::local(socket, {planner_uid}, std::chrono::seconds(10));
    client.send(wire::Query{"decisions", arguments});
    const auto answer = client.receive(std::chrono::seconds(60));
    if (!answer || answer->type != wire::Reply::type) throw Error("espalierd does not tell its decisions");
    const Json page = wire::from_frame<wire::Reply>(*answer).body;
    const auto& list = page.at("decisions");
    for (auto at = list.rbegin(); at != list.rend(); ++at) {
      if (at->at("time").get<double>() < since) return all;
      all.push_back(*at);
    }
    more = page.contains("next");
    if (more) arguments["page"] = page.at("next");
  }
  return all;
}

// What espalierd itself noted of its decisions.
void add_delays(const std::vector<Json>& decisions, Json& figures) {
  std::vector<double> delays, thought;
  for (const Json& one : decisions) {
    const Json& moments = one.at("moments");
    if (!moments.contains("decided")) continue;
    if (moments.contains("seen"))
      thought.push_back(1000 * (moments.at("decided").get<double>() - moments.at("seen").get<double>()));
    if (moments.contains("event"))  // GPUs that were released, a job that was submitted, or both
      delays.push_back(1000 * (moments.at("decided").get<double>() - moments.at("event").get<double>()));
  }
  figures["decisions"] = decisions.size();
  figures["events_decided"] = delays.size();
  figures["decision_delay_p50_ms"] = percentile(delays, 0.5);
  figures["decision_delay_p99_ms"] = percentile(delays, 0.99);
  figures["decision_delay_max_ms"] = percentile(delays, 1);
  figures["seen_to_decided_p99_ms"] = percentile(thought, 0.99);
}

Json run(const Options& options) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  // Each launcher has a connection, a thread that asks MUNGE, and another one while it looks up an address.
  const auto needed = static_cast<rlim_t>(3 * options.launchers + 500);
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max < needed)
    throw Error("needs " + std::to_string(needed) + " file descriptors; raise the limit (ulimit -Hn)");
  const std::string box = std::getenv("BOX") == nullptr ? "" : std::getenv("BOX");
  const passwd* slurm = ::getpwnam("slurm");
  if (box.empty() || slurm == nullptr) throw Error("run it by espalier-bench daemon, in a box");
  const Where where{"", ESPALIER_DEFAULT_PORT, slurm->pw_uid};
  const std::string socket = ESPALIER_RUN_DIR "/control.sock";

  EspalierdProcess daemon({box + "/bin/espalierd", box + "/lib/bench_slurm_answers.so", box + "/share/site",
                           box + "/log/espalierd.log", slurm->pw_uid, slurm->pw_gid});
  Play play(options, where, box + "/share/site");
  std::ofstream(box + "/share/topology.conf") << play.site().topology();
  Json figures{{"gpus", options.gpus}, {"launchers", options.launchers}, {"idle_gpus", play.site().idle_gpus()}};
  const auto say = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };

  say("starting espalierd and " + std::to_string(options.launchers) + " launchers");
  daemon.start();
  figures["first_registered_s"] = play.wait_registered(120);
  if (play.registered() < options.launchers)
    say("only " + std::to_string(play.registered()) + " launchers have registered");
  play.begin_churn();
  play.run_for(options.settle);

  say("measuring for " + std::to_string(std::lround(options.seconds)) + " s");
  const double begin = clock_seconds(), cpu = daemon.cpu_seconds();
  {
    Questions questions(socket, slurm->pw_uid, options.questions, play.askers(), options.seed);
    play.run_for(options.seconds);
    questions.stop();
    std::size_t asked = 0;
    for (const auto& [what, times] : questions.milliseconds()) {
      figures[what + "_p50_ms"] = percentile(times, 0.5);
      figures[what + "_p99_ms"] = percentile(times, 0.99);
      asked += times.size();
    }
    figures["questions_per_second"] = static_cast<double>(asked) / (clock_seconds() - begin);
    figures["questions_failed"] = questions.failed();
  }
  figures["cpu_cores"] = (daemon.cpu_seconds() - cpu) / (clock_seconds() - begin);
  figures["rss_mib"] = daemon.peak_mib();
  add_delays(decisions_since(socket, slurm->pw_uid, begin), figures);

  say("killing espalierd");
  daemon.kill();
  play.run_for(1);
  ++play.counts().espalierd;
  const double again = clock_seconds();
  daemon.start();
  figures["all_back_s"] = play.wait_registered(120);
  figures["back"] = play.registered();
  figures["running"] = play.launchers();  // fewer than at the beginning: the GPUs of jobs that end may be lent
  figures["restart_cpu_s"] = daemon.cpu_seconds();
  play.run_for(options.settle);
  const auto after = decisions_since(socket, slurm->pw_uid, again);
  figures["first_decision_s"] = after.empty() ? Json(nullptr) : Json(after.back().at("time").get<double>() - again);
  figures["restart_rss_mib"] = daemon.peak_mib();
  figures["proposals"] = play.counts().proposals;
  figures["committed"] = play.counts().committed;
  figures["aborted"] = play.counts().aborted;
  figures["refused"] = play.counts().refused;
  return figures;
}

}  // namespace
}  // namespace espalier::bench

int main(int argc, char** argv) {
  espalier::bench::Options options;
  CLI::App app("espalierd under load, in a box", "espalier-bench-daemon");
  app.add_option("--gpus", options.gpus)->required();
  app.add_option("--launchers", options.launchers)->required();
  app.add_option("--seconds", options.seconds)->required();
  app.add_option("--settle", options.settle, "seconds before the measurement and after the restart")
      ->capture_default_str();
  app.add_option("--questions", options.questions)->required();
  app.add_option("--churn", options.churn)->required();
  app.add_option("--seed", options.seed)->required();
  app.add_option("--output", options.output)->required();
  CLI11_PARSE(app, argc, argv);
  try {
    std::ofstream(options.output) << espalier::bench::run(options).dump(2) << "\n";
  } catch (const std::exception& error) {
    std::fprintf(stderr, "espalier-bench: daemon: %s\n", error.what());
    return 1;
  }
  // 5,000 connections' threads end with the process.
  std::_Exit(0);
}
