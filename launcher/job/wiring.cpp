// Which room of the launcher hears of what: the rooms of what the job holds, and of whom it talks to.
#include <spdlog/spdlog.h>

#include "launcher/job/launcher.hpp"
#include "launcher/job/proposal_check.hpp"
#include "launcher/process/child.hpp"
#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {

RankServersSettings settings_of(const JobContext& context, const ControlSocket& socket) {
  RankServersSettings servers;
  servers.launcher = context.self;
  if (!context.movable) servers.node = context.node;  // a movable job has no ranks beside its launcher
  servers.anchor = context.job;
  servers.holdings = context.anchor;
  servers.binds_cpus = context.site.binds_cpus;
  servers.environment = socket.job_environment();
  if (!context.node_setup.empty()) {
    servers.environment.push_back("ESPALIER_NODE_SETUP=" + context.node_setup);
    servers.environment.push_back("ESPALIER_NODE_SETUP_SECONDS=" + std::to_string(context.config.node_setup_seconds));
  }
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
                      movable_.base_ends(id);
                    }),
      gpus_(context_, of_gpus()),
      machine_(loop_, of_machine()),
      deadline_(loop_, context_.config,
                {[this](Event event, const std::string& why) { machine_.raise(event, why); },
                 [this] { return generations_.next() != nullptr && generations_.next()->workers().all_there(); }}),
      program_(loop_, context_.config,
               {[this] { return generation_zero_.first_start().done(); },
                [this] {
                  if (program_.data_only()) context_.accuracy = Accuracy::relaxed;
                  set_deadline();
                  movable_.tell_keepers();
                  generation_zero_.first_start().told_by_hello();
                },
                [this] { return context_.accuracy_given && context_.accuracy == Accuracy::bitwise; },
                [this](const std::string& why) { machine_.raise(Event::current_failed, why); }}),
      earlier_([this, keep = std::move(keep)](const wire::Keep& what) {
        movable_.tell_keepers_later();  // once the step or the transition that this is part of is over
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
      ending_(loop_, of_ending()),
      list_search_(loop_, context_.job, of_list_search()),
      movable_({context_, bases_, keepers_, extensions_, rank_servers_, program_, generations_, generation_zero_},
               of_movable()),
      losses_({machine_, generations_, earlier_, generation_zero_, hand_off_, recovery_, ending_, list_search_}),
      actions_({context_, machine_, deadline_, program_, extensions_, bases_, keepers_, gpus_, generations_,
                generation_zero_, hand_off_, notices_, recovery_, movable_, ending_, list_search_, reports_},
               began_) {
  if (context_.movable) directory_.claim_job(context_.restarts);  // its steps share bases and vaults
  reports_ = std::make_unique<Reports>(
      loop_, context_, [this] { return state(); }, of_planner());
}

ControlSocket::Callbacks Launcher::of_socket() {
  ControlSocket::Callbacks on;
  on.ending = [this] { return phase() == JobPhase::ending; };
  on.superseded = [this] { return bases_.next_launcher().there(); };
  on.worker = [this](const wire::ConnectionPtr& connection, const wire::WorkerHello& worker) {
    World* const world = generations_.of(worker.hello.generation);
    if (world == nullptr)
      throw Error("worker: generation " + std::to_string(worker.hello.generation) + " is not running");
    program_.claim(worker.can);
    world->adopt(connection, worker.hello, worker.can.in_place);
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
  on.lost = [this](const Holding& holding) { losses_.of_extension(holding); };
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
    movable_.start_on(holdings, nodes);
  };
  on.smaller_granted = [this](const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes) {
    spdlog::info("espalier: launch: smaller base {} runs; training starts there, and moves when its base is granted",
                 holdings.front().job);
    movable_.smaller_came("committed");
    movable_.start_on(holdings, nodes);
  };
  on.smaller_failed = [this](const std::string& why) {
    spdlog::info("espalier: launch: the smaller base is withdrawn: {}", why);
    movable_.smaller_came("aborted: " + why);
  };
  on.arrived = [this] {
    if (!program_.elastic()) return bases_.first().give_back_arrived("the program does not speak the worker protocol");
    notices_.answer();
  };
  on.suits = [this](const wire::Continuation& left) {
    return left.restarts < context_.restarts && left.program == context_.program;
  };
  on.taken_over = [this](const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes, const auto& left,
                         const std::vector<SlurmJob>& extensions) {
    movable_.take_over(holdings, nodes, left, extensions);
  };
  on.superseded = [this] {
    machine_.raise(Event::current_failed, "Slurm has requeued the job, and its next launcher has the base");
  };
  on.refused = [this](const std::string& why) { machine_.raise(Event::current_failed, why); };
  on.second_granted = [this] {
    if (const std::string why = type_refusal(state(), context_.nodes, bases_.second().nodes()); !why.empty())
      return bases_.second().withdraw(why);
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
  on.granted = [this](const auto& requests, const auto& grants) { extensions_.grants().admit(requests, grants); };
  on.proposed = [this](const Decision& decision) { propose(decision); };
  on.steered = [this](const wire::SteerBase& steer) { bases_.first().steer(steer.base, steer.nodes); };
  on.withdrawn = [this](const wire::WithdrawBase& withdraw) {
    const JobPhase now = phase();
    const bool undone = now == JobPhase::acquiring || now == JobPhase::starting || now == JobPhase::ready;
    if (undone && hand_off_.id() == withdraw.decision) bases_.second().withdraw(withdraw.reason);
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
      for (const Holding& held : bases_.second().holdings()) list.push_back(held);
    return list;
  };
  on.base_before = [this] { return bases_.before_holdings(); };
  on.falters = [this](JobId id) { return extensions_.falters(id); };
  on.node_lost = [this](const std::string& node) { return keepers_.lost(node); };
  on.unfit = [this] { return recovery_.unfit(); };
  on.plan = [this]() -> const Plan& { return generations_.plan(); };
  return on;
}

}  // namespace espalier::launcher
