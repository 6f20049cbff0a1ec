#include "tests/bench/daemon/played_launcher.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "planner/daemon/clock.hpp"

namespace espalier::bench {
namespace {

using Milliseconds = wire::Loop::Milliseconds;

// About what RESULTS.md has for a box: Slurm grants extensions, and ranks start beside training.
constexpr Milliseconds kGranted{900}, kReady{1400};
constexpr int kProfileEvery = 60;  // statuses, of one a second

// MUNGE knows the user by the thread that asks it. The connection's thread is made with this thread's user.
class ThreadUser {
 public:
  explicit ThreadUser(uid_t uid) { change(uid); }
  ~ThreadUser() { change(0); }
  ThreadUser(const ThreadUser&) = delete;
  ThreadUser& operator=(const ThreadUser&) = delete;

 private:
  static void change(uid_t uid) {
    if (::syscall(SYS_setresuid, -1, uid, -1) != 0) throw Error("cannot become another user; run it as root");
  }
};

// The plan with the GPUs that were granted in place of those that the planner foresaw on the same nodes.
Plan on_granted(Plan plan, const std::vector<Holding>& own, const std::vector<Holding>& granted) {
  std::map<std::string, std::vector<int>> fresh;
  for (const Holding& held : granted)
    fresh[held.node].insert(fresh[held.node].end(), held.gpus.begin(), held.gpus.end());
  const auto is_own = [&](const GpuId& gpu) {
    return std::any_of(own.begin(), own.end(), [&](const Holding& held) {
      return held.node == gpu.node && std::find(held.gpus.begin(), held.gpus.end(), gpu.index) != held.gpus.end();
    });
  };
  std::map<std::string, std::size_t> next;
  for (Stage& stage : plan.stages)
    for (Replica& replica : stage.replicas)
      for (GpuId& gpu : replica.gpus)
        if (!is_own(gpu)) gpu.index = fresh.at(gpu.node).at(next[gpu.node]++);
  return plan;
}

}  // namespace

PlayedLauncher::PlayedLauncher(wire::Loop& loop, PlayedSite& site, const Where& where, const JobKind& kind, JobId job,
                               uid_t uid, std::vector<Holding> anchor, LauncherCounts& counts,
                               std::function<void(const std::vector<Holding>&)> released, std::mt19937& random)
    : loop_(loop), site_(site), kind_(kind), begun_(clock_seconds()), counts_(counts), released_(std::move(released)) {
  job_.id = job;
  job_.uid = uid;
  job_.name = "train";
  job_.min_gpus = kind.gpus;
  job_.max_gpus = 64;
  job_.accuracy = Accuracy::relaxed;
  job_.model = kind.model;
  job_.plan = placed(kind.plan, anchor);
  job_.phase = JobPhase::running;
  job_.anchor = std::move(anchor);
  job_.step_seconds = kind.step_seconds;
  job_.total_steps = 1000000;
  launcher::PlannerLink::Callbacks callbacks;
  callbacks.state = [this] {
    ElasticJob now = state();
    if (now.plan && now.generation == 0)
      now.profile = profile_on(kind_, *now.plan, std::max<std::int64_t>(8, now.step));
    return now;
  };
  callbacks.proposed = [this](const Decision& decision) { proposed(decision); };
  callbacks.registered = [this] { registered_with_ = counts_.espalierd; };
  callbacks.known = [](const wire::Known&) {};
  callbacks.unplanned = [](const std::string&) {};
  callbacks.deadline = [](const wire::DeadlineChecked&) {};
  callbacks.unreachable = [this](const std::string& why) {
    if (++counts_.unreachable <= 5) std::fprintf(stderr, "job %u: %s\n", job_.id, why.c_str());
  };
  callbacks.refused = [this](const std::string& why) {
    if (left_) return;  // its job has ended: rightly so
    if (++counts_.refused <= 5) std::fprintf(stderr, "job %u: refused: %s\n", job_.id, why.c_str());
  };
  {
    const ThreadUser user(uid);
    link_ = std::make_unique<launcher::PlannerLink>(loop, where.host, where.port, std::vector{where.planner_uid},
                                                    std::move(callbacks));
  }
  // Launchers report at different moments of a second.
  next_ = loop.after(Milliseconds(random() % 1000), [this] {
    every_second_ = loop_.every(Milliseconds(1000), [this] { report(++statuses_ % kProfileEvery == 0); });
  });
}

PlayedLauncher::~PlayedLauncher() = default;

ElasticJob PlayedLauncher::state() const {
  ElasticJob now = job_;
  now.step = first_step_ + static_cast<std::int64_t>((clock_seconds() - begun_) / job_.step_seconds);
  return now;
}

void PlayedLauncher::report(bool profile) {
  ElasticJob now = state();
  if (profile && now.plan && now.generation == 0) now.profile = profile_on(kind_, *now.plan, now.step);
  link_->report(wire::Status{std::move(now)});
}

void PlayedLauncher::phase(JobPhase phase, const char* event) {
  wire::Transition transition;
  transition.job = job_.id;
  transition.time = clock_seconds();
  transition.from = to_string(job_.phase);
  transition.event = event;
  transition.to = to_string(phase);
  transition.generation = job_.generation;
  transition.decision = decision_ ? decision_->id : 0;
  job_.phase = phase;
  link_->report(transition);
  report(false);
}

void PlayedLauncher::proposed(const Decision& decision) {
  if (decision_) return;  // the launcher answers one after the other; espalierd waits for the outcome
  ++counts_.proposals;
  decision_ = decision;
  acquired_.clear();
  phase(decision.acquire.empty() ? JobPhase::starting : JobPhase::acquiring, "proposed");
  next_ = loop_.after(decision.acquire.empty() ? Milliseconds(0) : kGranted, [this] { granted(); });
}

void PlayedLauncher::granted() {
  for (const ExtensionRequest& request : decision_->acquire) {
    auto held = site_.extend(job_.id, job_.uid, request.node, request.gpus);
    if (!held) return abort("aborted: Slurm did not start an extension on " + request.node);
    acquired_.push_back(std::move(*held));
  }
  phase(JobPhase::starting, "granted");
  next_ = loop_.after(kReady, [this] { commit(); });
}

void PlayedLauncher::commit() {
  phase(JobPhase::ready, "ready");
  std::vector<Holding> own = job_.anchor;
  own.insert(own.end(), job_.extensions.begin(), job_.extensions.end());
  job_.plan = on_granted(decision_->plan, own, acquired_);
  job_.extensions.insert(job_.extensions.end(), acquired_.begin(), acquired_.end());
  for (const JobId id : decision_->release) end_extension(id);
  first_step_ = state().step;
  begun_ = clock_seconds();
  job_.step_seconds = decision_->predicted_step_seconds;
  ++job_.generation;
  ++counts_.committed;
  wire::Outcome outcome;
  outcome.job = job_.id;
  outcome.decision = decision_->id;
  outcome.kind = decision_->kind;
  outcome.result = "committed";
  outcome.generation = job_.generation;
  outcome.step = first_step_;
  outcome.pause_ms = 1;
  outcome.phases_ms = {{"acquire", kGranted.count()}, {"start", kReady.count()}, {"pause", 1}};
  outcome.plan = *job_.plan;
  link_->report_outcome(outcome);
  phase(JobPhase::running, "committed");
  decision_.reset();
}

void PlayedLauncher::abort(const std::string& why) {
  for (const Holding& held : acquired_) released_(site_.end(held.job));
  ++counts_.aborted;
  wire::Outcome outcome;
  outcome.job = job_.id;
  outcome.decision = decision_->id;
  outcome.kind = decision_->kind;
  outcome.result = why;
  outcome.generation = job_.generation;
  outcome.step = state().step;
  link_->report_outcome(outcome);
  phase(JobPhase::running, "aborted");
  decision_.reset();
}

void PlayedLauncher::end_extension(JobId extension) {
  std::erase_if(job_.extensions, [&](const Holding& held) { return held.job == extension; });
  released_(site_.end(extension));
}

void PlayedLauncher::leave() {
  left_ = true;
  next_.reset();
  every_second_.reset();
  for (const auto* all : {&job_.extensions, &acquired_})
    for (const Holding& held : *all) {
      const bool kept = all == &acquired_ && std::any_of(job_.extensions.begin(), job_.extensions.end(),
                                                         [&](const Holding& one) { return one.job == held.job; });
      if (!kept) released_(site_.end(held.job));
    }
  link_->leave({job_.id, 0});
  released_(site_.end(job_.id));
}

}  // namespace espalier::bench
