#include "tests/sim/history.hpp"

#include <csignal>
#include <cstdio>

#include "launcher/job/launcher.hpp"
#include "planner/core/error.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/event_dispatch.hpp"
#include "tests/sim/faults.hpp"
#include "tests/sim/invariants.hpp"

namespace espalier::sim {
namespace {

History* running = nullptr;

class ModelSlurm final : public Slurm {
 public:
  SlurmSnapshot snapshot() override {
    if (history().slurm_fails) throw Error("Slurm: unable to contact the controller");
    SlurmSnapshot result = history().slurm->snapshot();
    result.time = clock_seconds();
    for (std::size_t n = 0; history().arena && n < result.cluster.nodes.size(); ++n)
      result.cluster.nodes[n].gpu_type = n % 2 == 0 ? "h100" : "a100";
    return result;
  }
  SlurmNames names() override { return {}; }
  void kill(JobId job) override {
    if (history().slurm_fails) throw Error("Slurm: unable to contact the controller");
    history().note([&] { return "slurm: " + std::to_string(job) + " is killed by the planner"; });
    history().training->kill_steps(job);
    history().slurm->give_back(job);
  }
  // Its jobs have no time limits.
  void prolong(JobId job, int) override { throw Error("job " + std::to_string(job) + " has no time limit"); }
};

// `cpus_only`: there is also a node without GPUs.
std::vector<SimNode> small_cluster(Random& random, bool cpus_only) {
  std::vector<SimNode> nodes;
  const int count = (cpus_only ? 3 : 2) + random.below(2);
  for (int n = 1; n <= count; ++n)
    nodes.push_back(
        {"n" + std::to_string(n), std::vector<JobId>(static_cast<std::size_t>(2 + random.below(2)), 0), true});
  if (cpus_only) nodes.insert(nodes.begin(), SimNode{"c1", {}, true});
  return nodes;
}

}  // namespace

History& history() { return *running; }

History::History(std::uint64_t seed, Mutant broken, bool log, bool with_movable, bool with_arena)
    : random(seed), network(timeline, random), mutant(broken), movable(with_movable), arena(with_arena), logging_(log) {
  running = this;
  config.planner_host = kHead;
  config.planner_port = kPlannerPort;
  config.acquire_seconds = 6;
  config.start_seconds = 10;
  config.switch_seconds = 5;
  config.hang_seconds = 20;
  config.kill_wait_seconds = static_cast<int>(SlurmModel::kKillWait);
  config.max_lease_minutes = 1;
  if (random.chance(0.3)) config.heartbeat_seconds = random.real(1, 5);
  if (movable) config.adoption_minutes = 0.6;
  StepEvents events;
  events.completed = [this](JobId job, int generation, std::int64_t step) {
    invariants_->completed(job, generation, step);
  };
  events.start_step = [this](const PartyPtr& rank, JobId step_of, const std::function<void(bool)>& then) {
    call_slurm(rank->node, [this, rank, step_of, then] {
      const bool started = !slurm_fails && slurm->runs_steps(step_of, rank->node);
      timeline.at(timeline.now(), rank, [then, started] { then(started); });
    });
  };
  events.recovered = [this](JobId job, int generation, std::int64_t step, const std::string& from) {
    invariants_->recovered(job, generation, step, from);
  };
  events.keeps = [this](JobId step_of, const std::string& node, const std::string& reader) {
    if (!network.reaches(node, reader)) return false;
    if (holders->keeps(step_of, node)) return true;
    if (const auto at = launchers.find(step_of); at != launchers.end()) return at->second.launcher != nullptr;
    return keepers->keeps(step_of);
  };
  events.kept = [this](JobId step_of, const std::string& node, int generation) {
    if (mutant == Mutant::forgetful_vault && generation < training->newest_committed(step_of)) return false;
    if (holders->keeps(step_of, node)) return holders->kept(step_of, node, generation);
    if (const auto at = launchers.find(step_of); at != launchers.end()) return generation >= at->second.keep.generation;
    return keepers->kept(step_of, generation);
  };
  events.forgotten = [this](JobId job, int generation, std::int64_t left) {
    violate("job " + std::to_string(job) + ": generation " + std::to_string(generation) +
            " left the state after step " + std::to_string(left) + ", and it is not gone on from");
  };
  events.superseded = [this](JobId job, const PartyPtr& launcher) {
    const auto at = launchers.find(job);
    return at != launchers.end() && at->second.party != launcher;
  };
  events.placed = [this](JobId job, const GpuId& gpu, JobId step_of) { invariants_->placed(job, gpu, step_of); };
  training = std::make_unique<Training>(timeline, random, network, mutant, std::move(events));
  training->total_steps = 15 + random.below(200);
  training->heartbeat = config.heartbeat_seconds;
  training->step_seconds = random.real(0.7, 2.5);
  training->by_checkpoint = random.chance(0.15);
  training->needs_network = movable;
  SlurmModel::Hooks hooks;
  hooks.start = [this](const SimJob& job) { slurm_started(job); };
  hooks.signal = [this](const SimJob& job) {
    note([&] { return "slurm: SIGTERM to the steps of " + std::to_string(job.id); });
    if (mutant != Mutant::silent_notice) training->signal_steps(job.id);
    if (job.kind == SimJob::Kind::anchor || job.kind == SimJob::Kind::submitted) signal_launcher(job.id, SIGTERM);
    if (mutant != Mutant::silent_notice && random.chance(0.3)) holders->signal(job.id);
    if (mutant != Mutant::silent_notice && keepers->all().contains(job.id) && random.chance(0.3))
      keepers->signal(job.id);
  };
  hooks.kill = [this](const SimJob& job) { slurm_killed(job); };
  hooks.kill_steps = [this](JobId job) { training->kill_steps(job); };
  hooks.leave_node = [this](JobId job, const std::string& node) { training->kill_steps(job, node); };
  hooks.event = [this](const std::string& text) { datagram(text); };
  slurm = std::make_unique<SlurmModel>(timeline, random, mutant, small_cluster(random, movable), std::move(hooks));
  if (movable && random.chance(0.15)) slurm->longest_boot = 40;
  holders = std::make_unique<Holders>(*this);
  keepers = std::make_unique<Keepers>(*this);
  store_ = std::make_unique<Store>(":memory:");
  invariants_ = std::make_unique<Invariants>(*this);
  faults_ = std::make_unique<Faults>(*this);
  network.loses = [this](const wire::Frame& frame) {
    return mutant == Mutant::lost_withdrawal && frame.type == wire::WithdrawBase::type;
  };
  network.before_send = [this](const PartyPtr& sender) {
    if (crash_in_ > 0 && sender == crash_party_ && --crash_in_ == 0) throw Crash{};
  };
  start_planner();
  const int jobs = 1 + random.below(2);
  for (int i = 0; i < jobs; ++i) {
    SimJob job;
    job.kind = movable && random.chance(0.8) ? SimJob::Kind::submitted : SimJob::Kind::anchor;
    job.gpus = 1 + random.below(2);
    timeline.at(random.real(0, 2), nullptr, [this, job] { slurm->submit(job); });
  }
  for (int i = 0; movable && i < 3; ++i) {  // others hold GPUs at first, so that some bases wait
    SimJob job;
    job.gpus = 1 + random.below(2);
    if (random.chance(0.5)) timeline.at(random.real(0, 1), nullptr, [this, job] { slurm->submit(job); });
  }
  chaos_until_ = random.real(8, movable ? 50 : 30);
  faults_->begin(chaos_until_);
}

History::~History() {
  holders.reset();
  for (auto& one : cut_off_) one.mapped().launcher.reset();
  for (auto& [id, process] : launchers) process.launcher.reset();
  planner_ = {};
  network.drop_all();
  running = nullptr;
}

std::string History::run(long most) {
  while (violation_.empty() && !done_ && timeline.steps() < most && timeline.step()) {
    for (auto& [id, process] : launchers) {
      if (!process.launcher || process.launcher->phase() == process.seen) continue;
      process.seen = process.launcher->phase();
      ++process.changes;
      if (process.seen == JobPhase::recovering) invariants_->generation_lost(id);
    }
    invariants_->after_event();
    faults_->after_event();
  }
  return violation_;
}

void History::violate(const std::string& what) {
  if (!violation_.empty()) return;
  violation_ = what;
  note([&] { return "VIOLATED: " + what; });
}

void History::add_line(const std::string& text) {
  char time[32];
  std::snprintf(time, sizeof time, "%6ld %9.4f  ", timeline.steps(), timeline.now());
  log_.push_back(time + text);
}

Seconds History::call_slurm(const std::string& node, const std::function<void()>& work) {
  Seconds delay = random.chance(0.02) ? random.real(0.01, 1) : random.real(0.001, 0.005);
  if (!slurm->answers()) delay = std::min(10.0, slurm->back_at - timeline.now()) + random.real(0, 0.1);
  timeline.at(timeline.now() + delay, nullptr, [this, node, work] {
    slurm_fails = !slurm->answers() || !network.reaches(node, kHead);
    answer_lost = !slurm_fails && faults_->loses_answer();
    work();
    slurm_fails = answer_lost = false;
  });
  return delay;
}

// ---- the planner

void History::start_planner() {
  note([] { return "planner: starts"; });
  planner_.party = born = std::make_shared<Party>();
  born->name = "planner";
  born->node = kHead;
  born->run = [this](const Callback& event) {
    try {
      event();
    } catch (const Crash&) {
      kill_planner(random.real(0.1, 5));
    } catch (const std::exception& error) {
      violate(std::string("espalierd would have ended with: ") + error.what());
    }
  };
  PlannerSettings settings;
  settings.partition = SlurmModel::kPartition;
  settings.poll_seconds = 4;
  settings.outcome_seconds = config.acquire_seconds + 1.5 * config.start_seconds + config.switch_seconds + 30;
  settings.boundary_seconds = 3.0 * config.hang_seconds;
  settings.scheduler.max_lease_minutes = config.max_lease_minutes;
  settings.scheduler.kill_wait_seconds = config.kill_wait_seconds;
  settings.scheduler.cooldown_seconds = 2;
  settings.scheduler.lambda = 8;
  if (arena) settings.scheduler.arena.emplace();
  planner_.loop = std::make_unique<wire::Loop>();
  planner_.agent = std::make_unique<SlurmAgent>(*planner_.loop, std::make_unique<ModelSlurm>());
  planner_.planner = std::make_unique<Planner>(*planner_.loop, *planner_.agent, *store_, settings);
  planner_.gate =
      std::make_unique<Gate>(*planner_.planner, [](const wire::Query&, const wire::Peer&) { return Json::object(); });
  planner_.listener =
      wire::listen_tcp(*planner_.loop, wire::Door{{wire::Service::planner}, 0, "", {}}, "0.0.0.0", kPlannerPort,
                       [gate = planner_.gate.get()](const wire::ConnectionPtr& link) { gate->welcome(link); });
}

void History::kill_planner(Seconds back_after) {
  if (!planner_.party->alive) return;
  note([] { return "planner: killed"; });
  planner_.party->alive = false;
  network.died(planner_.party, false);
  planner_.listener.reset();
  planner_.gate.reset();
  planner_.planner.reset();
  planner_.agent.reset();
  planner_.loop.reset();
  timeline.at(timeline.now() + back_after, nullptr, [this] { start_planner(); });
}

// A datagram may be lost, come twice, or overtake another.
void History::datagram(const std::string& text) {
  if (random.chance(0.2)) return;
  const int copies = random.chance(0.1) ? 2 : 1;
  for (int i = 0; i < copies; ++i)
    timeline.at(timeline.now() + random.real(0.0001, random.chance(0.2) ? 3 : 0.01), nullptr, [this, text] {
      if (!planner_.party->alive) return;
      timeline.at(timeline.now(), planner_.party,
                  [this, text] { dispatch(wire::parse_event(text), *planner_.planner); });
    });
}

// ---- processes that Slurm starts and kills

void History::slurm_started(const SimJob& job) {
  if (job.kind == SimJob::Kind::anchor || job.kind == SimJob::Kind::submitted) start_launcher(job);
  const SimJob* const of = slurm->find(job.anchor);
  const bool held = job.kind == SimJob::Kind::base || (of != nullptr && of->kind == SimJob::Kind::submitted);
  if (held) return holders->start(job);
  if (job.kind == SimJob::Kind::extension) keepers->start(job);
  if (job.kind == SimJob::Kind::plain)
    timeline.at(timeline.now() + random.real(3, 15), nullptr, [this, id = job.id] { slurm->over(id); });
}

void History::slurm_killed(const SimJob& job) {
  note([&] { return "slurm: " + std::to_string(job.id) + " is ending"; });
  if (movable) {
    for (const Holding& held : job.holdings) kill_on(held.node, job.id, job.restarts);
    return;
  }
  training->kill_steps(job.id);
  if (const auto at = launchers.find(job.id); at != launchers.end()) end_launcher(at->second, false);
  keepers->kill(job.id);
}

// slurmd kills the job's processes when it hears of that: on a node that was cut off, some seconds after it is reached
// again.
void History::kill_on(const std::string& node, JobId job, int restarts) {
  if (!network.reaches(node, kHead)) {
    timeline.at(timeline.now() + random.real(0.2, random.chance(0.3) ? 40 : 1.5), nullptr,
                [this, node, job, restarts] { kill_on(node, job, restarts); });
    return;
  }
  training->kill_steps(job, node);
  const auto end = [&](LauncherProcess& process) {
    if (process.job == job && process.restarts == restarts && process.party->node == node) end_launcher(process, false);
  };
  for (auto& [id, process] : launchers) end(process);
  for (auto& one : cut_off_) end(one.mapped());
  keepers->kill(job);
  holders->kill(job, node);
}

}  // namespace espalier::sim
