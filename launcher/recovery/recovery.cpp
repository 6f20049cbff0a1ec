// Losses: how they are noticed, and how the job goes on after them.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "launcher/job/holdings.hpp"
#include "launcher/job/launcher.hpp"
#include "planner/core/error.hpp"
#include "planner/core/scheduler.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {

// Generations in a row that were lost or changed before they had what a loss needs, and those of them whose own state
// stays in the GPUs' memory.
constexpr std::size_t kMostEarlier = 6, kMostWhole = 2;
constexpr std::int64_t kSettlesAnyway = 100;        // steps
constexpr int kFalters = 3;                         // heartbeats a keeper misses before its node is doubted
constexpr auto kStalled = std::chrono::seconds(5);  // a timer so late: this process itself stood still
// What a rank lacks while two generations are on its GPU is told within that time of the end of one.
constexpr auto kCrowded = std::chrono::seconds(10);
constexpr auto kLocalTrouble = std::chrono::seconds(1);
constexpr auto kSlurmAnswers = std::chrono::seconds(30);  // or is taken not to: longer than MessageTimeout
constexpr auto kSlurmSettles =
    std::chrono::seconds(30);  // after a restart; it refuses steps until nodes have registered
// What failed at once would fail at once again: after the n-th attempt n * n of these pass, up to a limit. What Slurm
// does not start just now it may start some seconds later, and the state there is worth them.
constexpr auto kBetweenTries = std::chrono::milliseconds(500), kMostBetweenTries = std::chrono::milliseconds(4500);

double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

std::string in_words(const std::string& source) {
  if (source == "generation") return "with the state it left behind";
  if (source == "earlier") return "with the state that a generation before it left behind";
  if (source == "snapshot") return "with snapshots kept elsewhere";
  if (source == "checkpoint") return "with the newest checkpoint";
  return "with the initial weights";
}

}  // namespace

// ---- noticing

void Launcher::heartbeat() {
  for (AnchorKeeper& keeper : anchor_keepers_) {
    if (!keeper.connection) continue;
    keeper.connection->send(wire::Heartbeat{});
    ++keeper.missed;
  }
  for (World* world : {current_.get(), next_.get()})
    if (world != nullptr) world->beat();
}

void Launcher::watch_steps() {
  // Up to the boundary; at one all ranks have just done a step. A change that is given up before does not begin the
  // time again.
  const bool trains = phase_ == JobPhase::running || phase_ == JobPhase::acquiring || phase_ == JobPhase::starting ||
                      phase_ == JobPhase::ready;
  if (!trains) return watchdog_.reset();
  if (watchdog_) return;
  last_progress_ = wire::steady_now();
  check_steps();
}

// Also when a job was suspended with its launcher: time that this process did not have counts for nothing.
void Launcher::check_steps() {
  const auto now = wire::steady_now();
  if (watchdog_ && now - check_steps_at_ > kStalled) last_progress_ = now;
  const double limit = std::max<double>(context_.config.hang_seconds, 10 * step_seconds_);
  const double left = limit - milliseconds(now - last_progress_) / 1000;
  if (left <= 0) {
    watchdog_.reset();
    return raise(Event::current_lost, "step " + std::to_string(step_ + 1) + " was not done within " +
                                          std::to_string(std::lround(limit)) + " s");
  }
  const auto delay = std::chrono::milliseconds(std::lround(left * 1000) + 1);
  check_steps_at_ = now + delay;
  watchdog_ = loop_.after(delay, [this] { check_steps(); });
}

void Launcher::lost(int generation, const Loss& loss) {
  const bool next = next_ && next_->generation() == generation;
  if (!next || phase_ == JobPhase::recovering) {
    died_.insert(loss.died.begin(), loss.died.end());
    if (!loss.of_server) blamed_.insert(loss.died.begin(), loss.died.end());
  }
  if (phase_ == JobPhase::recovering) faults_.suspect(loss.absent);
  if (next) return next_lost(loss.why);
  loss_code_ = loss.code;
  // What it lacked was another generation's, of which nothing is left when it is tried again.
  const bool crowded = next_ || leaving_ || wire::steady_now() - crowded_until_ < kCrowded;
  if (loss.own && ((loss.memory && crowded) || makes_room())) return raise(Event::current_lost, loss.why, true);
  raise(loss.own ? Event::current_failed : Event::current_lost, loss.why, true);
}

void Launcher::extension_lost(const Holding& holding) {
  const std::string why = "extension " + std::to_string(holding.job) + " on " + holding.node + " is gone";
  if (phase_ == JobPhase::restarting && uses(change_->decision.plan, holding))  // the next generation is all there is
    return raise(Event::current_lost, why);
  if (current_ && uses(plan_, holding)) return raise(Event::current_lost, why);
  if (phase_ == JobPhase::recovering) {
    if (next_ && uses(recovery_->plan, holding)) raise(Event::next_failed, why);
    return;
  }
  spdlog::warn("espalier: launch: {}", why);
  if (change_ && !leaves(holding.job)) raise(Event::notice_breaks, why);
}

// ---- going on

void Launcher::note_loss(const std::string& why) {
  if (recovery_) {  // again, before the first step: one message tells both
    recovery_->why += "; then " + why;
    recovery_->taken.reset();
  } else {
    recovery_ = Recovery{};
    recovery_->why = why;
    recovery_->since = wire::steady_now();
    recovery_->last_step = step_;
  }
}

void Launcher::abort_current() {
  const bool trained = current_ != nullptr;  // by checkpoint the next generation is lost before its first step
  drop(current_);
  forget_events(false);
  if (awaiting_first_step_) finish_pause(step_);
  doubt_nodes();
  const auto left = gpus_left();
  const auto ranks = plan_.ranks();
  const bool explained =
      !trained || std::any_of(ranks.begin(), ranks.end(), [&](const GpuId& gpu) { return !left.contains(gpu); });
  died_.clear();
  faults_.lost(wire::steady_now(), step_, std::exchange(blamed_, {}), explained);
}

// A node of the anchor whose keepers are silent is not there; one whose keepers have ended may be, unless ranks ended
// as well. A keeper that has just come back may be there twice.
void Launcher::doubt_nodes() {
  std::set<std::string> heard;
  for (const AnchorKeeper& keeper : anchor_keepers_)
    if (keeper.connection && keeper.missed <= kFalters) heard.insert(keeper.node);
  for (const AnchorKeeper& keeper : anchor_keepers_) {
    const bool died =
        std::any_of(died_.begin(), died_.end(), [&](const GpuId& gpu) { return gpu.node == keeper.node; });
    if (!heard.contains(keeper.node) && (keeper.connection || died)) lost_nodes_.insert(keeper.node);
  }
}

bool Launcher::is_lost(const Holding& holding) const {
  if (holding.job == context_.job)
    return lost_nodes_.contains(holding.node) || slurm_answer_.withdrawn.contains(holding.node);
  return extensions_->falters(holding.job) || slurm_answer_.closing.contains(holding.job);
}

std::set<GpuId> Launcher::gpus_left() const {
  std::set<GpuId> left;
  for (const Holding& holding : all_holdings(false))
    if (!is_lost(holding))
      for (const int index : holding.gpus) left.insert({holding.node, index});
  return left;
}

std::vector<Holding> Launcher::usable(std::vector<Holding> holdings) const {
  auto unfit = faults_.unfit(wire::steady_now());
  // What is trained on all the same is told of: the planner ends extensions that nobody claims.
  for (const GpuId& gpu : plan_.ranks()) unfit.erase(gpu);
  for (Holding& holding : holdings)
    std::erase_if(holding.gpus, [&](int index) {
      return unfit.contains({holding.node, index}) || (holding.job == context_.job && is_lost(holding));
    });
  std::erase_if(holdings, [](const Holding& holding) { return holding.gpus.empty(); });
  return holdings;
}

void Launcher::start_recovery() {
  doubt_nodes();
  const auto now = wire::steady_now();
  if (died_.empty() && recovery_->slurm_back && now - *recovery_->slurm_back < kSlurmSettles) {
    faults_.excuse();
    retry_recovery_ = loop_.after(kLocalTrouble, [this] { retry_recovery(); });
    return;
  }
  recovery_->last_loss = now;
  died_.clear();
  faults_.failed(now, std::exchange(blamed_, {}));  // of the attempt before
  const int attempts = faults_.attempts();
  if (attempts == 0) return try_recovery();
  retry_recovery_ =
      loop_.after(std::min(kBetweenTries * attempts * attempts, kMostBetweenTries), [this] { retry_recovery(); });
}

// Slurm starts the next generation's processes on other nodes, and may not do so any more, or not be there just now.
// Then what is left there would be lost to a generation without them: that is worth a wait.
void Launcher::try_recovery() {
  std::set<JobId> needed;
  for (const Holding& holding : all_holdings(false))
    if ((holding.job != context_.job || holding.node != context_.node) && uses(plan_, holding))
      needed.insert(holding.job);
  if (needed.empty()) return attempt_recovery();
  needed.insert(context_.job);  // which nodes Slurm has withdrawn from it must not be forgotten meanwhile
  const int question = ++questions_;
  slurm_.post_first([this, needed, question]() -> std::function<void()> {
    const SlurmAnswer answer = ask_slurm(needed);
    return [this, answer, question] {
      if (question == questions_) slurm_said(answer);
    };
  });
  retry_recovery_ = loop_.after(kSlurmAnswers, [this, question] {
    if (question == questions_) slurm_said({.closing = {}, .withdrawn = {}, .away = "it does not answer"});
  });
}

Launcher::SlurmAnswer Launcher::ask_slurm(const std::set<JobId>& jobs) const {
  SlurmAnswer answer;
  try {
    for (const JobId id : jobs) {
      const auto job = load_job(id);
      if (!job || job->state == SlurmJob::State::completing || job->state == SlurmJob::State::ended) {
        if (id != context_.job) answer.closing.insert(id);
      } else if (id == context_.job) {
        for (const Holding& own : context_.anchor) answer.withdrawn.insert(own.node);
        for (const Holding& held : job->holdings) answer.withdrawn.erase(held.node);
      }
    }
  } catch (const Error& error) {
    answer.away = error.what();
  }
  return answer;
}

void Launcher::slurm_said(const SlurmAnswer& answer) {
  retry_recovery_.reset();
  ++questions_;
  if (phase_ != JobPhase::recovering || next_) return;
  const auto waited = wire::steady_now() - recovery_->since;
  if (!answer.away.empty() && waited < std::chrono::seconds(context_.config.hang_seconds)) {
    if (!std::exchange(recovery_->waits_for_slurm, true))
      spdlog::warn("espalier: launch: {}; slurmctld is away ({}): training goes on when it is back", recovery_->why,
                   answer.away);
    retry_recovery_ = loop_.after(kLocalTrouble, [this] { retry_recovery(); });
    return;
  }
  if (answer.away.empty()) slurm_answer_ = answer;
  if (recovery_->waits_for_slurm && !recovery_->slurm_back) recovery_->slurm_back = wire::steady_now();
  attempt_recovery();
}

void Launcher::attempt_recovery() {
  recovery_->at = {{"start", wire::steady_now()}};
  const auto choice = choose_recovery_plan();
  if (!choice && faults_.attempts() > 0 && wait_for_doubts()) return;
  if (!choice) {
    std::string why = recovery_->why + "; " + faults_.why_ended();
    if (!recovery_->last_try.empty()) why += " (the last time: " + recovery_->last_try + ")";
    return raise(Event::unrecoverable, why);
  }
  recovery_->plan = choice->plan;
  try {
    next_ = make_world(++last_generation_, choice->plan, false);
    next_->assign(choice->plan, wire::Assign::Source{generation_, plan_, true, 0, earlier_}, context_.accuracy);
    faults_.tried(choice->chosen);
    set_deadline(phase_);
  } catch (const Error& error) {  // of this node, such as a full disk: no other GPUs help, but it may pass
    next_.reset();
    recovery_->last_try = error.what();
    if (wire::steady_now() - recovery_->since > std::chrono::seconds(context_.config.hang_seconds))
      return raise(Event::unrecoverable, recovery_->why + "; training cannot be started again: " + error.what());
    retry_recovery_ = loop_.after(kLocalTrouble, [this] { retry_recovery(); });
  }
}

// Attempts that fail at once are used up before a silent node is doubted, and what is left without it was not tried.
bool Launcher::wait_for_doubts() {
  const auto beats = (kFalters + 2) * std::chrono::milliseconds(std::lround(context_.config.heartbeat_seconds * 1000));
  const auto until = recovery_->last_loss + beats, now = wire::steady_now();
  if (now >= until) return false;
  retry_recovery_ = loop_.after(std::chrono::ceil<std::chrono::milliseconds>(until - now), [this] {
    doubt_nodes();
    retry_recovery();
  });
  return true;
}

void Launcher::retry_recovery() {
  retry_recovery_.reset();
  if (phase_ == JobPhase::recovering && !next_) try_recovery();
}

// The plan as it was where all its GPUs are left, else the best on those that are.
std::optional<Launcher::RecoveryPlan> Launcher::choose_recovery_plan() {
  const auto left = gpus_left();
  std::vector<GpuId> candidates;
  for (const GpuId& gpu : plan_.ranks())
    if (left.contains(gpu)) candidates.push_back(gpu);
  candidates = with_lead(std::move(candidates), own_holdings());
  const auto own = context_.anchor_gpus();
  const std::set<GpuId> anchor(own.begin(), own.end());
  for (;;) {
    const auto chosen = faults_.choose(wire::steady_now(), candidates, anchor);
    if (chosen.empty()) return std::nullopt;
    if (static_cast<int>(chosen.size()) == plan_.gpu_count()) return RecoveryPlan{plan_, chosen};
    if (auto plan = plan_on_subset(state(), chosen)) return RecoveryPlan{*plan, chosen};
    faults_.tried(chosen);
  }
}

void Launcher::send_recover() {
  recovery_->at["ready"] = wire::steady_now();
  next_->send_all(wire::Load{-1});
}

void Launcher::commit_recovery() {
  recovery_->at["commit"] = wire::steady_now();
  recovery_->taken = next_->taken();
  next_->send_all(wire::Commit{});
  step_ = recovery_->taken->step;
  succeed(recovery_->plan, step_);
  step_seconds_ = 0;
  profiles_.forget();
  for (const Holding& holding : extensions_->holdings(false))
    if (!uses(plan_, holding)) extensions_->release(holding.job);
}

void Launcher::finish_recovery(const std::string& result) {
  Recovery recovery = std::move(*recovery_);
  recovery_.reset();
  const auto now = wire::steady_now();
  const auto between = [&](const char* from, const char* to) {
    return recovery.at.contains(from) && recovery.at.contains(to) ? milliseconds(recovery.at[to] - recovery.at[from])
                                                                  : 0.0;
  };
  wire::Outcome outcome;
  outcome.job = context_.job;
  outcome.kind = DecisionKind::recover;
  outcome.result = result;
  outcome.generation = generation_;
  outcome.plan = plan_;
  outcome.step = step_;
  outcome.reason = recovery.why + " after step " + std::to_string(recovery.last_step);
  if (recovery.taken) {
    outcome.step = recovery.taken->step;
    outcome.pause_ms = milliseconds(recovery.at["commit"] - recovery.since);
    outcome.phases_ms = {{"start", milliseconds(recovery.at["ready"] - recovery.since)},
                         {"load", between("ready", "commit")},
                         {"first_step", milliseconds(now - recovery.at["commit"])}};
    const std::string after = outcome.step == recovery.last_step ? "" : " of step " + std::to_string(outcome.step);
    outcome.reason += "; training went on " + in_words(recovery.taken->from) + after;
    spdlog::warn("espalier: launch: {}, {:.1f} s later: generation {}, {}", outcome.reason,
                 milliseconds(now - recovery.since) / 1000, generation_, describe(plan_));
  }
  planner_->report_outcome(outcome);
}

// ---- what older generations left

// The next generation is the job, and begins after `step`. Lost before its first step it may have left less than the
// one before it: that one's state, and copies of it, are of use until the new one has both.
void Launcher::succeed(const Plan& plan, std::int64_t step) {
  earlier_.insert(earlier_.begin(), {generation_, plan_, false, step});
  for (auto& one : earlier_) one.step = std::min(one.step, step);
  if (earlier_.size() > kMostEarlier) earlier_.resize(kMostEarlier);
  for (std::size_t i = kMostWhole; i < earlier_.size(); ++i) earlier_[i].copies_only = true;
  current_ = std::move(next_);
  plan_ = plan;
  generation_ = current_->generation();
  has_trained_ = false;
  if (earlier_.size() > kMostWhole) tell_what_to_keep();
}

// After each step. What a generation trains on it has from those before it, often in the same memory.
void Launcher::let_go(const wire::Step& step) {
  if (earlier_.empty() && has_trained_) return;
  const bool first = !std::exchange(has_trained_, true);
  // It may have begun earlier than it was to, from an older checkpoint.
  if (first)
    for (auto& one : earlier_) one.step = std::min(one.step, step.step - 1);
  // A rank without a vault never has what a loss needs.
  const bool settled = step.settled || (!earlier_.empty() && step.step - earlier_.front().step >= kSettlesAnyway);
  if (!first && !settled) return;
  for (auto& one : earlier_) one.copies_only = true;
  if (settled) earlier_.clear();
  tell_what_to_keep();
}

// The first step of a generation that fails by itself may have lacked the memory that what is older takes.
bool Launcher::makes_room() {
  if (has_trained_ || std::all_of(earlier_.begin(), earlier_.end(), [](const auto& one) { return one.copies_only; }))
    return false;
  for (auto& one : earlier_) one.copies_only = true;
  tell_what_to_keep();
  return true;
}

void Launcher::tell_what_to_keep() const {
  const wire::Keep what = what_to_keep();
  extensions_->keep(what);
  for (const AnchorKeeper& keeper : anchor_keepers_)
    if (keeper.connection) keeper.connection->send(what);
  if (keep_) keep_(what);
}

wire::Keep Launcher::what_to_keep() const {
  int whole = generation_, copies = generation_;
  for (const auto& one : earlier_) {
    copies = std::min(copies, one.generation);
    if (!one.copies_only) whole = std::min(whole, one.generation);
  }
  return {whole, copies};
}

}  // namespace espalier::launcher
