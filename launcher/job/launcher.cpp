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
  job.id = context_.job;
  job.uid = ::getuid();
  job.name = context_.name;
  job.min_gpus = context_.min_gpus;
  job.max_gpus = program_.elastic() ? context_.max_gpus : static_cast<int>(context_.anchor_gpus().size());
  job.floor_gpus = context_.floor_gpus;
  job.deadline = context_.deadline;
  job.accuracy = context_.accuracy;
  job.model = program_.model();
  job.parallel = program_.parallel();
  job.ranks_run = phase() == JobPhase::launching && generations_.current() != nullptr;
  if (!generations_.plan().stages.empty()) job.plan = generations_.plan();
  job.generation = generations_.number();
  // An older planner may have taken the place of the one that proposed the plan. It does not know `replanning`, and
  // does the same in `switching`.
  job.phase = phase() == JobPhase::replanning ? JobPhase::switching : phase();
  job.anchor = gpus_.own();
  job.extensions = gpus_.usable(extensions_.holdings(true));
  job.step_seconds = steps_.seconds();
  job.step = steps_.step();
  job.total_steps = program_.total_steps();
  const auto unfit = recovery_.unfit();
  job.unfit.assign(unfit.begin(), unfit.end());
  return job;
}

// ---- the state machine

void Launcher::settle() {
  using enum JobPhase;
  const JobPhase now = phase();
  // A notice that came between the proposal and this state.
  if (hand_off_.under_way() &&
      (now == acquiring || now == starting || now == ready || now == switching || now == saving || now == replanning))
    for (const JobId id : extensions_.noticed())
      if (!hand_off_.releases(id))
        machine_.raise(Event::notice_breaks, "Slurm takes back extension " + std::to_string(id));
  if (now == ending) return;
  movable_.tell_keepers();
  set_deadline();
  steps_.watch(now == running || now == acquiring || now == starting || now == ready);
  reports_->status();
}

void Launcher::set_deadline() {
  PhaseDeadline::Situation now;
  now.step_seconds = steps_.longest();
  now.early_seconds = hand_off_.early_seconds();
  now.method = program_.handoff();
  now.start_seconds = program_.start_seconds();
  now.attempts = generations_.next() != nullptr;
  now.loads = recovery_.loads();
  deadline_.set(phase(), now);
}

// ---- events that concern several rooms

void Launcher::propose(const Decision& decision) {
  if (starts_smaller(decision)) return movable_.start_smaller(decision);
  if (decision.kind == DecisionKind::start && phase() == JobPhase::launching)
    return generation_zero_.first_start().proposed(decision);
  ProposalFacts facts;
  facts.elastic = program_.elastic() && program_.speaks_protocol();
  facts.busy = !machine_.quiet() || hand_off_.under_way() || bases_.moving();
  facts.phase = phase();
  facts.model = program_.model();
  facts.plan = generations_.plan();
  facts.unfit = recovery_.unfit();
  facts.own = gpus_.own();
  facts.known = [this](JobId id) { return extensions_.known(id); };
  if (const auto why = refusal(decision, context_, facts)) {
    wire::Outcome outcome = outcome_of(context_.job, decision, "aborted: " + *why);
    outcome.generation = generations_.number();
    outcome.step = steps_.step();
    outcome.plan = generations_.plan();
    return reports_->outcome(outcome);
  }
  hand_off_.begin(decision);
  if (!decision.acquire.empty()) return machine_.raise(Event::propose_acquire);
  if (decision.release.empty() && reports_->planner_knows_in_place() && hand_off_.in_place().possible())
    return machine_.raise(Event::propose_in_place);
  machine_.raise(program_.restarts() ? Event::propose_restart : Event::propose_direct);
}

void Launcher::stepped(const wire::Step& step) {
  generation_zero_.stepped(step, hand_off_.pause().start_seconds());
  hand_off_.pause().stepped(step);
  recovery_.stepped();
  const int generation = generations_.number();
  if (program_.wants_spares(generation))
    rank_servers_.keep_spares(context_.program, clean_environment(socket_.environment(generation)));
  steps_.stepped(step);
  list_search_.stepped();
  earlier_.stepped(step);
  movable_.stepped();
  reports_->status_after_step();
}

// ---- running

void Launcher::start() {
  if (context_.movable) {  // its base may wait in Slurm's queue for long
    watch_signals();
    return bases_.start();
  }
  if (context_.anchor_gpus().empty())
    throw Error("job " + std::to_string(context_.job) + ": has no GPUs; ask for some, e.g. --gres=gpu:2");
  begin();
  watch_signals();
}

void Launcher::begin() {
  const auto began = wire::steady_now();
  rank_servers_.start();
  generation_zero_.begin(began);
}

void Launcher::watch_signals() {
  for (const int number : {SIGUSR1, SIGUSR2})  // the program's business, e.g. sbatch --signal=USR1@300
    watches_.push_back(loop_.on_signal(number, [this, number] {
      if (const World* const current = generations_.current(); current != nullptr) current->signal(number);
    }));
  const std::chrono::milliseconds interval(static_cast<long>(context_.config.heartbeat_seconds * 1000));
  watches_.push_back(loop_.every(interval, [this] {
    keepers_.beat();
    generations_.beat();
  }));
  for (const auto& [number, name] : {std::pair{SIGHUP, "SIGHUP"}, {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}})
    watches_.push_back(
        loop_.on_signal(number, [this, name = std::string(name)] { machine_.raise(Event::terminate, name); }));
}

bool Launcher::serve() {
  try {
    loop_.run();
    return true;
  } catch (const std::exception& error) {  // generation 0 runs: whatever this is, it must not start over
    if (phase() == JobPhase::ending) {
      ending_.launcher_failed();
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
  return ending_.code();
}

}  // namespace espalier::launcher
