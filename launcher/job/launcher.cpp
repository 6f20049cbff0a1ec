#include "launcher/job/launcher.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "launcher/job/holdings.hpp"
#include "launcher/job/outcomes.hpp"
#include "launcher/job/proposal_check.hpp"
#include "launcher/process/child.hpp"
#include "planner/core/error.hpp"
#include "planner/core/schedule/smaller_base.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
Launcher::~Launcher() = default;

ElasticJob Launcher::state() const {
  ElasticJob job;
  job.id = ground_.context.job;
  job.uid = ::getuid();
  job.name = ground_.context.name;
  job.min_gpus = ground_.context.min_gpus;
  job.max_gpus =
      training_.program.elastic() ? ground_.context.max_gpus : static_cast<int>(ground_.context.anchor_gpus().size());
  job.floor_gpus = ground_.context.floor_gpus;
  job.deadline = ground_.context.deadline;
  job.accuracy = ground_.context.accuracy;
  job.model = training_.program.model();
  job.parallel = training_.program.parallel();
  job.ranks_run = phase() == JobPhase::launching && training_.generations.current() != nullptr;
  if (!training_.generations.plan().stages.empty()) job.plan = training_.generations.plan();
  job.generation = training_.generations.number();
  // An older planner may have taken the place of the one that proposed the plan. It does not know `replanning`, and
  // does the same in `switching`.
  job.phase = phase() == JobPhase::replanning ? JobPhase::switching : phase();
  job.anchor = holding_.gpus.own();
  job.extensions = holding_.gpus.usable(holding_.extensions.holdings(true));
  job.step_seconds = training_.steps.seconds();
  job.step = training_.steps.step();
  job.total_steps = training_.program.total_steps();
  const auto unfit = answers_.recovery.unfit();
  job.unfit.assign(unfit.begin(), unfit.end());
  auto part = job.anchor;
  part.insert(part.end(), job.extensions.begin(), job.extensions.end());
  job.gpu_islands = training_.reach.of_part(holding_.gpus.all(true), part);
  job.jobs_reach = training_.reach.jobs_reach();
  return job;
}

// ---- the state machine

void Launcher::settle() {
  using enum JobPhase;
  const JobPhase now = phase();
  // A notice that came between the proposal and this state.
  if (training_.hand_off.under_way() &&
      (now == acquiring || now == starting || now == ready || now == switching || now == saving || now == replanning))
    for (const JobId id : holding_.extensions.noticed())
      if (!training_.hand_off.releases(id))
        machine_.raise(Event::notice_breaks, "Slurm takes back extension " + std::to_string(id));
  if (now == ending) return;
  answers_.movable.tell_keepers();
  set_deadline();
  training_.steps.watch(trains(now), training_.program.total_steps());
  holding_.reports->status();
}

void Launcher::set_deadline() {
  PhaseDeadline::Situation now;
  now.step_seconds = training_.steps.longest();
  now.early_seconds = training_.hand_off.early_seconds();
  now.method = training_.program.handoff();
  now.start_seconds = training_.program.start_seconds();
  now.attempts = training_.generations.next() != nullptr;
  now.loads = answers_.recovery.loads();
  deadline_.set(phase(), now);
}

// ---- events that concern several rooms

void Launcher::propose(const Decision& decision) {
  if (starts_smaller(decision)) return answers_.movable.start_smaller(decision);
  if (decision.kind == DecisionKind::start && phase() == JobPhase::launching)
    return training_.generation_zero.first_start().proposed(decision);
  ProposalFacts facts;
  facts.elastic = training_.program.elastic() && training_.program.speaks_protocol();
  facts.busy = !machine_.quiet() || training_.hand_off.under_way() || holding_.bases.moving();
  facts.phase = phase();
  facts.model = training_.program.model();
  facts.plan = training_.generations.plan();
  facts.unfit = answers_.recovery.unfit();
  facts.own = holding_.gpus.own();
  facts.known = [this](JobId id) { return holding_.extensions.known(id); };
  if (const auto why = refusal(decision, ground_.context, facts)) {
    wire::Outcome outcome = outcome_of(ground_.context.job, decision, "aborted: " + *why);
    outcome.generation = training_.generations.number();
    outcome.step = training_.steps.step();
    outcome.plan = training_.generations.plan();
    return holding_.reports->outcome(outcome);
  }
  training_.hand_off.begin(decision);
  if (!decision.acquire.empty()) return machine_.raise(Event::propose_acquire);
  if (decision.release.empty() && holding_.reports->planner_knows_in_place() &&
      training_.hand_off.in_place().possible())
    return machine_.raise(Event::propose_in_place);
  machine_.raise(training_.program.restarts() ? Event::propose_restart : Event::propose_direct);
}

void Launcher::stepped(const wire::Step& step) {
  training_.generation_zero.stepped(step, training_.hand_off.pause().start_seconds());
  training_.hand_off.pause().stepped(step);
  answers_.recovery.stepped();
  if (training_.generations.next() == nullptr && training_.program.wants_spares(training_.generations.last_number()))
    holding_.rank_servers.keep_spares(ground_.context.program,
                                      clean_environment(ground_.socket.environment(training_.generations.number())));
  training_.steps.stepped(step);
  answers_.lists.stepped(step.seconds);
  training_.earlier.stepped(step);
  answers_.movable.stepped();
  holding_.reports->status_after_step();
}

// ---- running

void Launcher::start() {
  const std::chrono::milliseconds heartbeat(static_cast<long>(ground_.context.config.heartbeat_seconds * 1000));
  if (ground_.context.movable) {  // its base may wait in Slurm's queue for long
    signals_.watch(heartbeat);
    return holding_.bases.start();
  }
  if (ground_.context.anchor_gpus().empty())
    throw Error("job " + std::to_string(ground_.context.job) + ": has no GPUs; ask for some, e.g. --gres=gpu:2");
  begin();
  signals_.watch(heartbeat);
}

void Launcher::begin() {
  const auto began = wire::steady_now();
  holding_.rank_servers.start();
  training_.generation_zero.begin(began);
}

bool Launcher::serve() {
  try {
    ground_.loop.run();
    return true;
  } catch (const std::exception& error) {  // generation 0 runs: whatever this is, it must not start over
    if (phase() == JobPhase::ending) {
      answers_.ending.launcher_failed();
      return true;
    }
    machine_.raise(Event::current_failed, error.what());
    return false;
  }
}

int Launcher::run() {
  start();
  while (!serve()) {
  }
  return answers_.ending.code();
}

}  // namespace espalier::launcher
