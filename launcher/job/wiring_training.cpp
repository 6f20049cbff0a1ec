// Which room of the launcher hears of what: the rooms of the training.
#include "launcher/job/launcher.hpp"
#include "planner/core/error.hpp"
#include "planner/core/schedule/job_site.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
MovableTraining::Callbacks Launcher::of_movable() {
  MovableTraining::Callbacks on;
  on.phase = [this] { return phase(); };
  on.begin = [this] { begin(); };
  on.taken_over = [this] { machine_.raise(Event::taken_over, "Slurm has requeued the job"); };
  on.based = [this] { holding_.reports->status(); };
  on.report = [this](const wire::Outcome& outcome) { holding_.reports->outcome(outcome); };
  return on;
}

Machine::Callbacks Launcher::of_machine() {
  Machine::Callbacks on;
  on.leaves = [this](const Row& row, const std::string& why) { answers_.actions.note(row, why); };
  on.enters = [this](const Row& row) {
    holding_.reports->transition(wire::Transition{ground_.context.job, wire::unix_seconds(), to_string(row.from),
                                                  to_string(row.on), to_string(row.to), training_.generations.number(),
                                                  training_.hand_off.id()});
  };
  on.perform = [this](Action action) { answers_.actions.perform(action); };
  on.settles = [this] { settle(); };
  on.quiet = [this] { answers_.notices.answer(); };
  return on;
}

Generations::Callbacks Launcher::of_generations() {
  Generations::Callbacks on;
  on.holdings = [this] { return holding_.gpus.all(true); };
  on.environment = [this](int generation) { return ground_.socket.environment(generation); };
  on.run = [this](const WorldRequest& wanted, RanksCallbacks callbacks) {
    return holding_.rank_servers.run(wanted, std::move(callbacks));
  };
  on.hello = [this](const wire::Hello& hello, bool of_current) { training_.program.hello(hello, of_current); };
  on.heard_ready = [this](const ServerId& server, const wire::Ready& ready) { training_.reach.heard(server, ready); };
  on.reach = [this](const std::vector<Holding>& holdings) { return training_.reach.of(holdings); };
  on.step = [this](const wire::Step& step) { stepped(step); };
  on.progressed = [this] {
    training_.steps.progressed();
    training_.hand_off.pause().progressed();
  };
  on.profiled = [this](int rank, const wire::Frame& frame) {
    if (const Profile* const fresh =
            holding_.reports->profiled(frame, rank, training_.generations.plan(), training_.program.model()))
      answers_.lists.profiled(*fresh);
  };
  on.noticed = [this](JobId extension) { holding_.extensions.notice(extension); };
  on.ready = [this](bool first) {
    training_.hand_off.note("ready");
    machine_.raise(first ? Event::world_ready : Event::next_ready);
  };
  on.standing = [this] { machine_.raise(Event::old_stands); };
  on.switched = [this] { machine_.raise(Event::old_switched); };
  on.stays = [this](const std::string& why) {
    if (machine_.phase() == JobPhase::replanning) answers_.lists.refused();
    machine_.raise(Event::next_failed, why);
  };
  on.loaded = [this] { machine_.raise(Event::next_loaded); };
  on.finished = [this](bool is_next, int code) {
    if (is_next) return answers_.losses.of_next("it ended with code " + std::to_string(code));
    if (code > 128 && answers_.losses.of_wide_start(code)) return;
    answers_.ending.finished(code);
    machine_.raise(Event::current_finished);
  };
  on.lost = [this](bool is_next, const Loss& loss) { answers_.losses.of_generation(is_next, loss); };
  on.gone = [this] {
    if (phase() == JobPhase::ending) {
      answers_.actions.give_back();
      answers_.ending.world_gone();
    }
    machine_.raise(Event::old_gone);
  };
  return on;
}

GenerationZero::Callbacks Launcher::of_generation_zero() {
  GenerationZero::Callbacks on;
  on.phase = [this] { return phase(); };
  on.job = [this] { return state(); };
  on.tell_planner = [this] { holding_.reports->status(); };
  on.acquire = [this](const std::vector<ExtensionRequest>& requests) { holding_.extensions.acquire(requests); };
  on.cancel_acquired = [this] { holding_.extensions.cancel_acquired(); };
  on.granted = [this] { return holding_.extensions.granted(); };
  on.set_deadline = [this] { set_deadline(); };
  on.fails = [this](bool wide, const std::string& why) {
    machine_.raise(wide ? Event::wide_lost : Event::current_failed, why);
  };
  on.report = [this](const wire::Outcome& outcome) { holding_.reports->outcome(outcome); };
  return on;
}

ListSearch::Callbacks Launcher::of_list_search() {
  ListSearch::Callbacks on;
  on.idle = [this] {
    const World* const current = training_.generations.current();
    return machine_.quiet() && !training_.hand_off.under_way() && !holding_.bases.moving() &&
           holding_.extensions.noticed().empty() && training_.program.takes_lists() &&
           holding_.reports->planner_knows_in_place() && current != nullptr && current->workers().all_replan_in_place();
  };
  on.steps_left = [this] { return training_.program.total_steps() - training_.steps.step(); };
  on.known = [this] {
    const PlanningBasis& known = training_.generation_zero.known();
    return PlanningBasis{site_for(known.site, state()), known.coefficients};
  };
  on.propose = [this](const Decision& decision, const std::optional<Lists>& lists) {
    training_.hand_off.begin(decision, lists);
    machine_.raise(Event::propose_in_place);
  };
  return on;
}

LastCheckpoint::Callbacks Launcher::of_last_checkpoint() {
  LastCheckpoint::Callbacks on;
  on.trains = [this] { return training_.program.speaks_protocol() && trains(phase()); };
  on.step_seconds = [this] { return training_.steps.longest(); };
  on.between_seconds = [this] { return training_.steps.between_seconds(); };
  on.ends = [this](bool soon) { answers_.movable.base_ends(soon ? ground_.context.base : 0); };
  on.ask = [this] {
    ground_.slurm.post([this, id = ground_.context.job]() -> std::function<void()> {
      std::optional<SlurmJob> job;
      try {
        job = load_job(id);
      } catch (const Error&) {  // slurmctld is away: it is asked again
      }
      if (!job || job->state != SlurmJob::State::running) return {};
      return [this, job] { answers_.last_checkpoint.seen(job->ends, job->limit_minutes); };
    });
  };
  return on;
}

Notices::Callbacks Launcher::of_notices() {
  Notices::Callbacks on;
  on.taken = [this] { return holding_.extensions.noticed(); };
  on.base_before = [this] { return answers_.movable.base_to_leave(); };
  on.arrived = [this] {
    return training_.program.speaks_protocol() ? holding_.bases.arrived_holdings() : std::vector<Holding>();
  };
  on.take_arrived = [this] { holding_.bases.second().take_arrived(); };
  on.arrived_nodes = [this] { return holding_.bases.first().arrived_nodes(); };
  on.stays = [this](const std::string& why) { holding_.bases.first().give_back_arrived(why); };
  on.since = [this](const std::set<JobId>& taken) { return holding_.extensions.since_notice(taken); };
  on.idle = [this] { return machine_.quiet() && !training_.hand_off.under_way(); };
  on.job = [this] { return state(); };
  on.known = [this]() -> const PlanningBasis& { return training_.generation_zero.known(); };
  on.needs = [this] { return training_.hand_off.pause().predicted_seconds(); };
  on.save = [this] { training_.generations.current()->send_all(wire::Checkpoint{}); };
  on.propose = [this](const Decision& decision) {
    training_.hand_off.begin(decision);
    machine_.raise(training_.program.restarts() ? Event::propose_restart : Event::propose_direct);
  };
  return on;
}

Recovery::Callbacks Launcher::of_recovery() {
  Recovery::Callbacks on;
  on.phase = [this] { return phase(); };
  on.job = [this] { return state(); };
  on.known = [this]() -> const PlanningBasis& { return training_.generation_zero.known(); };
  on.ask = [this](const std::set<JobId>& jobs, const std::function<void(const SlurmAnswer&)>& answer) {
    holding_.bases.look();
    ground_.slurm.post_first([this, context = ground_.context, jobs, answer]() -> std::function<void()> {
      const SlurmAnswer said = ask_slurm(context, jobs);
      return [this, answer, said, base = context.base] {
        if (said.requeued) return holding_.bases.next_launcher().found();
        if (said.away.empty()) holding_.rank_servers.withdraw(base, said.withdrawn);
        answer(said);
      };
    });
  };
  on.doubt = [this](const std::set<GpuId>& died) { holding_.keepers.doubt(died); };
  on.attempts = [this] {
    set_deadline();
    answers_.movable.tell_keepers();
  };
  on.hopeless = [this](const std::string& why) { machine_.raise(Event::unrecoverable, why); };
  on.report = [this](const wire::Outcome& outcome) { holding_.reports->outcome(outcome); };
  return on;
}

}  // namespace espalier::launcher
