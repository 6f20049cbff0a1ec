#include "launcher/recovery/recovery.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "launcher/job/holdings.hpp"
#include "launcher/node/anchor_keepers.hpp"
#include "launcher/recovery/recovery_plan.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {

constexpr auto kLocalTrouble = std::chrono::seconds(1);  // until the next attempt, if this node or Slurm is the problem
// The same if the base's nodes are cut off. A switch that fails may cut off many jobs, and each try asks Slurm.
constexpr auto kBaseTrouble = std::chrono::seconds(5);
// After this time the user is told that slurmctld does not answer. Longer than Slurm's MessageTimeout, which is 10 s by
// default.
constexpr auto kSlurmAnswers = std::chrono::seconds(30);
// After its restart slurmctld refuses steps until the nodes have registered.
constexpr auto kSlurmSettles = std::chrono::seconds(30);
// After the n-th attempt the job waits n * n times kBetweenTries, at most kMostBetweenTries. An attempt that failed at
// once would fail again at once. A step that Slurm refuses now may start some seconds later, and the state on its node
// is worth the wait.
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

Recovery::Recovery(wire::Loop& loop, const JobContext& context, Generations& generations, StepWatch& steps,
                   HeldGpus& held, Callbacks callbacks)
    : loop_(loop),
      context_(context),
      generations_(generations),
      steps_(steps),
      held_(held),
      callbacks_(std::move(callbacks)),
      question_(loop, callbacks_.ask) {}

// ---- the loss

void Recovery::blame(const Loss& loss) {
  died_.insert(loss.died.begin(), loss.died.end());
  if (!loss.of_server) blamed_.insert(loss.died.begin(), loss.died.end());
}

void Recovery::suspect(const Loss& loss) { faults_.suspect(loss.absent); }

void Recovery::lost(const std::string& why) {
  if (now_) {  // lost again before the first step: one message reports both losses
    now_->why += "; then " + why;
    now_->taken.reset();
    return;
  }
  now_ = State{};
  now_->why = why;
  now_->since = wire::steady_now();
  now_->last_step = steps_.step();
}

void Recovery::inherited(const std::string& why, Time since) {
  now_ = State{};
  now_->why = why;
  now_->since = since;
}

void Recovery::bury(bool trained) {
  callbacks_.doubt(died_);
  const auto left = held_.left();
  const auto ranks = generations_.plan().ranks();
  const bool explained =
      !trained || std::any_of(ranks.begin(), ranks.end(), [&](const GpuId& gpu) { return !left.contains(gpu); });
  died_.clear();
  faults_.lost(wire::steady_now(), steps_.step(), std::exchange(blamed_, {}), explained);
}

void Recovery::faulty(const std::set<GpuId>& gpus) { faults_.faulty(wire::steady_now(), gpus); }
std::set<GpuId> Recovery::unfit() const { return faults_.unfit(wire::steady_now()); }

// ---- attempts

void Recovery::start() {
  callbacks_.doubt(died_);
  const auto now = wire::steady_now();
  if (died_.empty() && now_->slurm_back && now - *now_->slurm_back < kSlurmSettles) {
    faults_.excuse();
    return retry_in(kLocalTrouble);
  }
  now_->last_loss = now;
  died_.clear();
  faults_.failed(now, std::exchange(blamed_, {}));  // deaths in the attempt before this one
  const int attempts = faults_.attempts();
  if (attempts == 0) return ask_slurm_first();
  retry_in(std::min(kBetweenTries * attempts * attempts, kMostBetweenTries));
}

void Recovery::retry_in(wire::Loop::Milliseconds delay, bool doubts) {
  retry_ = loop_.after(delay, [this, doubts] {
    if (doubts) callbacks_.doubt(died_);
    retry_.reset();
    if (tries()) ask_slurm_first();
  });
}

// First asks Slurm about the nodes that the plan used, unless they all are this node. Slurm starts the next
// generation's processes there. Slurm may refuse to, e.g. because it ends the extension, or slurmctld may be away. A
// generation without these nodes would lose the state that was left on them, so the attempt waits for slurmctld.
void Recovery::ask_slurm_first() {
  std::set<JobId> needed;
  const GpusOfPlan used(generations_.plan());
  for (const Holding& holding : held_.all(false))
    if ((holding.job != context_.job || holding.node != context_.node) && used.any_of(holding))
      needed.insert(holding.job);
  if (needed.empty()) return attempt();
  needed.insert(context_.base);  // the answer replaces the last one, and must again name the anchor's withdrawn nodes
  const std::chrono::seconds patience(context_.config.hang_seconds);
  const auto left = std::chrono::duration_cast<wire::Loop::Milliseconds>(patience - (wire::steady_now() - now_->since));
  question_.put(
      needed, {kSlurmAnswers, std::max<wire::Loop::Milliseconds>(left, kSlurmAnswers)},
      [this] {
        if (tries()) slurm_is_away("it has not answered yet");
      },
      [this](const SlurmAnswer& answer) { slurm_said(answer); });
}

void Recovery::slurm_is_away(const std::string& why) {
  if (!std::exchange(now_->waits_for_slurm, true))
    spdlog::warn("espalier: launch: {}; slurmctld is away ({}): training goes on when it is back", now_->why, why);
}

void Recovery::slurm_said(const SlurmAnswer& answer) {
  if (!tries()) return;
  retry_.reset();
  const auto waited = wire::steady_now() - now_->since;
  if (!answer.away.empty() && waited < std::chrono::seconds(context_.config.hang_seconds)) {
    slurm_is_away(answer.away);
    return retry_in(kLocalTrouble);
  }
  if (answer.away.empty()) held_.heard(answer);
  if (now_->waits_for_slurm && !now_->slurm_back) now_->slurm_back = wire::steady_now();
  attempt();
}

bool Recovery::tries() const { return callbacks_.phase() == JobPhase::recovering && generations_.next() == nullptr; }

void Recovery::attempt() {
  now_->at = {{"start", wire::steady_now()}};
  // The nodes of a base may be cut off for a while. If Slurm ends the base, the job ends by that.
  const auto patience = std::chrono::seconds(context_.config.hang_seconds);
  if (held_.own().empty() && context_.movable && wire::steady_now() - now_->since < patience) {
    if (!std::exchange(now_->waits_for_base, true))
      spdlog::warn(
          "espalier: launch: {}; no node of its base answers: training goes on when one does, within {} s "
          "(launch.hang_seconds)",
          now_->why, patience.count());
    return retry_in(kBaseTrouble);
  }
  if (held_.own().empty())  // a job never trains on extensions alone
    return callbacks_.hopeless(now_->why +
                               "; nothing is left of its basic demand; submit the job again to go on from "
                               "its newest checkpoint");
  const auto unlost = held_.left();
  std::vector<GpuId> left = generations_.plan().ranks();
  std::erase_if(left, [&](const GpuId& gpu) { return !unlost.contains(gpu); });
  const GpusForRecovery gpus{held_.with_idle(std::move(left), {}), held_.own(), context_.anchor_gpus(),
                             context_.floor_gpus};
  const auto choice = choose_recovery_plan(faults_, wire::steady_now(), generations_.plan(), gpus, callbacks_.job(),
                                           callbacks_.known());
  if (!choice && faults_.attempts() > 0 && wait_for_doubts()) return;
  if (!choice) return callbacks_.hopeless(why_ended());
  now_->plan = choice->plan;
  try {
    generations_.start_next(choice->plan, wire::Assign::Source{generations_.number(), generations_.plan(), true, 0,
                                                               generations_.earlier().list()});
    faults_.tried(choice->chosen);
    callbacks_.attempts();
  } catch (const Error& error) {
    // A problem of this node, e.g. a full disk. Other GPUs do not help, but the problem may pass.
    now_->last_try = error.what();
    if (wire::steady_now() - now_->since > std::chrono::seconds(context_.config.hang_seconds))
      return callbacks_.hopeless(now_->why + "; training cannot be started again: " + error.what());
    retry_in(kLocalTrouble);
  }
}

std::string Recovery::why_ended() const {
  const int left = static_cast<int>(held_.left().size());
  std::string why = now_->why + "; ";
  if (left < context_.floor_gpus)
    why += std::to_string(left) + " GPUs are left, and MIN of --elastic is " + std::to_string(context_.floor_gpus) +
           "; submit the job again to go on from its newest checkpoint";
  else why += faults_.why_ended(callbacks_.job().total_steps);
  if (!now_->last_try.empty()) why += " (the last time: " + now_->last_try + ")";
  return why;
}

// Waits until silent nodes are doubted, so that the GPUs without them are tried too. Attempts that fail at once are
// used up before that. False: silent nodes have been doubted since the last loss.
bool Recovery::wait_for_doubts() {
  const auto beats =
      (AnchorKeepers::kFalters + 2) * std::chrono::milliseconds(std::lround(context_.config.heartbeat_seconds * 1000));
  const auto until = now_->last_loss + beats, now = wire::steady_now();
  if (now >= until) return false;
  retry_in(std::chrono::ceil<std::chrono::milliseconds>(until - now), true);
  return true;
}

// ---- going on

void Recovery::send_recover() {
  now_->at["ready"] = wire::steady_now();
  generations_.next()->send_all(wire::Load{-1});
}

void Recovery::commit() {
  now_->at["commit"] = wire::steady_now();
  now_->taken = generations_.next()->loads().taken();
  generations_.next()->send_all(wire::Commit{});
  steps_.begin_anew_after(now_->taken->step);
  generations_.succeed(now_->plan, now_->taken->step);
}

void Recovery::stepped() {
  if (now_ && now_->taken) finish("committed");
}

void Recovery::end() {
  if (now_) finish(now_->taken ? "committed" : "aborted: training did not go on");
}

void Recovery::finish(const std::string& result) {
  State done = std::move(*now_);
  now_.reset();
  const auto now = wire::steady_now();
  const auto between = [&](const char* from, const char* to) {
    return done.at.contains(from) && done.at.contains(to) ? milliseconds(done.at[to] - done.at[from]) : 0.0;
  };
  wire::Outcome outcome;
  outcome.job = context_.job;
  outcome.kind = DecisionKind::recover;
  outcome.result = result;
  outcome.generation = generations_.number();
  outcome.plan = generations_.plan();
  outcome.step = steps_.step();
  outcome.reason = done.why;
  if (done.last_step) outcome.reason += " after step " + std::to_string(*done.last_step);
  if (done.taken) {
    outcome.step = done.taken->step;
    outcome.pause_ms = milliseconds(done.at["commit"] - done.since);
    outcome.phases_ms = {{"start", milliseconds(done.at["ready"] - done.since)},
                         {"load", between("ready", "commit")},
                         {"first_step", milliseconds(now - done.at["commit"])}};
    const std::string after = outcome.step == done.last_step ? "" : " of step " + std::to_string(outcome.step);
    outcome.reason += "; training went on " + in_words(done.taken->from) + after;
    spdlog::warn("espalier: launch: {}, {:.1f} s later: generation {}, {}", outcome.reason,
                 milliseconds(now - done.since) / 1000, generations_.number(), describe(generations_.plan()));
  }
  callbacks_.report(outcome);
}

}  // namespace espalier::launcher
