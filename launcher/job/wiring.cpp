// Which room of the launcher hears of what: the rooms of what the job holds, and of whom it talks to.
#include <spdlog/spdlog.h>

#include "launcher/job/launcher.hpp"
#include "launcher/job/proposal_check.hpp"
#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {

// At the end of the job: for a reader of the output that is slow.
constexpr std::chrono::milliseconds kOutputLeaves{10000};

Ending::Callbacks of_ending(Ground& ground, HoldingRooms& holding) {
  Ending::Callbacks on;
  on.gave_back = [&holding] { return holding.extensions.empty() && holding.bases.empty(); };
  on.leave = [&ground, &holding] {
    ground.slurm.drain(std::chrono::seconds(1));
    holding.rank_servers.leave();
  };
  on.left = [&holding] { return holding.rank_servers.left(); };
  on.stop = [&ground, &holding] {
    holding.rank_servers.finish_output(kOutputLeaves);
    ground.loop.stop();
  };
  return on;
}

HandOff::Callbacks of_hand_off(HoldingRooms& holding, TrainingRooms& training, AnswerRooms& answers) {
  HandOff::Callbacks on;
  on.held = [&holding] { return holding.gpus.all(false); };
  on.granted = [&holding] {
    auto list = holding.extensions.granted();
    for (const Holding& held : holding.bases.second().holdings()) list.push_back(held);
    return list;
  };
  on.hurries = [&holding] { return !holding.extensions.noticed().empty(); };
  on.by_disk = [&training] { return through_disk(training.program.handoff()); };
  on.next_lost = [&answers](const std::string& why) { answers.losses.of_next(why); };
  on.report = [&holding](const wire::Outcome& outcome) { holding.reports->outcome(outcome); };
  return on;
}

JobSignals::Callbacks of_signals(HoldingRooms& holding, TrainingRooms& training, AnswerRooms& answers,
                                 Machine& machine) {
  JobSignals::Callbacks on;
  on.pass_on = [&training](int number) {
    if (const World* const current = training.generations.current(); current != nullptr) current->signal(number);
  };
  on.terminate = [&machine](const std::string& name) { machine.raise(Event::terminate, name); };
  on.beat = [&holding, &training, &answers] {
    holding.keepers.beat();
    training.generations.beat();
    answers.last_checkpoint.look(wire::unix_seconds());
  };
  return on;
}

HeldGpus::Callbacks of_gpus(HoldingRooms& holding, TrainingRooms& training, AnswerRooms& answers, Machine& machine) {
  HeldGpus::Callbacks on;
  on.extensions = [&holding](bool with_acquired) {
    auto list = holding.extensions.holdings(with_acquired);
    if (with_acquired)
      for (const Holding& held : holding.bases.second().holdings()) list.push_back(held);
    return list;
  };
  on.base_before = [&holding] { return holding.bases.before_holdings(); };
  on.falters = [&holding](JobId id) { return holding.extensions.falters(id); };
  on.node_lost = [&holding](const std::string& node) { return holding.keepers.lost(node); };
  // Generation 0 is for all GPUs that Slurm gave to the job: its ranks may run there before the job has a plan.
  on.unfit = [&answers, &machine] {
    return machine.phase() == JobPhase::launching ? std::set<GpuId>{} : answers.recovery.unfit();
  };
  on.plan = [&training]() -> const Plan& { return training.generations.plan(); };
  return on;
}

}  // namespace

Launcher::Launcher(JobContext context, std::function<void(const wire::Keep&)> keep)
    : ground_(std::move(context), of_socket()),
      holding_(ground_, {of_extensions(), of_bases(),
                         [this](JobId id) {
                           holding_.bases.noticed(id);
                           if (!ground_.context.movable || id != ground_.context.base)
                             return holding_.extensions.notice(id);
                           answers_.movable.base_ends(id);
                         },
                         of_gpus(holding_, training_, answers_, machine_)}),
      machine_(ground_.loop, of_machine()),
      deadline_(ground_.loop, ground_.context.config,
                {[this](Event event, const std::string& why) { machine_.raise(event, why); },
                 [this] {
                   return training_.generations.next() != nullptr &&
                          training_.generations.next()->workers().all_there();
                 }}),
      training_(ground_,
                {{[this] { return training_.generation_zero.first_start().done(); },
                  [this] {
                    if (training_.program.data_only()) ground_.context.accuracy = Accuracy::relaxed;
                    set_deadline();
                    answers_.movable.tell_keepers();
                    training_.generation_zero.first_start().told_by_hello();
                  },
                  [this] { return ground_.context.accuracy_given && ground_.context.accuracy == Accuracy::bitwise; },
                  [this](const std::string& why) { machine_.raise(Event::current_failed, why); }},
                 [this, keep = std::move(keep)](const wire::Keep& what) {
                   answers_.movable.tell_keepers_later();  // once the step or transition that this is part of is over
                   holding_.extensions.keep(what);
                   holding_.keepers.keep(what);
                   if (keep) keep(what);
                 },
                 [this](const std::string& why) {
                   answers_.lists.lost();
                   machine_.raise(Event::current_lost, why, true);
                 },
                 of_generations(),
                 of_generation_zero(),
                 of_hand_off(holding_, training_, answers_)}),
      answers_(ground_, holding_, training_, machine_, deadline_,
               {of_notices(), of_recovery(), of_ending(ground_, holding_), of_list_search(), of_movable(),
                of_last_checkpoint()}),
      signals_(ground_.loop, of_signals(holding_, training_, answers_, machine_)) {
  // Steps of a job share its GPUs, its name at the planner, and what Slurm lends it.
  ground_.directory.claim_job(ground_.context.restarts);
  holding_.reports = std::make_unique<Reports>(
      ground_.loop, ground_.context, [this] { return state(); }, of_planner());
}

ControlSocket::Callbacks Launcher::of_socket() {
  ControlSocket::Callbacks on;
  on.ending = [this] { return phase() == JobPhase::ending; };
  on.superseded = [this] { return holding_.bases.next_launcher().there(); };
  on.worker = [this](const wire::ConnectionPtr& connection, const wire::WorkerHello& worker) {
    World* const world = training_.generations.of(worker.hello.generation);
    if (world == nullptr)
      throw Error("worker: generation " + std::to_string(worker.hello.generation) + " is not running");
    training_.program.claim(worker.can);
    world->adopt(connection, worker.hello, worker.can);
  };
  on.extension_keeper = [this](const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) {
    holding_.extensions.adopt(connection, hello);
  };
  on.anchor_keeper = [this](const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) {
    holding_.keepers.adopt(
        connection, hello.node,
        training_.generations.number() > 0 ? std::optional(training_.earlier.what_to_keep()) : std::nullopt);
  };
  on.base_keeper = [this](const wire::ConnectionPtr& connection, const wire::KeeperHello& hello) {
    holding_.bases.saw(hello);
    holding_.keepers.adopt(
        connection, hello.node,
        training_.generations.number() > 0 ? std::optional(training_.earlier.what_to_keep()) : std::nullopt,
        [this, base = hello.job] { holding_.bases.noticed(base); });
  };
  on.rank_server = [this](const wire::ConnectionPtr& connection, const wire::RankServerHello& hello) {
    holding_.rank_servers.adopt(connection, hello);
    answers_.faulty_gpus.heard(hello);
  };
  return on;
}

Extensions::Callbacks Launcher::of_extensions() {
  Extensions::Callbacks on;
  on.granted = [this] {
    if (phase() == JobPhase::launching) return training_.generation_zero.first_start().granted();
    training_.hand_off.note("acquired");
    machine_.raise(training_.program.restarts() ? Event::granted_restart : Event::granted);
  };
  on.failed = [this](const std::string& why) {
    if (phase() == JobPhase::launching) return training_.generation_zero.first_start().acquire_failed(why);
    machine_.raise(Event::acquire_failed, why);
  };
  on.noticed = [this](JobId id) {
    spdlog::info("espalier: launch: Slurm takes back extension {}", id);
    if (phase() == JobPhase::running) return answers_.notices.answer();
    if (!training_.hand_off.under_way()) return;  // committed, launching: looked at when running
    if (!training_.hand_off.releases(id))
      machine_.raise(Event::notice_breaks, "Slurm takes back extension " + std::to_string(id));
  };
  on.lost = [this](const Holding& holding) { answers_.losses.of_extension(holding); };
  on.refused = [this](const Holding& holding, const std::string& why) { answers_.losses.of_refused(holding, why); };
  on.released = [this](JobId) { holding_.reports->status_soon(); };
  on.came = [this](JobId id, const ExtensionRequest& request) {
    holding_.rank_servers.serve({request.node, id}, request.gpus);
  };
  on.leaves = [this](JobId id) { holding_.rank_servers.forget(id); };
  return on;
}

Bases::Callbacks Launcher::of_bases() {
  Bases::Callbacks on;
  on.granted = [this](const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes) {
    spdlog::info("espalier: launch: base {} runs; training starts there", holdings.front().job);
    answers_.movable.start_on(holdings, nodes);
  };
  on.smaller_granted = [this](const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes) {
    spdlog::info("espalier: launch: smaller base {} runs; training starts there, and moves when its base is granted",
                 holdings.front().job);
    answers_.movable.smaller_came("committed");
    answers_.movable.start_on(holdings, nodes);
  };
  on.smaller_failed = [this](const std::string& why) {
    spdlog::info("espalier: launch: the smaller base is withdrawn: {}", why);
    answers_.movable.smaller_came("aborted: " + why);
  };
  on.arrived = [this] {
    if (!training_.program.elastic())
      return holding_.bases.first().give_back_arrived("the program does not speak the worker protocol");
    answers_.notices.answer();
  };
  on.suits = [this](const wire::Continuation& left) {
    return left.restarts < ground_.context.restarts && left.program == ground_.context.program;
  };
  on.taken_over = [this](const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes, const auto& left,
                         const std::vector<SlurmJob>& extensions) {
    answers_.movable.take_over(holdings, nodes, left, extensions);
  };
  on.superseded = [this] {
    machine_.raise(Event::current_failed, "Slurm has requeued the job, and its next launcher has the base");
  };
  on.refused = [this](const std::string& why) { machine_.raise(Event::current_failed, why); };
  on.second_granted = [this] {
    if (const std::string why = type_refusal(state(), ground_.context.nodes, holding_.bases.second().nodes());
        !why.empty())
      return holding_.bases.second().withdraw(why);
    training_.hand_off.note("acquired");
    machine_.raise(training_.program.restarts() ? Event::granted_restart : Event::granted);
  };
  on.second_failed = [this](const std::string& why) {
    if (phase() == JobPhase::acquiring) return machine_.raise(Event::acquire_failed, why);
    if (training_.hand_off.under_way()) machine_.raise(Event::notice_breaks, why);
  };
  on.lost = [this](const std::string& why) {
    machine_.raise(Event::current_failed, why + "; submit the job again to go on from its newest checkpoint");
  };
  on.came = [this](const Holding& held) {
    holding_.rank_servers.serve({held.node, held.job}, static_cast<int>(held.gpus.size()));
  };
  on.leaves = [this](JobId id) { holding_.rank_servers.forget(id); };
  on.changed = [this] {
    if (holding_.reports && phase() != JobPhase::ending)
      holding_.reports->bases(holding_.bases.held(), holding_.bases.waits());
  };
  return on;
}

PlannerLink::Callbacks Launcher::of_planner() {
  PlannerLink::Callbacks on;
  on.granted = [this](const auto& requests, const auto& grants) {
    holding_.extensions.grants().admit(requests, grants);
  };
  on.proposed = [this](const Decision& decision) { propose(decision); };
  on.steered = [this](const wire::SteerBase& steer) { holding_.bases.first().steer(steer.base, steer.nodes); };
  on.withdrawn = [this](const wire::WithdrawBase& withdraw) {
    const JobPhase now = phase();
    const bool undone = now == JobPhase::acquiring || now == JobPhase::starting || now == JobPhase::ready;
    if (undone && training_.hand_off.id() == withdraw.decision) holding_.bases.second().withdraw(withdraw.reason);
  };
  on.registered = [this] {
    if (ground_.context.movable) holding_.reports->bases(holding_.bases.held(), holding_.bases.waits());
  };
  on.unplanned = [this](const std::string& reason) { training_.generation_zero.first_start().no_plan(reason); };
  on.deadline = [this](const wire::DeadlineChecked& checked) {
    training_.generation_zero.first_start().deadline_checked(
        checked, ground_.context.restarts > 0 || training_.program.told().goes_on);
  };
  on.known = [this](const wire::Known& known) { training_.generation_zero.learn(known); };
  on.unreachable = [this](const std::string& why) {
    training_.generation_zero.first_start().planner_away();
    spdlog::warn("espalier: launch: planner {}; the job trains on with the GPUs it has until the planner answers", why);
  };
  on.refused = [this](const std::string& why) {
    training_.generation_zero.first_start().planner_away();
    spdlog::warn("espalier: launch: the planner refuses this launcher: {}; the job runs without elasticity", why);
  };
  return on;
}

}  // namespace espalier::launcher
