// Which room of the launcher hears of what.
#include <spdlog/spdlog.h>

#include "launcher/job/launcher.hpp"
#include "launcher/process/child.hpp"
#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {

// At the end of the job: for a reader of the output that is slow.
constexpr std::chrono::milliseconds kOutputLeaves{10000};

RankServersSettings settings_of(const JobContext& context, const ControlSocket& socket) {
  RankServersSettings servers;
  servers.launcher = context.self;
  if (!context.movable) servers.node = context.node;  // a movable job has no ranks beside its launcher
  servers.anchor = context.job;
  servers.holdings = context.anchor;
  servers.binds_cpus = context.site.binds_cpus;
  servers.environment = socket.job_environment();
  servers.container = context.container;
  servers.heartbeat = std::chrono::milliseconds(static_cast<long>(context.config.heartbeat_seconds * 1000));
  servers.start = std::chrono::seconds(context.config.start_seconds);
  return servers;
}

}  // namespace

Launcher::Launcher(JobContext context, std::function<void(const wire::Keep&)> keep)
    : context_(std::move(context)),
      directory_(work_directory(context_.config), context_.job, context_.step),
      slurm_(loop_),
      socket_(loop_, context_, directory_.path(), of_socket()),
      extensions_(loop_, slurm_, context_, socket_.job_environment(), of_extensions()),
      bases_(loop_, slurm_, context_, socket_.job_environment(), of_bases()),
      rank_servers_(loop_, settings_of(context_, socket_),
                    [this](JobId id) {
                      bases_.noticed(id);
                      if (!context_.movable || id != context_.base) return extensions_.notice(id);
                      base_noticed_ = id;  // its processes have Slurm's KillWait left
                      save_before_base_ends();
                    }),
      gpus_(context_, of_gpus()),
      machine_(loop_, of_machine()),
      deadline_(loop_, context_.config,
                {[this](Event event, const std::string& why) { machine_.raise(event, why); },
                 [this] { return generations_.next() != nullptr && generations_.next()->everyone_said_hello(); }}),
      program_(loop_, context_.config,
               {[this] { return generation_zero_.first_start().done(); },
                [this] {
                  if (program_.data_only()) context_.accuracy = Accuracy::relaxed;
                  set_deadline();
                  tell_continuation();
                  generation_zero_.first_start().told_by_hello();
                },
                [this] { return context_.accuracy_given && context_.accuracy == Accuracy::bitwise; },
                [this](const std::string& why) { machine_.raise(Event::current_failed, why); }}),
      earlier_([this, keep = std::move(keep)](const wire::Keep& what) {
        continuation_due_ = true;  // told once the step or the transition that this is part of is over
        extensions_.keep(what);
        keepers_.keep(what);
        if (keep) keep(what);
      }),
      steps_(loop_, context_.config.hang_seconds,
             [this](const std::string& why) { machine_.raise(Event::current_lost, why); }),
      generations_(loop_, context_, directory_, earlier_, of_generations()),
      generation_zero_(loop_, context_, clean_environment(socket_.environment(0)), program_, generations_,
                       of_generation_zero()),
      hand_off_(context_, generations_, steps_, of_hand_off()),
      notices_(loop_, context_, gpus_, of_notices()),
      recovery_(loop_, context_, generations_, steps_, gpus_, of_recovery()),
      ending_(loop_, of_ending()) {
  if (context_.movable) directory_.claim_job(context_.restarts);  // its steps share bases and vaults
  reports_ = std::make_unique<Reports>(
      loop_, context_, [this] { return state(); }, of_planner());
}

ControlSocket::Callbacks Launcher::of_socket() {
  ControlSocket::Callbacks on;
  on.ending = [this] { return phase() == JobPhase::ending; };
  on.superseded = [this] { return bases_.superseded(); };
  on.worker = [this](const wire::ConnectionPtr& connection, const wire::WorkerHello& worker) {
    World* const world = generations_.of(worker.hello.generation);
    if (world == nullptr)
      throw Error("worker: generation " + std::to_string(worker.hello.generation) + " is not running");
    program_.claim(worker.can);
    world->adopt(connection, worker.hello);
  };
  on.extension_keeper = [this](const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) {
    extensions_.adopt(connection, hello);
  };
  on.anchor_keeper = [this](const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) {
    keepers_.adopt(connection, hello.node,
                   generations_.number() > 0 ? std::optional(earlier_.what_to_keep()) : std::nullopt);
  };
  on.base_keeper = [this](const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) {
    bases_.saw(hello);
    keepers_.adopt(connection, hello.node,
                   generations_.number() > 0 ? std::optional(earlier_.what_to_keep()) : std::nullopt);
  };
  on.rank_server = [this](const wire::ConnectionPtr& connection, const wire::RankServerHello& hello) {
    rank_servers_.adopt(connection, hello);
  };
  return on;
}

Extensions::Callbacks Launcher::of_extensions() {
  Extensions::Callbacks on;
  on.granted = [this] {
    if (phase() == JobPhase::launching) return generation_zero_.first_start().granted();
    hand_off_.note("acquired");
    machine_.raise(program_.restarts() ? Event::granted_restart : Event::granted);
  };
  on.failed = [this](const std::string& why) {
    if (phase() == JobPhase::launching) return generation_zero_.first_start().acquire_failed(why);
    machine_.raise(Event::acquire_failed, why);
  };
  on.noticed = [this](JobId id) {
    spdlog::info("espalier: launch: Slurm takes back extension {}", id);
    if (phase() == JobPhase::running) return notices_.answer();
    if (!hand_off_.under_way()) return;  // committed, launching: looked at when running
    if (!hand_off_.releases(id))
      machine_.raise(Event::notice_breaks, "Slurm takes back extension " + std::to_string(id));
  };
  on.lost = [this](const Holding& holding) { extension_lost(holding); };
  on.released = [this](JobId) { reports_->status(); };
  on.came = [this](JobId id, const ExtensionRequest& request) {
    rank_servers_.serve({request.node, id}, request.gpus);
  };
  on.leaves = [this](JobId id) { rank_servers_.forget(id); };
  return on;
}

Bases::Callbacks Launcher::of_bases() {
  Bases::Callbacks on;
  on.granted = [this](const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes) {
    spdlog::info("espalier: launch: base {} runs; training starts there", holdings.front().job);
    start_on_base(holdings, nodes);
  };
  on.smaller_granted = [this](const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes) {
    spdlog::info("espalier: launch: smaller base {} runs; training starts there, and moves when its base is granted",
                 holdings.front().job);
    smaller_came("committed");
    start_on_base(holdings, nodes);
  };
  on.smaller_failed = [this](const std::string& why) {
    spdlog::info("espalier: launch: the smaller base is withdrawn: {}", why);
    smaller_came("aborted: " + why);
  };
  on.arrived = [this] {
    if (!program_.elastic()) return bases_.give_back_arrived("the program does not speak the worker protocol");
    notices_.answer();
  };
  on.suits = [this](const wire::Continuation& left) {
    return left.restarts < context_.restarts && left.program == context_.program;
  };
  on.taken_over = [this](const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes, const auto& left,
                         const std::vector<SlurmJob>& extensions) {
    context_.base = holdings.front().job;
    context_.anchor = holdings;
    context_.nodes = nodes;
    spdlog::info("espalier: launch: base {} of an earlier launcher is taken over", context_.base);
    reports_->status();
    take_over(left, extensions);
  };
  on.superseded = [this] {
    machine_.raise(Event::current_failed, "Slurm has requeued the job, and its next launcher has the base");
  };
  on.refused = [this](const std::string& why) { machine_.raise(Event::current_failed, why); };
  on.second_granted = [this] {
    hand_off_.note("acquired");
    machine_.raise(program_.restarts() ? Event::granted_restart : Event::granted);
  };
  on.second_failed = [this](const std::string& why) {
    if (phase() == JobPhase::acquiring) return machine_.raise(Event::acquire_failed, why);
    if (hand_off_.under_way()) machine_.raise(Event::notice_breaks, why);
  };
  on.lost = [this](const std::string& why) {
    machine_.raise(Event::current_failed, why + "; submit the job again to go on from its newest checkpoint");
  };
  on.came = [this](const Holding& held) {
    rank_servers_.serve({held.node, held.job}, static_cast<int>(held.gpus.size()));
  };
  on.leaves = [this](JobId id) { rank_servers_.forget(id); };
  on.changed = [this] {
    if (reports_ && phase() != JobPhase::ending) reports_->bases(bases_.held(), bases_.waits());
  };
  return on;
}

PlannerLink::Callbacks Launcher::of_planner() {
  PlannerLink::Callbacks on;
  on.granted = [this](const auto& requests, const auto& grants) { extensions_.admit(requests, grants); };
  on.proposed = [this](const Decision& decision) { propose(decision); };
  on.steered = [this](const wire::SteerBase& steer) { bases_.steer(steer.base, steer.nodes); };
  on.withdrawn = [this](const wire::WithdrawBase& withdraw) {
    const JobPhase now = phase();
    const bool undone = now == JobPhase::acquiring || now == JobPhase::starting || now == JobPhase::ready;
    if (undone && hand_off_.id() == withdraw.decision) bases_.withdraw_second(withdraw.reason);
  };
  on.registered = [this] {
    if (context_.movable) reports_->bases(bases_.held(), bases_.waits());
  };
  on.unplanned = [this](const std::string& reason) { generation_zero_.first_start().no_plan(reason); };
  on.deadline = [this](const wire::DeadlineChecked& checked) {
    generation_zero_.first_start().deadline_checked(checked, context_.restarts > 0 || program_.told().goes_on);
  };
  on.known = [this](const wire::Known& known) { generation_zero_.learn(known); };
  on.unreachable = [this](const std::string& why) {
    generation_zero_.first_start().planner_away();
    spdlog::warn("espalier: launch: planner {}; the job trains on with the GPUs it has until the planner answers", why);
  };
  on.refused = [this](const std::string& why) {
    generation_zero_.first_start().planner_away();
    spdlog::warn("espalier: launch: the planner refuses this launcher: {}; the job runs without elasticity", why);
  };
  return on;
}

HeldGpus::Callbacks Launcher::of_gpus() {
  HeldGpus::Callbacks on;
  on.extensions = [this](bool with_acquired) {
    auto list = extensions_.holdings(with_acquired);
    if (with_acquired)
      for (const Holding& held : bases_.second_holdings()) list.push_back(held);
    return list;
  };
  on.base_before = [this] { return bases_.before_holdings(); };
  on.falters = [this](JobId id) { return extensions_.falters(id); };
  on.node_lost = [this](const std::string& node) { return keepers_.lost(node); };
  on.unfit = [this] { return recovery_.unfit(); };
  on.plan = [this]() -> const Plan& { return generations_.plan(); };
  return on;
}

Machine::Callbacks Launcher::of_machine() {
  Machine::Callbacks on;
  on.leaves = [this](const Row& row, const std::string& why) { note(row, why); };
  on.enters = [this](const Row& row) {
    reports_->transition(wire::Transition{context_.job, wire::unix_seconds(), to_string(row.from), to_string(row.on),
                                          to_string(row.to), generations_.number(), hand_off_.id()});
  };
  on.perform = [this](Action action) { perform(action); };
  on.settles = [this] { settle(); };
  on.quiet = [this] { notices_.answer(); };
  return on;
}

Generations::Callbacks Launcher::of_generations() {
  Generations::Callbacks on;
  on.holdings = [this] { return gpus_.all(true); };
  on.environment = [this](int generation) { return socket_.environment(generation); };
  on.run = [this](const WorldRequest& wanted, RanksCallbacks callbacks) {
    return rank_servers_.run(wanted, std::move(callbacks));
  };
  on.hello = [this](const wire::Hello& hello, bool of_current) { program_.hello(hello, of_current); };
  on.step = [this](const wire::Step& step) { stepped(step); };
  on.profiled = [this](int rank, const wire::Frame& frame) {
    reports_->profiled(frame, rank, generations_.plan(), program_.model());
  };
  on.noticed = [this](JobId extension) { extensions_.notice(extension); };
  on.ready = [this](bool first) {
    hand_off_.note("ready");
    machine_.raise(first ? Event::world_ready : Event::next_ready);
  };
  on.standing = [this] { machine_.raise(Event::old_stands); };
  on.switched = [this] { machine_.raise(Event::old_switched); };
  on.stays = [this](const std::string& why) { machine_.raise(Event::next_failed, why); };
  on.loaded = [this] { machine_.raise(Event::next_loaded); };
  on.finished = [this](bool is_next, int code) {
    if (is_next) return next_lost("it ended with code " + std::to_string(code));
    ending_.finished(code);
    machine_.raise(Event::current_finished);
  };
  on.lost = [this](bool is_next, const Loss& loss) { lost(is_next, loss); };
  on.gone = [this] {
    if (phase() == JobPhase::ending) {
      give_back_own();
      ending_.world_gone();
    }
    machine_.raise(Event::old_gone);
  };
  return on;
}

GenerationZero::Callbacks Launcher::of_generation_zero() {
  GenerationZero::Callbacks on;
  on.phase = [this] { return phase(); };
  on.job = [this] { return state(); };
  on.tell_planner = [this] { reports_->status(); };
  on.acquire = [this](const std::vector<ExtensionRequest>& requests) { extensions_.acquire(requests); };
  on.cancel_acquired = [this] { extensions_.cancel_acquired(); };
  on.granted = [this] { return extensions_.granted(); };
  on.set_deadline = [this] { set_deadline(); };
  on.fails = [this](bool wide, const std::string& why) {
    machine_.raise(wide ? Event::wide_lost : Event::current_failed, why);
  };
  on.report = [this](const wire::Outcome& outcome) { reports_->outcome(outcome); };
  return on;
}

HandOff::Callbacks Launcher::of_hand_off() {
  HandOff::Callbacks on;
  on.held = [this] { return gpus_.all(false); };
  on.granted = [this] {
    auto list = extensions_.granted();
    for (const Holding& held : bases_.second_holdings()) list.push_back(held);
    return list;
  };
  on.hurries = [this] { return !extensions_.noticed().empty(); };
  on.next_lost = [this](const std::string& why) { next_lost(why); };
  on.report = [this](const wire::Outcome& outcome) { reports_->outcome(outcome); };
  return on;
}

Notices::Callbacks Launcher::of_notices() {
  Notices::Callbacks on;
  on.taken = [this] { return extensions_.noticed(); };
  on.base_before = [this] { return base_to_leave(); };
  on.arrived = [this] { return program_.speaks_protocol() ? bases_.arrived_holdings() : std::vector<Holding>(); };
  on.take_arrived = [this] { bases_.take_arrived(); };
  on.unplanned = [this] { bases_.give_back_arrived("no plan fits on it"); };
  on.since = [this](const std::set<JobId>& taken) { return extensions_.since_notice(taken); };
  on.idle = [this] { return machine_.quiet() && !hand_off_.under_way(); };
  on.job = [this] { return state(); };
  on.known = [this]() -> const PlanningBasis& { return generation_zero_.known(); };
  on.needs = [this] { return hand_off_.predicted_seconds(); };
  on.save = [this] { generations_.current()->send_all(wire::Checkpoint{}); };
  on.propose = [this](const Decision& decision) {
    hand_off_.begin(decision);
    machine_.raise(program_.restarts() ? Event::propose_restart : Event::propose_direct);
  };
  return on;
}

Recovery::Callbacks Launcher::of_recovery() {
  Recovery::Callbacks on;
  on.phase = [this] { return phase(); };
  on.job = [this] { return state(); };
  on.known = [this]() -> const PlanningBasis& { return generation_zero_.known(); };
  on.ask = [this](const std::set<JobId>& jobs, const std::function<void(const SlurmAnswer&)>& answer) {
    bases_.look();
    slurm_.post_first([this, context = context_, jobs, answer]() -> std::function<void()> {
      const SlurmAnswer said = ask_slurm(context, jobs);
      return [this, answer, said] {
        if (said.requeued) bases_.supersede();
        else answer(said);
      };
    });
  };
  on.doubt = [this](const std::set<GpuId>& died) { keepers_.doubt(died); };
  on.attempts = [this] {
    set_deadline();
    tell_continuation();
  };
  on.hopeless = [this](const std::string& why) { machine_.raise(Event::unrecoverable, why); };
  on.report = [this](const wire::Outcome& outcome) { reports_->outcome(outcome); };
  return on;
}

Ending::Callbacks Launcher::of_ending() {
  Ending::Callbacks on;
  on.gave_back = [this] { return extensions_.empty() && bases_.empty(); };
  on.leave = [this] {
    slurm_.drain(std::chrono::seconds(1));
    rank_servers_.leave();
  };
  on.left = [this] { return rank_servers_.left(); };
  on.stop = [this] {
    rank_servers_.finish_output(kOutputLeaves);
    loop_.stop();
  };
  return on;
}

}  // namespace espalier::launcher
