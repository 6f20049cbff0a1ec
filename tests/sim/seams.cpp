// The product's edges to the outside: the same classes and functions on virtual time and on the model of Slurm. They
// replace planner/wire/{loop,clock,listener,dialler,handshake,side_thread}.cpp,
// launcher/{process/child,process/blocking_thread,node/directory,slurm/slurm,slurm/base_job,world/rank_servers}.cpp and
// planner/daemon/slurm_agent.cpp.
#include <csignal>

#include "launcher/job/launcher.hpp"
#include "launcher/node/directory.hpp"
#include "launcher/process/blocking_thread.hpp"
#include "launcher/process/child.hpp"
#include "launcher/process/description.hpp"
#include "launcher/slurm/base_job.hpp"
#include "launcher/world/rank_servers.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"
#include "planner/wire/handshake.hpp"
#include "planner/wire/side_thread.hpp"
#include "tests/sim/history.hpp"

// Loop keeps a pointer to libevent's base. Here the base is the process that the loop belongs to.
struct event_base {
  espalier::sim::PartyPtr party;
};

namespace espalier::wire {

using sim::history;

namespace {
constexpr double kEpoch = 1.8e9;
}

std::chrono::steady_clock::time_point steady_now() {
  return std::chrono::steady_clock::time_point(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(1000 + history().timeline.now())));
}
double unix_seconds() { return kEpoch + history().timeline.now(); }

// ---- loop

struct Watch::Impl {
  Loop::Callback callback;
  event_base* base = nullptr;
  sim::Seconds period = 0;
  sim::Timeline::Ticket ticket = 0;
  int number = 0;
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (ticket != 0) history().timeline.cancel(ticket);
  }
};

namespace {

// A timer is a little late, so that either of two timers for one moment may be first.
void arm(const std::shared_ptr<Watch::Impl>& impl, sim::Seconds delay) {
  auto& timeline = history().timeline;
  const sim::Seconds late = history().random.real(0, 0.002);
  impl->ticket = timeline.at(timeline.now() + delay + late, impl->base->party, [weak = std::weak_ptr(impl)] {
    const auto self = weak.lock();
    if (!self) return;
    self->ticket = 0;
    const Loop::Callback callback = self->callback;  // the callback may destroy its Watch
    if (self->period > 0) arm(self, self->period);
    callback();
  });
}

sim::Seconds seconds(Loop::Milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

Loop::Loop() : base_(new event_base{history().born}) { base_->party->loop = this; }
Loop::~Loop() { delete base_; }

// The event has been handed to the process already: run() has nothing more to do.
void Loop::run() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}
void Loop::fail(std::exception_ptr failure) { failure_ = std::move(failure); }
void Loop::stop() { base_->party->stopped = stopped_ = true; }

Watch Loop::after(Milliseconds delay, Callback callback) {
  auto impl = std::make_shared<Watch::Impl>();
  impl->callback = std::move(callback);
  impl->base = base_;
  arm(impl, seconds(delay));
  return Watch(std::move(impl));
}
Watch Loop::every(Milliseconds period, Callback callback) {
  auto impl = std::make_shared<Watch::Impl>();
  impl->callback = std::move(callback);
  impl->base = base_;
  impl->period = seconds(period);
  arm(impl, impl->period);
  return Watch(std::move(impl));
}
Watch Loop::on_signal(int number, Callback callback) {
  for (auto& [job, process] : history().launchers)
    if (process.party == base_->party) process.signals.emplace(number, std::move(callback));
  auto impl = std::make_shared<Watch::Impl>();
  return Watch(std::move(impl));
}
// A deferred callback runs at the loop's next turn. Other events of this turn come first.
void Loop::defer(Callback callback) {
  auto& timeline = history().timeline;
  const sim::Seconds turn = history().random.chance(0.1) ? history().random.real(0, 0.001) : 0;
  timeline.at(timeline.now() + turn, base_->party, std::move(callback));
}

// ---- side threads: the work is done at once, its result comes later. The planner's decisions are made on one, so that
// jobs, connections and Slurm have changed when a decision is there.

struct SideThread::Shared {
  sim::PartyPtr party;
  std::size_t waiting = 0;
  sim::Seconds free_at = 0;  // when the work before is done
  bool stopping = false;
};

SideThread::SideThread(Loop& loop, std::size_t most, End, int) : shared_(std::make_shared<Shared>()), most_(most) {
  shared_->party = loop.base()->party;
}
SideThread::~SideThread() { shared_->stopping = true; }
bool SideThread::post(Work work) {
  if (shared_->waiting >= most_) return false;
  ++shared_->waiting;
  auto& timeline = history().timeline;
  auto& random = history().random;
  const sim::Seconds takes = random.chance(0.2) ? random.real(0.05, 3) : random.real(0.0005, 0.01);
  shared_->free_at = std::max(shared_->free_at, timeline.now()) + takes;
  timeline.at(shared_->free_at, shared_->party, [shared = shared_, result = work()] {
    --shared->waiting;
    if (!shared->stopping && result) result();
  });
  return true;
}

// ---- streams

namespace {

class SimListener final : public Listener {
 public:
  SimListener(sim::PartyPtr party, std::uint16_t port) : party_(std::move(party)), port_(port) {}
  ~SimListener() override { history().network.stop_listening(party_, port_); }
  SimListener(const SimListener&) = delete;
  SimListener& operator=(const SimListener&) = delete;
  std::uint16_t port() const override { return port_; }

 private:
  sim::PartyPtr party_;
  std::uint16_t port_;
};

// As planner/wire/dialler.cpp: dials again after every loss, with a growing delay.
class SimDialler final : public Dialler {
 public:
  SimDialler(Loop& loop, std::string host, std::uint16_t port, OnConnection on_connection,
             std::function<void(const std::string&)> on_unreachable)
      : loop_(loop),
        host_(std::move(host)),
        port_(port),
        on_connection_(std::move(on_connection)),
        on_unreachable_(std::move(on_unreachable)) {
    retry_ = loop_.after(Loop::Milliseconds(0), [this] { dial(); });
  }
  SimDialler(const SimDialler&) = delete;
  SimDialler& operator=(const SimDialler&) = delete;
  ~SimDialler() override {
    *alive_ = false;
    if (connection_) connection_->close();
  }
  ConnectionPtr connection() const override { return connection_; }

 private:
  static constexpr Loop::Milliseconds kFirstDelay{200}, kLastDelay{5000};

  void dial() {
    history().network.connect(
        loop_.base()->party, host_, port_, Service::planner,
        [this, alive = alive_](const sim::EndPtr& made) {
          if (*alive) connected(made);
        },
        [this, alive = alive_](const std::string& why) {
          if (*alive) failed(why);
        });
  }
  void connected(const sim::EndPtr& made) {
    connection_ = made;
    connected_at_ = steady_now();
    outage_ = false;
    on_connection_(connection_);
    connection_->on_closed = [this, alive = alive_, theirs = connection_->on_closed](const std::string& why) {
      if (!*alive) return;
      connection_.reset();
      if (steady_now() - connected_at_ > kLastDelay) delay_ = kFirstDelay;
      if (theirs) theirs(why);
      if (*alive) failed(why);
    };
  }
  void failed(const std::string& why) {
    if (!outage_ && on_unreachable_) on_unreachable_(why);
    outage_ = true;
    retry_ = loop_.after(delay_, [this] { dial(); });
    delay_ = std::min(delay_ * 2, kLastDelay);
  }

  Loop& loop_;
  std::string host_;
  std::uint16_t port_;
  OnConnection on_connection_;
  std::function<void(const std::string&)> on_unreachable_;
  ConnectionPtr connection_;
  std::chrono::steady_clock::time_point connected_at_{};
  Watch retry_;
  Loop::Milliseconds delay_ = kFirstDelay;
  bool outage_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

std::unique_ptr<Listener> listen_tcp(Loop& loop, Door, const std::string&, std::uint16_t port,
                                     OnConnection on_connection) {
  const auto party = loop.base()->party;
  history().network.listen(party, port, [on_connection](const sim::EndPtr& end) { on_connection(end); });
  return std::make_unique<SimListener>(party, port);
}
std::unique_ptr<Dialler> dial_tcp(Loop& loop, Caller, const std::string& host, std::uint16_t port,
                                  OnConnection on_connection,
                                  std::function<void(const std::string& why)> on_unreachable) {
  return std::make_unique<SimDialler>(loop, host, port, std::move(on_connection), std::move(on_unreachable));
}

std::string fresh_nonce() {
  std::string text;
  for (int i = 0; i < 32; ++i) text += "0123456789abcdef"[history().random.below(16)];
  return text;
}

}  // namespace espalier::wire

namespace espalier::launcher {

using sim::history;

// ---- rank servers: the model runs a generation's ranks, and the product has a handle of them here

std::vector<std::string> clean_environment(const std::vector<std::string>& extra) { return extra; }
Child::~Child() = default;

namespace {
class SimRanks final : public Ranks {
 public:
  explicit SimRanks(std::shared_ptr<sim::Generation> generation) : generation_(std::move(generation)) {}
  ~SimRanks() override {
    generation_->abandon();
    generation_->signal(SIGKILL);
  }
  SimRanks(const SimRanks&) = delete;
  SimRanks& operator=(const SimRanks&) = delete;
  bool running() const override { return generation_->running(); }
  void signal(int number) const override { generation_->signal(number); }

 private:
  std::shared_ptr<sim::Generation> generation_;
};
}  // namespace

RankServers::RankServers(wire::Loop& loop, RankServersSettings settings, std::function<void(JobId)>)
    : loop_(loop), settings_(std::move(settings)), output_(loop) {}
RankServers::~RankServers() = default;
void RankServers::start() {}
void RankServers::adopt(const wire::ConnectionPtr&, const wire::RankServerHello&) {}
// The server starts as a step, and is tried again where that fails.
void RankServers::serve(const ServerId& id, int gpus) {
  if (!history().movable) return;
  const auto party = loop_.base()->party;
  history().call_slurm(
      party->node, [this, party, id, gpus, submitted = settings_.anchor, place = sim::place_in(settings_.environment)] {
        if (!party->alive) return;
        if (!history().slurm_fails && history().slurm->runs_steps(id.job, id.node))
          return history().holders->served(party, submitted, id.job, id.node, place);
        const sim::SimJob* job = history().slurm->find(id.job);
        if (job == nullptr || job->state == SlurmJobState::ended) return;
        auto& timeline = history().timeline;
        timeline.at(timeline.now() + 1, party, [this, id, gpus] { serve(id, gpus); });
      });
}
void RankServers::withdraw(JobId, const std::set<std::string>&) {}
void RankServers::forget(JobId job) {
  if (history().movable) history().holders->forget(loop_.base()->party, job);
}
std::unique_ptr<Ranks> RankServers::run(const WorldRequest& request, RanksCallbacks callbacks) {
  if (history().disk_full) throw Error("ranks: cannot be started");
  return std::make_unique<SimRanks>(
      history().training->start(loop_.base()->party, settings_.anchor, request, std::move(callbacks)));
}
void RankServers::keep_spares(const std::vector<std::string>&, const std::vector<std::string>&) {}
void RankServers::leave() {}
bool RankServers::left() const { return true; }
void RankServers::finish_output(std::chrono::milliseconds) {}

// ---- the program's description

// A history's programs describe themselves or not; a description may come late or not at all.
bool describes_itself(const std::vector<std::string>& program) { return program.front() == "describes itself"; }
ProgramDescription::ProgramDescription(wire::Loop& loop, std::vector<std::string> program,
                                       const std::vector<std::string>& environment, wire::Loop::Milliseconds limit,
                                       std::function<void(std::optional<wire::Description>)> told)
    : told_(std::move(told)),
      child_(std::make_unique<ChildOutput>(loop, program, environment, Child::Traits{}, 0, limit,
                                           [this](const std::optional<std::string>& text, int) { ended(text); })) {}
ProgramDescription::~ProgramDescription() = default;
void ProgramDescription::ended(const std::optional<std::string>& text) {
  std::optional<wire::Description> description;
  if (text) description = history().training->description();
  std::exchange(told_, nullptr)(std::move(description));
}
ChildOutput::ChildOutput(wire::Loop& loop, const std::vector<std::string>&, const std::vector<std::string>&,
                         Child::Traits, std::size_t most, wire::Loop::Milliseconds limit, Done done)
    : loop_(loop), most_(most), done_(std::move(done)) {
  auto& random = history().random;
  const bool fails = random.chance(0.1);
  const auto takes = fails ? limit : wire::Loop::Milliseconds(random.below(static_cast<int>(limit.count())));
  limit_ = loop.after(takes, [this, fails] {
    std::exchange(done_, nullptr)(fails ? std::nullopt : std::optional<std::string>(""), 0);
  });
}
ChildOutput::~ChildOutput() = default;

// ---- the scratch directory

std::filesystem::path work_directory(const wire::Config&) { return "/sim"; }
Directory::Directory(const std::filesystem::path& base, JobId job, unsigned) : path_(base / std::to_string(job)) {}
void Directory::claim_job(int) {}
Directory::~Directory() = default;
std::filesystem::path Directory::generation(int number) const {
  if (history().disk_full) throw Error("the disk is full");
  return path_ / ("g" + std::to_string(number));
}
void Directory::remove_generation(int) const {}

// ---- libslurm

namespace {
void reach_slurmctld() {
  if (history().slurm_fails) throw Error("slurm: unable to contact the controller");
}
}  // namespace

std::optional<SlurmJob> load_job(JobId id) {
  reach_slurmctld();
  const sim::SimJob* job = history().slurm->find(id);
  if (job == nullptr || (job->state == SlurmJobState::ended && history().timeline.now() - job->ended > 5))
    return std::nullopt;
  SlurmJob result;
  result.id = id;
  result.state = static_cast<SlurmJob::State>(job->state);
  result.comment = job->comment;
  result.holdings = job->holdings;
  result.preempted = history().slurm->tells_preemption(*job);
  result.restarts = job->restarts;
  result.runs_again = job->runs_again;
  result.cpus = job->nodes;
  if (job->kind == sim::SimJob::Kind::submitted) result.holdings.clear();
  if (job->kind != sim::SimJob::Kind::base) return result;
  result.configuring = job->state == SlurmJobState::running && history().timeline.now() < job->configured;
  result.wanted_nodes = job->nodes;
  result.wanted_gpus_per_node = job->gpus;
  result.excluded = job->excluded;
  return result;
}
std::map<JobId, SlurmJob> load_jobs(const std::set<JobId>& ids) {
  std::map<JobId, SlurmJob> found;
  for (const JobId id : ids)
    if (auto job = load_job(id)) found.emplace(id, std::move(*job));
  return found;
}

std::optional<int> idle_gpus(const std::string& node) {
  reach_slurmctld();
  for (const sim::SimNode& one : history().slurm->nodes())
    if (one.name == node) return static_cast<int>(std::count(one.owner.begin(), one.owner.end(), JobId{0}));
  throw Error("slurm: node " + node + " is not known");
}

namespace {
// A launcher may have given the change up while slurmctld was away. Then it must not submit what was to be for it.
void check_wanted(JobId anchor) {
  const auto at = history().launchers.find(anchor);
  const sim::SimJob* const job = history().slurm->find(anchor);
  if (at == history().launchers.end() || !at->second.launcher || job == nullptr || job->restarts > 0) return;
  const JobPhase phase = at->second.launcher->phase();
  if (phase != JobPhase::acquiring && phase != JobPhase::launching)
    history().violate("job " + std::to_string(anchor) + ": submits an extension in state " + to_string(phase));
}
}  // namespace

JobId submit_extension(const ExtensionJob& job) {
  reach_slurmctld();
  check_wanted(job.anchor);
  const JobId id = history().slurm->submit_extension(job);
  history().note([&] {
    return "slurm: extension " + std::to_string(id) + " of " + std::to_string(job.request.gpus) + " GPUs on " +
           job.request.node + " submitted" + (history().answer_lost ? ", the answer is lost" : "");
  });
  if (history().answer_lost) throw Error("slurm: socket timed out");
  return id;
}

int kill_steps(JobId id, std::optional<std::uint32_t>) {
  reach_slurmctld();
  history().training->kill_steps(id);
  return 0;
}

void give_back(JobId id, std::optional<std::uint32_t>) {
  reach_slurmctld();
  history().note([&] { return "slurm: " + std::to_string(id) + " is given back by its launcher"; });
  history().slurm->give_back(id);
}

SlurmSite load_site(const std::string&) { return {}; }
std::vector<NodeView> load_nodes(const std::vector<std::string>& names) {
  if (!history().movable) return {};
  reach_slurmctld();
  std::vector<NodeView> nodes;
  for (const sim::SimNode& one : history().slurm->nodes()) {
    if (std::find(names.begin(), names.end(), one.name) == names.end()) continue;
    NodeView view;
    view.name = one.name;
    view.gpu_type = "h100";
    view.gpu_owner.assign(one.owner.size(), 0);
    nodes.push_back(std::move(view));
  }
  return nodes;
}

// ---- bases of movable jobs

std::vector<NodeCapacity> partition_nodes(const std::string&) {
  reach_slurmctld();
  std::vector<NodeCapacity> nodes;
  for (const sim::SimNode& one : history().slurm->nodes())
    nodes.push_back({one.name, one.owner.empty() ? "" : "h100", static_cast<int>(one.owner.size()), 64, 64000});
  return nodes;
}

void keep_within(const SlurmJob&, std::time_t) {}  // its jobs have no time limits
long partition_minutes(const std::string&) { return 0; }
void exclude_nodes(JobId id, const std::vector<std::string>& nodes) {
  reach_slurmctld();
  history().slurm->exclude(id, nodes);
  history().note([&] { return "slurm: base " + std::to_string(id) + " may get other nodes now"; });
  if (history().answer_lost) throw Error("slurm: socket timed out");
}

JobId submit_base(const BaseJob& job) {
  reach_slurmctld();
  const JobId id = history().slurm->submit_base(job);
  history().note([&] {
    return "slurm: base " + std::to_string(id) + " of " + std::to_string(job.shape.nodes) + " x " +
           std::to_string(job.shape.gpus_per_node) + " GPUs submitted" +
           (history().answer_lost ? ", the answer is lost" : "");
  });
  if (history().answer_lost) throw Error("slurm: socket timed out");
  return id;
}

std::string base_comment(JobId submitted, const std::string& nonce) {
  return "espalier:base:" + std::to_string(submitted) + ":" + nonce;
}

namespace {
std::vector<SlurmJob> marked(JobId submitted, sim::SimJob::Kind kind) {
  reach_slurmctld();
  std::vector<SlurmJob> jobs;
  for (const JobId id : history().slurm->marked(submitted, kind))
    if (auto job = load_job(id)) jobs.push_back(std::move(*job));
  return jobs;
}
}  // namespace

std::vector<SlurmJob> bases_of(JobId submitted) { return marked(submitted, sim::SimJob::Kind::base); }
std::vector<SlurmJob> extensions_of(JobId submitted) { return marked(submitted, sim::SimJob::Kind::extension); }

// ---- the launcher's thread for Slurm: one call after the other, each takes its time

namespace {
std::map<const void*, sim::PartyPtr>& callers() {
  static std::map<const void*, sim::PartyPtr> parties;
  return parties;
}
}  // namespace

BlockingThread::BlockingThread(wire::Loop& loop) : shared_(std::make_shared<Shared>()) {
  callers()[shared_.get()] = loop.base()->party;
}
BlockingThread::~BlockingThread() {
  shared_->stop = true;
  // The process was killed. slurmctld may still carry out the call that was in progress.
  if (shared_->busy && !shared_->work.empty() && history().slurm->answers() && history().random.chance(0.5))
    shared_->work.front()();
  shared_->work.clear();
  callers().erase(shared_.get());
}
void BlockingThread::post(std::function<std::function<void()>()> work) {
  shared_->work.push_back(std::move(work));
  serve(shared_);
}
void BlockingThread::post_first(std::function<std::function<void()>()> work) {
  const bool behind = shared_->busy && !shared_->work.empty();
  shared_->work.insert(shared_->work.begin() + (behind ? 1 : 0), std::move(work));
  serve(shared_);
}
bool BlockingThread::drain(std::chrono::milliseconds) {
  const auto work = std::exchange(shared_->work, {});
  if (!history().slurm->answers()) return work.empty();
  for (const auto& one : work) one();
  return true;
}
void BlockingThread::serve(const std::shared_ptr<Shared>& shared) {
  if (shared->busy || shared->stop || shared->work.empty()) return;
  shared->busy = true;
  const auto party = callers().at(shared.get());
  history().call_slurm(party->node, [shared, party] {
    shared->busy = false;
    if (shared->stop || shared->work.empty()) return;
    const auto work = std::move(shared->work.front());
    shared->work.pop_front();
    const auto result = work();
    auto& timeline = history().timeline;
    if (result) timeline.at(timeline.now() + history().random.real(0, 0.003), party, result);
    serve(shared);
  });
}

}  // namespace espalier::launcher

namespace espalier {

using sim::history;

// ---- the daemon's side

struct SlurmAgent::Shared {
  using Done = std::function<void()>;
  std::unique_ptr<Slurm> slurm;
  sim::PartyPtr party;
  std::deque<std::function<Done(Slurm&)>> work;
  bool busy = false, stopped = false;

  static void serve(const std::shared_ptr<Shared>& shared) {
    if (shared->busy || shared->stopped || shared->work.empty()) return;
    shared->busy = true;
    history().call_slurm(shared->party->node, [shared] {
      shared->busy = false;
      if (shared->stopped || shared->work.empty()) return;
      const auto work = std::move(shared->work.front());
      shared->work.pop_front();
      const Done done = work(*shared->slurm);
      auto& timeline = history().timeline;
      timeline.at(timeline.now() + history().random.real(0, 0.003), shared->party, [shared, done] {
        if (!shared->stopped) done();
      });
      serve(shared);
    });
  }
};

SlurmAgent::SlurmAgent(wire::Loop& loop, std::unique_ptr<Slurm> slurm) : shared_(std::make_shared<Shared>()) {
  shared_->slurm = std::move(slurm);
  shared_->party = loop.base()->party;
}
SlurmAgent::~SlurmAgent() { stop(); }
bool SlurmAgent::stop() {
  shared_->stopped = true;
  shared_->work.clear();
  return true;
}
void SlurmAgent::request(std::function<std::function<void()>(Slurm&)> work) {
  shared_->work.push_back(std::move(work));
  Shared::serve(shared_);
}
void SlurmAgent::snapshot(OnSnapshot done) {
  request([done = std::move(done)](Slurm& slurm) -> std::function<void()> {
    auto result = std::make_shared<Snapshot>();
    try {
      *result = slurm.snapshot();
    } catch (const Error& error) {
      *result = std::string(error.what());
    }
    return [done, result] { done(std::move(*result)); };
  });
}
void SlurmAgent::act(std::function<void(Slurm&)> act, OnDone done) {
  request([act = std::move(act), done = std::move(done)](Slurm& slurm) -> std::function<void()> {
    std::string error;
    try {
      act(slurm);
    } catch (const Error& problem) {
      error = problem.what();
    }
    return [done, error] { done(error); };
  });
}
void SlurmAgent::kill(JobId job, OnDone done) {
  act([job](Slurm& slurm) { slurm.kill(job); }, std::move(done));
}
void SlurmAgent::prolong(JobId job, int minutes, OnDone done) {
  act([job, minutes](Slurm& slurm) { slurm.prolong(job, minutes); }, std::move(done));
}

}  // namespace espalier
