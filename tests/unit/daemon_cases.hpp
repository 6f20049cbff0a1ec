// Stands in for Slurm and launchers in the daemon's tests. A test sets their answers. The daemon's
// own code is the real code.
#pragma once

#include <spdlog/spdlog.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "planner/core/error.hpp"
#include "planner/daemon/answers.hpp"
#include "planner/daemon/gate.hpp"
#include "planner/daemon/planner.hpp"
#include "tests/unit/schedule_cases.hpp"

namespace espalier::test {

// A new directory that is removed with the object.
struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "espalier-test-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

// Slurm's answers. The test writes them, the agent's thread reads them.
struct SlurmState {
  std::mutex mutex;
  SlurmSnapshot snapshot;
  std::string trouble;
  std::vector<JobId> killed;
  std::map<JobId, int> prolonged;  // new time limit, minutes
  SlurmNames names;
  int asked = 0, asked_names = 0;
  double ahead = 0;  // seconds that snapshots are later than the clock: tests need not wait for long times
  std::chrono::milliseconds kill_takes{0};
  std::vector<std::size_t> killed_before;  // of each snapshot, how many

  template <class Change>
  void change(Change change) {
    const std::lock_guard lock(mutex);
    change(snapshot);
  }
};

class TestSlurm final : public Slurm {
 public:
  explicit TestSlurm(std::shared_ptr<SlurmState> state) : state_(std::move(state)) {}
  SlurmSnapshot snapshot() override {
    const std::lock_guard lock(state_->mutex);
    ++state_->asked;
    state_->killed_before.push_back(state_->killed.size());
    if (!state_->trouble.empty()) throw Error(state_->trouble);
    SlurmSnapshot result = state_->snapshot;
    result.time =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() + state_->ahead;
    return result;
  }
  SlurmNames names() override {
    const std::lock_guard lock(state_->mutex);
    ++state_->asked_names;
    if (!state_->trouble.empty()) throw Error(state_->trouble);
    return state_->names;
  }
  void kill(JobId job) override {
    std::this_thread::sleep_for(state_->kill_takes);
    const std::lock_guard lock(state_->mutex);
    state_->killed.push_back(job);
  }
  void prolong(JobId job, int minutes) override {
    const std::lock_guard lock(state_->mutex);
    state_->prolonged[job] = minutes;
    SlurmJob& record = state_->snapshot.jobs.at(job);
    record.ends = record.started + 60.0 * minutes;
  }

 private:
  std::shared_ptr<SlurmState> state_;
};

class TestLink final : public wire::Connection {
 public:
  explicit TestLink(uid_t uid) : peer_{uid, uid, "test"} {}
  const wire::Peer& peer() const override { return peer_; }
  void send(const wire::Frame& frame) override { sent.push_back(frame); }
  void close() override {
    closed = true;
    on_frame = nullptr;
    on_closed = nullptr;
  }
  void limit_frames(std::size_t most, std::chrono::milliseconds) override { most_frame = most; }
  void resume() override { ++resumed; }
  using wire::Connection::send;
  template <class Message>
  void says(const Message& message) {
    const auto callback = on_frame;
    if (callback) callback(wire::to_frame(message));
  }
  template <class Message>
  std::optional<Message> got() const {
    for (auto frame = sent.rbegin(); frame != sent.rend(); ++frame)
      if (frame->type == Message::type) return wire::from_frame<Message>(*frame);
    return std::nullopt;
  }

  std::vector<wire::Frame> sent;
  bool closed = false;
  int resumed = 0;
  std::size_t most_frame = wire::kMaxFrame;

 private:
  wire::Peer peer_;
};

inline SlurmJob slurm_job(JobId id, uid_t uid, std::vector<Holding> holdings, std::string comment = "") {
  SlurmJob result;
  result.id = id;
  result.uid = uid;
  result.comment = std::move(comment);
  result.partition = result.comment.empty() ? "main" : "elastic";
  result.state = SlurmJobState::running;
  result.holdings = std::move(holdings);
  return result;
}

inline void run_job(SlurmSnapshot& slurm, const SlurmJob& job) {
  for (const Holding& held : job.holdings) hold(slurm.cluster, held);
  slurm.jobs[job.id] = job;
}

// The daemon without its sockets. Job 10 of uid 1000 runs on n1/0-1. There are two nodes with four
// GPUs each.
struct Daemon {
  Folder folder;
  std::shared_ptr<SlurmState> slurm_state = std::make_shared<SlurmState>();
  wire::Loop loop;
  SlurmAgent agent{loop, std::make_unique<TestSlurm>(slurm_state)};
  Store store{folder.file("test.db")};
  std::unique_ptr<Planner> planner;
  std::unique_ptr<Gate> gate;

  explicit Daemon(bool shadow = false) {
    spdlog::set_level(spdlog::level::off);
    slurm_state->change([](SlurmSnapshot& slurm) {
      slurm.slurm_user = 64030;
      slurm.cluster.nodes = {node("n1", 4), node("n2", 4)};
      run_job(slurm, slurm_job(10, 1000, {{10, "n1", {0, 1}}}));
    });
    start(shadow);
  }
  void start(bool shadow = false, MakeGrant grant = {}) {
    PlannerSettings settings;
    settings.partition = "elastic";
    settings.poll_seconds = 0.1;
    settings.scheduler.cooldown_seconds = 0;
    settings.scheduler.lambda = 8;
    settings.shadow = shadow;
    settings.grant = std::move(grant);
    gate.reset();
    planner = std::make_unique<Planner>(loop, agent, store, settings);
    gate = std::make_unique<Gate>(*planner, [](const wire::Query&, const wire::Peer&) { return Json::object(); });
  }
  // Changes Slurm's answers and waits until the planner has the new ones. An older question may
  // still be under way.
  template <class Change>
  void slurm_says(Change change) {
    slurm_state->change(change);
    const double since = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    until([&] { return planner->last_snapshot() && planner->last_snapshot()->time > since + slurm_state->ahead; });
  }
  // As slurm_says(), so many seconds later for all that goes by the time of Slurm's answers.
  template <class Change>
  void slurm_says_later(double seconds, Change change) {
    slurm_says([&](SlurmSnapshot& slurm) {
      slurm_state->ahead += seconds;
      change(slurm);
    });
  }
  std::vector<JobId> killed() const {
    const std::lock_guard lock(slurm_state->mutex);
    return slurm_state->killed;
  }
  std::shared_ptr<TestLink> connect(uid_t uid) {
    auto link = std::make_shared<TestLink>(uid);
    gate->welcome(link);
    return link;
  }
  std::shared_ptr<TestLink> launcher(uid_t uid = 1000, int pid = 1) {
    auto link = connect(uid);
    link->says(wire::Register{job(10, "n1", {0, 1}), "n1", pid});
    return link;
  }
  // Runs the loop until `holds` is true, at most 3 s.
  template <class Condition>
  bool until(Condition holds) {
    bool result = false;
    const auto limit = loop.after(std::chrono::milliseconds(3000), [&] { loop.stop(); });
    const auto look = loop.every(std::chrono::milliseconds(2), [&] {
      result = holds();
      if (result) loop.stop();
    });
    loop.run();
    return result;
  }
  int asked() const {
    const std::lock_guard lock(slurm_state->mutex);
    return slurm_state->asked;
  }
  void pass(int milliseconds) {
    const auto limit = loop.after(std::chrono::milliseconds(milliseconds), [&] { loop.stop(); });
    loop.run();
  }
};

// The answer that espalierd gives, whoever in it gives it. Throws Error as they do.
inline Json ask(Daemon& daemon, const wire::Config& config, const wire::Query& query, uid_t uid) {
  Answers answers(*daemon.planner, config);
  const wire::Peer peer{uid, uid, "test"};
  if (!ReadAnswers::answers(query.what)) return answers.answer(query, peer);
  ReadAnswers reader(daemon.folder.file("test.db"));
  return Json::parse(reader.answer(query.what, query.arguments, *daemon.planner->view(), answers.viewer_of(peer)));
}

inline wire::Outcome outcome_of(const Decision& decision, const std::string& result, int generation = 1) {
  wire::Outcome outcome;
  outcome.job = decision.job;
  outcome.decision = decision.id;
  outcome.kind = decision.kind;
  outcome.result = result;
  outcome.generation = generation;
  outcome.step = 50;
  outcome.pause_ms = 12;
  outcome.phases_ms = {{"acquire", 100}};
  outcome.plan = decision.plan;
  return outcome;
}

// The nodes onto which a job of user `uid` grows that has GPU `id` - 11 of `node`.
inline std::set<std::string> nodes_of_growth(Daemon& daemon, JobId id, uid_t uid, const std::string& node) {
  const auto link = daemon.connect(uid);
  link->says(wire::Register{job(id, node, {static_cast<int>(id) - 11}), node, static_cast<int>(id)});
  std::set<std::string> nodes;
  if (!daemon.until([&] { return link->got<wire::Propose>().has_value(); })) return nodes;
  const Decision growth = link->got<wire::Propose>()->decision;
  for (const ExtensionRequest& one : growth.acquire) nodes.insert(one.node);
  link->close();
  return nodes;
}

}  // namespace espalier::test
