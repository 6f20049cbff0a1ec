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
#include "planner/core/schedule/move.hpp"
#include "planner/core/schedule/smaller_base.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
// Those on an extension that goes end MPI together with the others; without them these would wait in vain.
constexpr wire::Loop::Milliseconds kRanksLeave{500};
// Generations that an earlier launcher may have started without a keeper to tell. A number that it has used is not used
// again: the state in the nodes' vaults goes by these numbers.
constexpr int kUntold = 100;
}  // namespace

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
  job.phase = phase();
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

// What an event tells the user, and what is remembered of it.
void Launcher::note(const Row& row, const std::string& why) {
  using enum Event;
  hand_off_.note_why(why);
  if (row.on == terminate) ending_.terminated();
  const bool losing = row.on == current_lost || row.on == current_failed || row.on == unrecoverable;
  if (losing && row.to == JobPhase::ending) {
    spdlog::error("espalier: launch: {}; the job ends", why);
    ending_.fails();
  } else if (row.on == taken_over) {
    recovery_.inherited(why, began_);
  } else if (losing || row.from == JobPhase::recovering) {
    if (row.on == current_lost) recovery_.lost(why);
    if (row.on == next_failed) recovery_.failed(why);
    spdlog::debug("launch: {}: {}", to_string(row.on), why);  // one message per loss, when all about it is known
  } else if (!why.empty()) {
    spdlog::info("espalier: launch: {}: {}", to_string(row.on), why);
  }
  if (row.on == wide_lost) generation_zero_.lost(why);
}

void Launcher::perform(Action action) {
  switch (action) {
    case Action::start_training:
      hand_off_.generation_0_took(generation_zero_.trains());
      return extensions_.keep_acquired();
    case Action::start_alone:
      machine_.forget_first();
      generations_.drop_current();
      extensions_.cancel_acquired();
      deadline_.reset();
      return generation_zero_.start_alone();
    case Action::submit_extensions:
      if (moves_base(hand_off_.decision())) return bases_.acquire(hand_off_.decision().acquire);
      return extensions_.acquire(hand_off_.decision().acquire);
    case Action::cancel_acquired:
      bases_.cancel_second();
      return extensions_.cancel_acquired();
    case Action::start_next:
      return hand_off_.start_next();
    case Action::abort_next:
      generations_.drop_next();
      return machine_.forget_next();
    case Action::send_switch:
      return hand_off_.send_switch();
    case Action::begin_load:
      return hand_off_.begin_load();
    case Action::send_load:
      return hand_off_.send_load();
    case Action::resume_old:
      return generations_.current()->send_all(wire::Resume{});
    case Action::end_old:
      return hand_off_.end_old();
    case Action::commit:
      hand_off_.commit();
      extensions_.keep_acquired();
      take_second_base();
      save_before_base_ends();  // a generation that hands over writes no checkpoint
      return reports_->forget_profiles();
    case Action::release_leaving:
      for (const JobId id : hand_off_.decision().release)
        extensions_.release(id, generations_.leaving() != nullptr ? kRanksLeave : wire::Loop::Milliseconds{});
      return;
    case Action::kill_old:
      generations_.drop_leaving();
      return extensions_.release_now();
    case Action::abort_current: {
      // False: in a hand-off by checkpoint the next generation was lost before its first step.
      const bool trained = generations_.current() != nullptr;
      generations_.drop_current();
      machine_.forget_current();
      hand_off_.lost();
      return recovery_.bury(trained);
    }
    case Action::start_recovery:
      return recovery_.start();
    case Action::send_recover:
      return recovery_.send_recover();
    case Action::commit_recovery:
      recovery_.commit();
      save_before_base_ends();
      reports_->forget_profiles();
      for (const Holding& holding : gpus_.extensions(false))
        if (!uses(generations_.plan(), holding)) extensions_.release(holding.job);
      return;
    case Action::report_committed:
      return hand_off_.report_committed();
    case Action::report_aborted: {
      const bool own = hand_off_.decision().id == 0;
      hand_off_.report_aborted(phase() == JobPhase::recovering);
      if (own) notices_.failed();
      return;
    }
    case Action::end_job:
      return end_job();
  }
}

void Launcher::settle() {
  using enum JobPhase;
  const JobPhase now = phase();
  // A notice that came between the proposal and this state.
  if (hand_off_.under_way() &&
      (now == acquiring || now == starting || now == ready || now == switching || now == saving))
    for (const JobId id : extensions_.noticed())
      if (!hand_off_.releases(id))
        machine_.raise(Event::notice_breaks, "Slurm takes back extension " + std::to_string(id));
  if (now == ending) return;
  tell_continuation();
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

void Launcher::end_job() {
  deadline_.reset();
  program_.stop_waiting();
  generations_.end();
  extensions_.release_all();
  hand_off_.lost();
  recovery_.end();
  reports_->leave({context_.job, ending_.code()});
  World* const current = generations_.current();
  const bool saves = ending_.by_signal() && !program_.speaks_protocol() && current != nullptr;
  // The ranks of a movable job die with its base.
  if (!saves || !context_.movable) give_back_own();
  if (saves) {
    // A program of its own kind, which heard the signal too, may want to save its work: it has as long as Slurm gives
    // it.
    const std::chrono::seconds patience(context_.site.kill_wait_seconds > 0 ? context_.site.kill_wait_seconds : 30);
    current->retire(patience);
    return ending_.await(patience);
  }
  if (current != nullptr) current->retire(std::chrono::milliseconds(500));
  ending_.world_gone();
  ending_.await({});
}

void Launcher::give_back_own() {
  bases_.release_all();
  if (!bases_.superseded()) keepers_.give_back();
}

// ---- events that concern several rooms

void Launcher::propose(const Decision& decision) {
  if (starts_smaller(decision)) return start_smaller(decision);
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
  machine_.raise(program_.restarts() ? Event::propose_restart : Event::propose_direct);
}

void Launcher::stepped(const wire::Step& step) {
  generation_zero_.stepped(step, hand_off_.start_seconds());
  hand_off_.stepped(step);
  recovery_.stepped();
  const int generation = generations_.number();
  if (program_.wants_spares(generation))
    rank_servers_.keep_spares(context_.program, clean_environment(socket_.environment(generation)));
  steps_.stepped(step);
  earlier_.stepped(step);
  if (continuation_due_) tell_continuation();
  bases_.stepped(earlier_.list().empty() && base_to_leave() == 0);
  reports_->status_after_step();
}

// Once the old generation has ended, the next one is all there is.
void Launcher::next_lost(const std::string& why) {
  machine_.raise(phase() == JobPhase::restarting ? Event::current_lost : Event::next_failed, why);
}

void Launcher::lost(bool is_next, const Loss& loss) {
  const bool recovering = phase() == JobPhase::recovering;
  if (!is_next || recovering) recovery_.blame(loss);
  if (recovering) recovery_.suspect(loss);
  if (is_next) return next_lost(loss.why);
  if (generation_zero_.wide()) return machine_.raise(Event::wide_lost, loss.why, true);
  ending_.generation_lost(loss.code);
  // The lost generation may have lacked memory that another generation had. Nothing of the other generation is left
  // when training is tried again.
  const bool tries_again = loss.own && ((loss.memory && generations_.crowded()) || earlier_.make_room());
  machine_.raise(loss.own && !tries_again ? Event::current_failed : Event::current_lost, loss.why, true);
}

void Launcher::extension_lost(const Holding& holding) {
  const std::string why = "extension " + std::to_string(holding.job) + " on " + holding.node + " is gone";
  const bool used = uses(generations_.plan(), holding);
  if (generation_zero_.wide() && used) return machine_.raise(Event::wide_lost, why);
  // While restarting, the job has no generation but the next one.
  if (phase() == JobPhase::restarting && uses(hand_off_.decision().plan, holding))
    return machine_.raise(Event::current_lost, why);
  if (generations_.current() != nullptr && used) return machine_.raise(Event::current_lost, why);
  if (phase() == JobPhase::recovering) {
    if (generations_.next() != nullptr && uses(recovery_.plan(), holding)) machine_.raise(Event::next_failed, why);
    return;
  }
  spdlog::warn("espalier: launch: {}", why);
  if (hand_off_.under_way() && !hand_off_.releases(holding.job)) machine_.raise(Event::notice_breaks, why);
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

void Launcher::take_over(const std::optional<wire::Continuation>& left, const std::vector<SlurmJob>& extensions) {
  extensions_.take_over(extensions);
  if (left) {
    program_.described(left->description);
    context_.accuracy = left->accuracy;
  }
  if (!left || !left->source) {
    extensions_.release_all();
    if (left) generations_.go_on_after(left->last_generation + kUntold);
    return begin();
  }
  rank_servers_.start();
  generation_zero_.skip();
  generations_.take_over(left->last_generation + kUntold, *left->source);
  for (const Holding& held : extensions_.holdings(false)) {
    const auto used = [&](const auto& of) { return uses(of.plan, held); };
    if (!used(*left->source) && std::none_of(left->source->earlier.begin(), left->source->earlier.end(), used))
      extensions_.release(held.job);
  }
  machine_.raise(Event::taken_over, "Slurm has requeued the job");
}

void Launcher::tell_continuation() {
  continuation_due_ = false;
  if (!context_.movable || context_.base == 0) return;
  wire::Continuation now;
  now.restarts = context_.restarts;
  now.number = ++continuations_;
  now.base = context_.base;
  now.program = context_.program;
  now.description = program_.told();
  now.accuracy = context_.accuracy;
  now.last_generation = generations_.last_number();
  if (phase() != JobPhase::launching)
    now.source =
        wire::Assign::Source{generations_.number(), generations_.plan(), true, 0, generations_.earlier().list()};
  keepers_.remember(now);
}

// Training has gone over to a second base, if the change under way has acquired one.
void Launcher::save_before_base_ends() {
  if (base_noticed_ == 0 || base_noticed_ != context_.base) return;
  if (World* const current = generations_.current(); current != nullptr) current->send_all(wire::Checkpoint{});
}

void Launcher::take_second_base() {
  const auto holdings = bases_.second_holdings();
  if (holdings.empty()) return;
  context_.nodes = bases_.second_nodes();
  // Where no node stays, the plan keeps a GPU of the base before, and leaves it in a change of its own.
  const bool leaves_later = std::any_of(context_.anchor.begin(), context_.anchor.end(),
                                        [this](const Holding& held) { return uses(generations_.plan(), held); });
  const std::chrono::seconds start(std::max(context_.config.start_seconds, program_.start_seconds()));
  bases_.promote(leaves_later ? start : start.zero());
  context_.base = bases_.current();
  context_.anchor = holdings;
  spdlog::info("espalier: launch: training is on base {} now", context_.base);
}

void Launcher::start_smaller(const Decision& decision) {
  std::string why = smaller_base_refusal(decision, context_);
  if (why.empty() && smaller_) why = "another smaller base has been asked for";
  try {
    if (!why.empty()) throw Error(why);
    bases_.start_smaller(decision.acquire);
    smaller_ = decision;
    spdlog::info("espalier: launch: {}", decision.reason);
  } catch (const Error& error) {
    reports_->outcome(outcome_of(context_.job, decision, std::string("aborted: ") + error.what()));
  }
}

void Launcher::smaller_came(const std::string& result) {
  if (!smaller_) return;
  reports_->outcome(outcome_of(context_.job, *smaller_, result));
  smaller_.reset();
}

void Launcher::start_on_base(const std::vector<Holding>& holdings, const std::vector<NodeView>& nodes) {
  context_.base = holdings.front().job;
  context_.anchor = holdings;
  context_.nodes = nodes;
  reports_->status();
  begin();
}

JobId Launcher::base_to_leave() const {
  for (const Holding& held : bases_.before_holdings())
    if (uses(generations_.plan(), held)) return held.job;
  return 0;
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
