// The event side: sockets, workers, the planner, Slurm's notices. The actions are in actions.cpp.
#include "launcher/job/launcher.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "launcher/job/holdings.hpp"
#include "launcher/process/child.hpp"
#include "planner/core/error.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/wire/clock.hpp"
#include "planner/wire/handshake.hpp"

namespace espalier::launcher {

Launcher::Launcher(JobContext context, std::function<void(const wire::Keep&)> keep)
    : context_(std::move(context)),
      directory_(work_directory(context_.config), context_.job, context_.step),
      token_(wire::fresh_nonce()),
      slurm_(loop_),
      keep_(std::move(keep)) {
  listen();
  Extensions::Callbacks on;
  on.granted = [this] {
    change_->at["acquired"] = wire::steady_now();
    raise(restarts() ? Event::granted_restart : Event::granted);
  };
  on.failed = [this](const std::string& why) { raise(Event::acquire_failed, why); };
  on.noticed = [this](JobId id) { noticed(id); };
  on.lost = [this](const Holding& holding) { extension_lost(holding); };
  on.released = [this](JobId) { planner_->report(wire::Status{state()}); };
  on.came = [this](JobId id, const ExtensionRequest& request) {
    rank_servers_->serve({request.node, id}, request.gpus);
  };
  on.leaves = [this](JobId id) { rank_servers_->forget(id); };
  extensions_ = std::make_unique<Extensions>(loop_, slurm_, context_, environment(0), on);
  RankServersSettings servers;
  servers.launcher = context_.self;
  servers.node = context_.node;
  servers.anchor = context_.job;
  servers.holdings = context_.anchor;
  servers.binds_cpus = context_.site.binds_cpus;
  servers.environment = environment(0);
  servers.token = token_;
  servers.heartbeat = std::chrono::milliseconds(static_cast<long>(context_.config.heartbeat_seconds * 1000));
  servers.start = std::chrono::seconds(context_.config.start_seconds);
  rank_servers_ =
      std::make_unique<RankServers>(loop_, std::move(servers), [this](JobId id) { extensions_->notice(id); });
  PlannerLink::Callbacks planner;
  planner.state = [this] {
    ElasticJob job = state();
    job.profile = profiles_.newest();
    return job;
  };
  planner.proposed = [this](const Decision& decision) { propose(decision); };
  planner.unreachable = [this](const std::string& why) {
    spdlog::warn("espalier: launch: planner {}; the job trains on with the GPUs it has until the planner answers", why);
  };
  planner.refused = [this](const std::string& why) {
    spdlog::warn("espalier: launch: the planner refuses this launcher: {}; the job runs without elasticity", why);
  };
  planner_ = std::make_unique<PlannerLink>(loop_, context_.config.planner_host, context_.config.planner_port,
                                           context_.site.planner_uids, std::move(planner));
}

Launcher::~Launcher() = default;

void Launcher::listen() {
  address_ = own_address(context_.config.network, context_.node);
  std::string why;
  // On every interface: keepers of the anchor know this node by its name only.
  for (const std::uint16_t port : launcher_ports(context_.job, context_.step)) {
    try {
      listener_ = wire::listen_tcp(loop_, wire::Service::launcher, "0.0.0.0", port,
                                   [this](const wire::ConnectionPtr& made) { incoming(made); });
      return;
    } catch (const Error& error) {
      why = error.what();
    }
  }
  throw Error("control socket: no free port: " + why);
}

std::vector<std::string> Launcher::environment(int generation) const {
  std::vector<std::string> list{
      "ESPALIER_LAUNCHER=" + address_ + ":" + std::to_string(listener_->port()),
      "ESPALIER_TOKEN=" + token_,
      "ESPALIER_GENERATION=" + std::to_string(generation),
      "ESPALIER_DIRECTORY=" + (directory_.path() / ("g" + std::to_string(generation))).string(),
      "ESPALIER_ANCHOR=" + std::to_string(context_.job),
      "ESPALIER_ACTIVE=" + std::to_string(context_.job),  // the plugin leaves nested steps alone
      "ESPALIER_VAULT=" + vault_prefix(context_.job, context_.step),
      "ESPALIER_HEARTBEAT=" + std::to_string(context_.config.heartbeat_seconds)};
  if (context_.site.binds_cpus) list.emplace_back("ESPALIER_CPU_BIND=none");
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "SLURM_CONF", "ESPALIER_CONF", "HOME", "USER"})
    if (const char* value = std::getenv(name); value != nullptr) list.push_back(std::string(name) + "=" + value);
  return list;
}

void Launcher::incoming(const wire::ConnectionPtr& connection) {
  if (connection->peer().uid != ::getuid()) {
    connection->send(wire::Refused{"this job belongs to another user"});
    connection->close();
    return;
  }
  connection->on_frame = [this, connection](const wire::Frame& frame) {
    try {
      if (frame.type == wire::Hello::type) greet_worker(connection, wire::from_frame<wire::Hello>(frame));
      else if (frame.type == wire::KeeperHello::type)
        greet_keeper(connection, wire::from_frame<wire::KeeperHello>(frame));
      else if (frame.type == wire::RankServerHello::type)
        rank_servers_->adopt(connection, wire::from_frame<wire::RankServerHello>(frame));
      else throw Error("message " + frame.type + ": a hello is expected first");
    } catch (const Error& error) {
      connection->send(wire::Refused{error.what()});
      connection->close();
    }
  };
  // The closure above must not keep a closed connection alive.
  connection->on_closed = [raw = connection.get()](const std::string&) { raw->on_frame = nullptr; };
}

void Launcher::greet_worker(const wire::ConnectionPtr& connection, const wire::Hello& hello) {
  if (hello.token != token_) throw Error("worker: its token is not this job's");
  if (phase_ == JobPhase::ending) throw Error("worker: the job is ending");
  World* const world = world_of(hello.generation);
  if (world == nullptr) throw Error("worker: generation " + std::to_string(hello.generation) + " is not running");
  world->adopt(connection, hello);
}

World* Launcher::world_of(int generation) const {
  for (World* world : {next_.get(), current_.get()})
    if (world != nullptr && world->generation() == generation) return world;
  return nullptr;
}

void Launcher::greet_keeper(const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) {
  if (hello.extension) {
    if (hello.token != token_) throw Error("keeper: its token is not this job's");
    extensions_->adopt(connection, hello);
    return;
  }
  if (hello.job != context_.job) throw Error("keeper: job " + std::to_string(hello.job) + " is not this launcher's");
  if (!hello.token.empty() && hello.token != token_) throw Error("keeper: its token is not this job's");
  if (std::none_of(context_.anchor.begin(), context_.anchor.end(),
                   [&](const Holding& own) { return own.node == hello.node; }))
    throw Error("keeper: " + hello.node + " is no node of this job's own");
  if (phase_ == JobPhase::ending) return connection->send(wire::GiveBack{});
  // In the place of one that was lost there.
  auto at = std::find_if(anchor_keepers_.begin(), anchor_keepers_.end(),
                         [&](const AnchorKeeper& keeper) { return keeper.node == hello.node && !keeper.connection; });
  if (at == anchor_keepers_.end()) at = anchor_keepers_.emplace(at);
  *at = {hello.node, connection, 0};
  const auto place = static_cast<std::size_t>(at - anchor_keepers_.begin());
  connection->on_frame = [this, place](const wire::Frame&) {
    anchor_keepers_[place].missed = 0;
    lost_nodes_.erase(anchor_keepers_[place].node);
  };
  connection->on_closed = [this, place](const std::string&) { anchor_keepers_[place].connection.reset(); };
  connection->send(wire::Heartbeat{});                    // it has found the right one
  if (generation_ > 0) connection->send(what_to_keep());  // what is older was let go while it was away
}

void Launcher::first_hello(const wire::Hello& hello) {
  if (speaks_protocol_) {
    if (!(hello.model == model_) && current_ && hello.generation == current_->generation())
      spdlog::warn("espalier: launch: rank {} was configured with another model than rank 0", hello.rank);
    return;
  }
  speaks_protocol_ = true;
  protocol_deadline_.reset();
  model_ = hello.model;
  handoff_ = hello.handoff;
  has_spares_ = hello.spare && context_.config.spares;
  total_steps_ = hello.total_steps;
  const auto gpus = context_.anchor_gpus();
  try {
    plan_ =
        uniform_plan(static_cast<int>(gpus.size()), 1, model_.layers, model_.global_batch, model_.micro_batches, gpus);
  } catch (const Error& error) {
    return raise(Event::current_failed, error.what());
  }
  set_deadline(phase_);
  loop_.defer([this] {
    if (current_) current_->assign(plan_, std::nullopt, context_.accuracy);
  });
}

void Launcher::no_protocol() {
  elastic_ = false;
  spdlog::warn(
      "espalier: launch: the program did not say hello within {} s (does it speak Espalier's worker protocol?); "
      "it runs on its first allocation, without elasticity",
      context_.config.protocol_seconds);
}

void Launcher::propose(const Decision& decision) {
  const auto refusal = refuse(decision);
  if (!refusal) {
    change_ = Change{decision, {{"proposed", wire::steady_now()}}, "", 0};
    if (!decision.acquire.empty()) return raise(Event::propose_acquire);
    return raise(restarts() ? Event::propose_restart : Event::propose_direct);
  }
  wire::Outcome outcome;
  outcome.job = context_.job;
  outcome.decision = decision.id;
  outcome.kind = decision.kind;
  outcome.result = "aborted: " + *refusal;
  outcome.generation = generation_;
  outcome.step = step_;
  outcome.plan = plan_;
  planner_->report_outcome(outcome);
}

std::optional<std::string> Launcher::refuse(const Decision& decision) const {
  if (!elastic_ || !speaks_protocol_) return "the job runs without elasticity";
  if (phase_ != JobPhase::running || change_ || !events_.empty()) return "busy: " + to_string(phase_);
  if (decision.job != context_.job) return "it is for job " + std::to_string(decision.job);
  if (const auto broken = validate(decision.plan, model_.layers); !broken.empty())
    return "invalid plan: " + broken.front();
  if (decision.plan.global_batch != model_.global_batch) return "invalid plan: the global batch must not change";
  if (decision.plan.gpu_count() > context_.max_gpus) return "the plan exceeds the job's maximum";
  const auto unfit = faults_.unfit(wire::steady_now());
  const auto present = plan_.ranks();
  for (const GpuId& gpu : decision.plan.ranks())  // a shrink may have no others
    if (decision.kind != DecisionKind::shrink && unfit.contains(gpu) &&
        std::find(present.begin(), present.end(), gpu) == present.end())
      return "workers have died on GPU " + std::to_string(gpu.index) + " of " + gpu.node + " again and again";
  const auto anchor = own_holdings();
  if (anchor.empty() || decision.plan.ranks().front() != GpuId{anchor.front().node, anchor.front().gpus.front()})
    return "invalid plan: rank 0 must stay on the anchor's first GPU";
  std::map<std::string, int> wanted;
  for (const ExtensionRequest& request : decision.acquire) {
    if (request.gpus < 1 || request.node.empty()) return "invalid extension request";
    wanted[request.node] += request.gpus;
  }
  for (const JobId id : decision.release)
    if (!extensions_->known(id)) return "extension " + std::to_string(id) + " is not this job's";
  return std::nullopt;
}

void Launcher::noticed(JobId extension) {
  spdlog::info("espalier: launch: Slurm takes back extension {}", extension);
  if (phase_ == JobPhase::running) return answer_notices();
  if (!change_) return;  // committed, launching: looked at when running
  if (!leaves(extension)) raise(Event::notice_breaks, "Slurm takes back extension " + std::to_string(extension));
}

bool Launcher::leaves(JobId extension) const {
  const auto& released = change_->decision.release;
  return std::find(released.begin(), released.end(), extension) != released.end();
}

void Launcher::answer_notices() {
  const std::set<JobId> taken = extensions_->noticed();
  if (taken.empty() || retry_notices_ || change_ || phase_ != JobPhase::running || !events_.empty()) return;
  if (too_late_for(taken)) return;
  Decision decision;
  decision.kind = DecisionKind::shrink;
  decision.job = context_.job;
  decision.reason = "Slurm takes extensions back";
  std::set<GpuId> lost;
  for (const Holding& holding : all_holdings(false))
    if (taken.contains(holding.job))
      for (const int index : holding.gpus) lost.insert({holding.node, index});
  std::vector<GpuId> kept;
  for (const GpuId& gpu : plan_.ranks())
    if (!lost.contains(gpu)) kept.push_back(gpu);
  if (kept.empty())
    for (const Holding& holding : own_holdings())
      for (const int index : holding.gpus) kept.push_back({holding.node, index});
  kept = with_lead(std::move(kept), own_holdings());
  const auto plan = plan_on_subset(state(), kept);
  if (!plan) {
    spdlog::error("espalier: launch: no plan fits on the {} GPUs that remain; the job ends when Slurm takes the others",
                  kept.size());
    return;
  }
  decision.plan = *plan;
  decision.release = leaving(*plan, extensions_->holdings(false), taken);
  change_ = Change{decision, {{"proposed", wire::steady_now()}}, "", 0};
  raise(restarts() ? Event::propose_restart : Event::propose_direct);
}

// A change-over that Slurm would cut short costs the state of the GPUs that go, and time: then only a checkpoint is
// asked for, and when the GPUs are gone the job goes on as after any loss.
bool Launcher::too_late_for(const std::set<JobId>& taken) {
  const auto grace = grace_seconds(context_.site, context_.config.partition);
  if (!grace) return false;
  measured_.step = step_seconds_;
  const double left = *grace - extensions_->since_notice(taken), needed = predicted_seconds(measured_);
  if (needed <= left) return false;
  if (!std::includes(given_up_.begin(), given_up_.end(), taken.begin(), taken.end())) {
    given_up_.insert(taken.begin(), taken.end());
    spdlog::warn(
        "espalier: launch: a smaller generation would take {:.1f} s, and Slurm takes the GPUs in {:.1f} s: a "
        "checkpoint is asked for (without checkpoint.directory none is written), and the job goes on with fewer GPUs "
        "when they are gone",
        needed, left);
    current_->send_all(wire::Checkpoint{});
  }
  return true;
}

void Launcher::stepped(const wire::Step& step) {
  const auto now = wire::steady_now();
  if (awaiting_first_step_) finish_pause(step.step, step.seconds);
  if (recovery_ && recovery_->taken) finish_recovery("committed");
  last_step_at_ = last_progress_ = now;
  if (has_spares_ && std::exchange(spares_generation_, generation_) != generation_)
    rank_servers_->keep_spares(context_.program, clean_environment(environment(generation_)));
  step_ = step.step;
  let_go(step);
  last_step_seconds_ = step.seconds;
  // A moving average that forgets the first, slower steps of a generation quickly.
  step_seconds_ = step_seconds_ == 0 ? step.seconds : 0.7 * step_seconds_ + 0.3 * step.seconds;
  if (now - last_status_ >= std::chrono::seconds(1)) {
    last_status_ = now;
    ElasticJob job = state();
    job.profile = profiles_.untold();
    planner_->report(wire::Status{std::move(job)});
  }
}

std::vector<Holding> Launcher::all_holdings(bool with_acquired) const {
  std::vector<Holding> list = context_.anchor;
  const auto more = extensions_->holdings(with_acquired);
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

// The anchor's GPUs that can be used; the unfit too when there are no others, since a job must be able to give back all
// that it was lent.
std::vector<Holding> Launcher::own_holdings() const {
  auto own = usable(context_.anchor);
  if (!own.empty()) return own;
  std::copy_if(context_.anchor.begin(), context_.anchor.end(), std::back_inserter(own),
               [this](const Holding& holding) { return !is_lost(holding); });
  return own;
}

ElasticJob Launcher::state() const {
  ElasticJob job;
  job.id = context_.job;
  job.uid = ::getuid();
  job.name = context_.name;
  job.min_gpus = context_.min_gpus;
  job.max_gpus = elastic_ ? context_.max_gpus : static_cast<int>(context_.anchor_gpus().size());
  job.accuracy = context_.accuracy;
  job.model = model_;
  if (!plan_.stages.empty()) job.plan = plan_;
  job.generation = generation_;
  job.phase = phase_;
  job.anchor = own_holdings();
  if (extensions_) job.extensions = usable(extensions_->holdings(true));
  job.step_seconds = step_seconds_;
  job.step = step_;
  job.total_steps = total_steps_;
  const auto unfit = faults_.unfit(wire::steady_now());
  job.unfit.assign(unfit.begin(), unfit.end());
  return job;
}

void Launcher::start() {
  // Generation 0: the anchor's GPUs, one rank each. The plan follows when the workers have told the model's shape.
  Plan first;
  for (const GpuId& gpu : context_.anchor_gpus()) first.stages.push_back({1, 1, {{1, {gpu}}}});
  if (first.stages.empty())
    throw Error("job " + std::to_string(context_.job) + ": has no GPUs; ask for some, e.g. --gres=gpu:2");
  started_at_ = wire::steady_now();
  rank_servers_->start();
  current_ = make_world(0, first, true);
  started_ = true;
  protocol_deadline_ = loop_.after(std::chrono::seconds(context_.config.protocol_seconds), [this] {
    if (!speaks_protocol_) no_protocol();
  });
  for (const int number : {SIGUSR1, SIGUSR2})  // the program's business, e.g. sbatch --signal=USR1@300
    forwarded_.push_back(loop_.on_signal(number, [this, number] {
      if (current_) current_->signal(number);
    }));
  heartbeat_ = loop_.every(std::chrono::milliseconds(static_cast<long>(context_.config.heartbeat_seconds * 1000)),
                           [this] { heartbeat(); });
  hangup_ = loop_.on_signal(SIGHUP, [this] { raise(Event::terminate, "SIGHUP"); });
  term_ = loop_.on_signal(SIGTERM, [this] { raise(Event::terminate, "SIGTERM"); });
  interrupt_ = loop_.on_signal(SIGINT, [this] { raise(Event::terminate, "SIGINT"); });
}

bool Launcher::serve() {
  try {
    loop_.run();
    return true;
  } catch (const std::exception& error) {  // generation 0 runs: whatever this is, it must not start over
    if (phase_ == JobPhase::ending) {
      if (exit_code_ == 0) exit_code_ = 1;
      return true;
    }
    raise(Event::current_failed, error.what());
    return false;
  }
}

int Launcher::run() {
  start();
  while (!serve()) {
  }
  return exit_code_;
}

}  // namespace espalier::launcher
