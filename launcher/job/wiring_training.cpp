// Which room of the launcher hears of what: the rooms of the training.
#include "launcher/job/launcher.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
// At the end of the job: for a reader of the output that is slow.
constexpr std::chrono::milliseconds kOutputLeaves{10000};
}  // namespace

MovableTraining::Callbacks Launcher::of_movable() {
  MovableTraining::Callbacks on;
  on.phase = [this] { return phase(); };
  on.begin = [this] { begin(); };
  on.taken_over = [this] { machine_.raise(Event::taken_over, "Slurm has requeued the job"); };
  on.based = [this] { reports_->status(); };
  on.report = [this](const wire::Outcome& outcome) { reports_->outcome(outcome); };
  return on;
}

Machine::Callbacks Launcher::of_machine() {
  Machine::Callbacks on;
  on.leaves = [this](const Row& row, const std::string& why) { actions_.note(row, why); };
  on.enters = [this](const Row& row) {
    reports_->transition(wire::Transition{context_.job, wire::unix_seconds(), to_string(row.from), to_string(row.on),
                                          to_string(row.to), generations_.number(), hand_off_.id()});
  };
  on.perform = [this](Action action) { actions_.perform(action); };
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
    if (const Profile* const fresh = reports_->profiled(frame, rank, generations_.plan(), program_.model()))
      list_search_.profiled(*fresh);
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
    if (is_next) return losses_.of_next("it ended with code " + std::to_string(code));
    ending_.finished(code);
    machine_.raise(Event::current_finished);
  };
  on.lost = [this](bool is_next, const Loss& loss) { losses_.of_generation(is_next, loss); };
  on.gone = [this] {
    if (phase() == JobPhase::ending) {
      actions_.give_back();
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
    for (const Holding& held : bases_.second().holdings()) list.push_back(held);
    return list;
  };
  on.hurries = [this] { return !extensions_.noticed().empty(); };
  on.next_lost = [this](const std::string& why) { losses_.of_next(why); };
  on.report = [this](const wire::Outcome& outcome) { reports_->outcome(outcome); };
  return on;
}

ListSearch::Callbacks Launcher::of_list_search() {
  ListSearch::Callbacks on;
  on.idle = [this] {
    const World* const current = generations_.current();
    return machine_.quiet() && !hand_off_.under_way() && !bases_.moving() && extensions_.noticed().empty() &&
           program_.takes_lists() && reports_->planner_knows_in_place() && current != nullptr &&
           current->workers().all_replan_in_place();
  };
  on.step_seconds = [this] { return steps_.seconds(); };
  on.steps_left = [this] { return program_.total_steps() - steps_.step(); };
  on.known = [this]() -> const PlanningBasis& { return generation_zero_.known(); };
  on.propose = [this](const Decision& decision, const std::optional<Lists>& lists) {
    hand_off_.begin(decision, lists);
    machine_.raise(Event::propose_in_place);
  };
  return on;
}

Notices::Callbacks Launcher::of_notices() {
  Notices::Callbacks on;
  on.taken = [this] { return extensions_.noticed(); };
  on.base_before = [this] { return movable_.base_to_leave(); };
  on.arrived = [this] { return program_.speaks_protocol() ? bases_.arrived_holdings() : std::vector<Holding>(); };
  on.take_arrived = [this] { bases_.second().take_arrived(); };
  on.arrived_nodes = [this] { return bases_.first().arrived_nodes(); };
  on.stays = [this](const std::string& why) { bases_.first().give_back_arrived(why); };
  on.since = [this](const std::set<JobId>& taken) { return extensions_.since_notice(taken); };
  on.idle = [this] { return machine_.quiet() && !hand_off_.under_way(); };
  on.job = [this] { return state(); };
  on.known = [this]() -> const PlanningBasis& { return generation_zero_.known(); };
  on.needs = [this] { return hand_off_.pause().predicted_seconds(); };
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
        if (said.requeued) bases_.next_launcher().found();
        else answer(said);
      };
    });
  };
  on.doubt = [this](const std::set<GpuId>& died) { keepers_.doubt(died); };
  on.attempts = [this] {
    set_deadline();
    movable_.tell_keepers();
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
