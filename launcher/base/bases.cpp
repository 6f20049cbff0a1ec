#include "launcher/base/bases.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "launcher/base/base_request.hpp"
#include "launcher/slurm/requeued.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

constexpr wire::Loop::Milliseconds kWatch{5000}, kConfirm{150};
// A second base that has not been granted this long after the backfill scheduler's next look is withdrawn, whatever it
// waits for: limits of its user or QOS that cannot hold two bases, GPUs that another job has taken meanwhile, or a busy
// slurmctld. Where an older job waits, only the backfill scheduler starts a base.
constexpr std::chrono::seconds kSecondWaits{10};
constexpr wire::Loop::Milliseconds kAskSecond{1000};  // while a second base waits
// After the base has started: for the keepers of its other nodes, which steps start.
constexpr wire::Loop::Milliseconds kKeepersCome{20000};
// Least steps on the new base before the one before it is given back, and the longest time that both are held then,
// e.g. with a program that places no copies.
constexpr int kStepsBeside = 5;
constexpr wire::Loop::Milliseconds kBothHeld{60000};
// One of so many looks asks Slurm whether it has requeued the job. A launcher that was cut off does not notice that.
constexpr int kLooksPerQuestion = 3;
constexpr int kMostTries = 3;  // of a move to a base that has arrived

// Whether a generation that an earlier launcher had has state on one of these GPUs.
bool holds_state(const std::vector<Holding>& holdings, const std::optional<wire::Continuation>& left) {
  if (!left || !left->source) return false;
  const auto used = [&](const auto& of) {
    const auto ranks = of.plan.ranks();
    return std::any_of(ranks.begin(), ranks.end(), [&](const GpuId& gpu) {
      return std::any_of(holdings.begin(), holdings.end(), [&](const Holding& held) {
        return held.node == gpu.node && std::find(held.gpus.begin(), held.gpus.end(), gpu.index) != held.gpus.end();
      });
    });
  };
  return used(*left->source) || std::any_of(left->source->earlier.begin(), left->source->earlier.end(), used);
}

// What Slurm said of the base counts also where it does not lower its time limit now. The next look tries again.
void shorten(const SlurmJob& base, std::time_t ends) {
  try {
    keep_within(base, ends);
  } catch (const Error& error) {
    spdlog::debug("base {}: {}", base.id, error.what());
  }
}

}  // namespace

Bases::Bases(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, std::vector<std::string> environment,
             Callbacks callbacks)
    : loop_(loop),
      slurm_(slurm),
      context_(context),
      environment_(std::move(environment)),
      callbacks_(std::move(callbacks)),
      time_(context.ends, context.base_minutes),
      first_base_(loop, slurm, context, environment_),
      left_jobs_(loop, slurm, context) {}

void Bases::start() {
  watch_ = loop_.every(kWatch, [this] { look(); });
  left_jobs_.ask([this](const std::vector<SlurmJob>& bases, const std::vector<SlurmJob>& extensions) {
    extensions_left_ = extensions;
    if (ending_) return give_back_extensions();
    if (bases.empty()) return submit_first();
    await_left(bases);
  });
}

// ---- what an earlier launcher has left

// Their keepers are found by the rank servers that `came` starts beside them.
void Bases::await_left(const std::vector<SlurmJob>& left) {
  for (const SlurmJob& job : left) adoption_.await(job.id);
  for (const SlurmJob& job : left) {
    Base& base = bases_[job.id];
    std::size_t gpus = 0;
    for (const Holding& held : job.holdings) gpus += held.gpus.size();
    base.shape.nodes = static_cast<int>(job.holdings.size());
    base.shape.gpus_per_node = base.shape.nodes == 0 ? 0 : static_cast<int>(gpus) / base.shape.nodes;
    base.shape.cpus_per_node = job.cpus / std::max(1, base.shape.nodes);
    base.shape.memory_mb_per_node = job.memory_mb_per_node;
    spdlog::info("espalier: launch: an earlier launcher of job {} has left base {}", context_.job, job.id);
  }
  callbacks_.changed();
  for (const SlurmJob& job : left) ask(job.id);
}

// All keepers of the bases that were left have come, or will not come.
void Bases::choose_left() {
  const Adoption::Choice choice = adoption_.choose(callbacks_.suits);
  for (const JobId id : choice.others) {
    // Training was moving, and the state is in part on the base before: that is left some steps later.
    if (choice.base != 0 && before_ == 0 && holds_state(bases_.at(id).holdings, adoption_.continuation())) before_ = id;
    else release(id);
  }
  if (before_ != 0) deadline_ = loop_.after(kBothHeld, [this] { give_back_before(); });
  if (choice.base == 0) {
    spdlog::warn("espalier: launch: what the earlier launcher has left is of no use: {}; training starts on a new base",
                 choice.why_none);
    give_back_extensions();
    return submit_first();
  }
  current_ = choice.base;
  callbacks_.changed();
  const Base& base = bases_.at(current_);
  const int gpus = base.shape.nodes * base.shape.gpus_per_node;
  time_.began(base.ends);
  callbacks_.taken_over(base.holdings, base.nodes, adoption_.continuation(), std::exchange(extensions_left_, {}));
  // It was a smaller one: what waited beside it has ended with its launcher.
  if (context_.base_gpus > context_.min_gpus && gpus < context_.base_gpus) submit_first();
}

void Bases::give_back_extensions() { left_jobs_.give_back(std::exchange(extensions_left_, {})); }

void Bases::ask_about_job() {
  slurm_.post([this, job = context_.job, restarts = context_.restarts]() -> std::function<void()> {
    bool newer = false;
    try {
      newer = has_been_requeued(job, restarts);
    } catch (const Error&) {
      // slurmctld is away: asked again later
    }
    return [this, newer] {
      if (newer) supersede();
    };
  });
}

void Bases::supersede() {
  if (!ending_ && !std::exchange(superseded_, true)) callbacks_.superseded();
}

// ---- the first base

void Bases::submit_first() {
  first_base_.submit(time_, [this](JobId id, const BaseShape& shape, const std::string& why) {
    if (id != 0) submitted(id, shape, true);
    if (id != 0 && ending_) return release(id);
    if (id == 0 && !ending_) refused("the job's base cannot be submitted: " + why);
  });
}

// The first base will never run. Training that is on a smaller one goes on there.
void Bases::refused(const std::string& why) {
  if (current_ == 0) return callbacks_.refused(why);
  spdlog::warn("espalier: launch: {}; training stays on base {}", why, current_);
}

void Bases::start_smaller(const std::vector<ExtensionRequest>& nodes) {
  if (waits() == 0) throw Error("its base does not wait, or a smaller one is there already");
  acquire(nodes);
}

JobId Bases::waits() const {
  const bool none = current_ == 0 && second_ == 0 && !acquiring_ && !ending_;
  return none && context_.base_gpus > context_.min_gpus ? first_waits_ : 0;
}

void Bases::acquire(const std::vector<ExtensionRequest>& nodes) {
  ++attempt_;
  acquiring_ = true;
  const BaseShape& now = bases_.at(current_ != 0 ? current_ : first_waits_).shape;
  std::vector<std::string> only;
  only.reserve(nodes.size());
  for (const ExtensionRequest& request : nodes) only.push_back(request.node);
  const std::chrono::seconds waits = kSecondWaits + std::chrono::seconds(std::min(context_.site.backfill_seconds, 60));
  deadline_ =
      loop_.after(waits, [this, waits] { fail("it was not granted within " + std::to_string(waits.count()) + " s"); });
  submit_second(same_per_gpu(now, static_cast<int>(nodes.size()), nodes.front().gpus), std::move(only), true);
}

void Bases::submit_second(const BaseShape& shape, std::vector<std::string> only, bool immediate) {
  ++submitting_;
  const BaseJob job = base_job(context_, time_, shape, std::move(only), environment_, immediate);
  slurm_.post([this, job, attempt = attempt_]() -> std::function<void()> {
    JobId id = 0;
    std::string why;
    try {
      id = submit_base(job);
    } catch (const Error& error) {
      why = error.what();
    }
    return [this, job, attempt, id, why] {
      --submitting_;
      const bool stale = ending_ || attempt != attempt_ || !acquiring_;
      if (id == 0) {
        if (stale) return;
        // A refusal to start at once only means that it must wait in the queue, for some seconds.
        return job.immediate ? submit_second(job.shape, job.only, false) : fail(why);
      }
      submitted(id, job.shape, false);
      if (!stale) return;
      if (second_ == id) second_ = 0;  // nobody waits for it any more
      release(id);
    };
  });
}

void Bases::submitted(JobId id, const BaseShape& shape, bool first) {
  bases_[id].shape = shape;
  (first ? first_waits_ : second_) = id;
  spdlog::info("espalier: launch: {} base of job {} is Slurm job {}: {} node(s) with {} GPU(s) each",
               first           ? "the"
               : current_ == 0 ? "a smaller"
                               : "a second",
               context_.job, id, shape.nodes, shape.gpus_per_node);
  callbacks_.changed();
  ask(id);
}

// A keeper may come before Slurm's answer to the submission. It tries again, and the base is known in a moment.
void Bases::saw(const wire::KeeperHello& hello) {
  const auto at = bases_.find(hello.job);
  if (at == bases_.end()) throw Error("keeper: job " + std::to_string(hello.job) + " is no base of this job");
  if (at->second.leaving) throw Error("keeper: base " + std::to_string(hello.job) + " is being given back");
  at->second.keepers.insert(hello.node);
  if (hello.continuation) adoption_.heard(*hello.continuation);
  if (!at->second.running) return ask(hello.job);
  // Training may start in check_granted(). If that fails, e.g. because the disk is full, the job ends with that error.
  // Called from here, the error would only make the launcher refuse the keeper.
  loop_.defer([this, id = hello.job] { check_granted(id, true); });
}

void Bases::noticed(JobId id) {
  if (const auto at = bases_.find(id); at != bases_.end() && !at->second.leaving) ask(id);
}

void Bases::look() {
  if (looks_++ % kLooksPerQuestion == 0) ask_about_job();
  std::vector<JobId> ids;
  for (const auto& [id, base] : bases_)
    if (!base.leaving) ids.push_back(id);
  for (const JobId id : ids) ask(id);
  // Training may not have begun when it arrived, or nothing may have happened since that could have moved it there.
  if (!ending_ && !arrived_holdings().empty()) callbacks_.arrived();
}

void Bases::ask(JobId id) {
  Base& base = bases_.at(id);
  if (std::exchange(base.asked, true)) return;
  slurm_.post([this, id, runs = base.running, time = time_]() -> std::function<void()> {
    std::optional<SlurmJob> seen;
    std::vector<NodeView> nodes;
    bool readable = true;
    try {
      seen = load_job(id);
      if (seen) shorten(*seen, time.ends(std::time(nullptr)));
      if (seen && seen->state == SlurmJob::State::running && !runs) {
        std::vector<std::string> names;
        for (const Holding& held : seen->holdings) names.push_back(held.node);
        nodes = load_nodes(names);
      }
    } catch (const Error&) {
      readable = false;  // slurmctld is away: asked again later
    }
    return [this, id, seen, nodes, readable] {
      const auto at = bases_.find(id);
      if (at == bases_.end()) return;
      at->second.asked = false;
      if (readable && !at->second.leaving) answered(id, seen, nodes);
    };
  });
}

void Bases::answered(JobId id, const std::optional<SlurmJob>& seen, const std::vector<NodeView>& nodes) {
  Base& base = bases_.at(id);
  const bool gone = !seen || seen->state == SlurmJob::State::ended;
  // A base that completes is lost when its processes are; until then a checkpoint can still be written. Training does
  // not go over to a second base that completes.
  if (gone || (seen->state == SlurmJob::State::completing && (id == second_ || !base.granted || base.keepers.empty())))
    return end(id, "its base, Slurm job " + std::to_string(id) + ", has ended");
  if (seen->state == SlurmJob::State::pending && id == second_ && acquiring_) {
    if (seen->limited)
      return fail("Slurm job " + std::to_string(id) +
                  " waits for a limit of its user, account or QOS, which the job's bases together exceed");
    base.check = loop_.after(kAskSecond, [this, id] { noticed(id); });
  }
  if (seen->state != SlurmJob::State::running || base.running) return;
  base.running = true;
  base.holdings = seen->holdings;
  base.ends = seen->ends;
  base.nodes = nodes;
  std::size_t gpus = 0;
  for (const Holding& held : base.holdings) gpus += held.gpus.size();
  if (static_cast<int>(gpus) != base.shape.nodes * base.shape.gpus_per_node)
    return end(id, "Slurm job " + std::to_string(id) + " got " + std::to_string(gpus) + " GPUs, not those asked for");
  for (const Holding& held : base.holdings) callbacks_.came(held);
  base.check = loop_.after(kKeepersCome, [this, id] { check_granted(id, false); });
  check_granted(id, true);
}

// `patient`: keepers that have not come yet are waited for.
void Bases::check_granted(JobId id, bool patient) {
  const auto at = bases_.find(id);
  if (at == bases_.end()) return;
  Base& base = at->second;
  if (!base.running || base.granted || base.leaving) return;
  const bool all = std::all_of(base.holdings.begin(), base.holdings.end(),
                               [&](const Holding& held) { return base.keepers.contains(held.node); });
  if (!all && patient) return;
  if (base.keepers.empty()) return end(id, "no keeper of Slurm job " + std::to_string(id) + " has come");
  if (!all)
    spdlog::warn("espalier: launch: not every node of base {} has a keeper; state there does not outlive its workers",
                 id);
  base.granted = true;
  base.check.reset();
  if (adoption_.came(id)) {
    if (adoption_.complete()) choose_left();
    return;
  }
  if (id == first_waits_) return granted_first(id);
  if (id != second_ || !acquiring_) return;
  acquiring_ = false;
  deadline_.reset();
  if (current_ != 0) return callbacks_.second_granted();
  current_ = std::exchange(second_, 0);
  time_.began(base.ends);
  callbacks_.changed();
  callbacks_.smaller_granted(base.holdings, base.nodes);
}

void Bases::granted_first(JobId id) {
  first_waits_ = 0;
  if (current_ != 0) {
    arrived_ = id;
    return callbacks_.arrived();
  }
  fail("the base that waited has been granted");  // a smaller one, if there is one
  current_ = id;
  callbacks_.changed();
  const Base& base = bases_.at(id);
  time_.began(base.ends);
  callbacks_.granted(base.holdings, base.nodes);
}

void Bases::take_arrived() {
  second_ = arrived_;
  callbacks_.changed();
}

void Bases::give_back_arrived(const std::string& why) {
  if (arrived_ == 0) return;
  spdlog::warn("espalier: launch: base {} is given back: {}; training stays on base {}", arrived_, why, current_);
  release(std::exchange(arrived_, 0));
}

void Bases::fail(const std::string& why) {
  if (!acquiring_) return;
  cancel_second();
  if (current_ == 0) {
    callbacks_.changed();
    return callbacks_.smaller_failed(why);
  }
  callbacks_.second_failed(why);
}

void Bases::cancel_second() {
  acquiring_ = false;
  ++attempt_;
  if (second_ != 0 && second_ == arrived_) {
    second_ = 0;
    if (++tries_ == kMostTries) give_back_arrived(std::to_string(tries_) + " moves to it have failed");
    return;
  }
  if (before_ == 0) deadline_.reset();  // else it is the limit on holding both
  if (const JobId id = std::exchange(second_, 0); id != 0) release(id);
}

void Bases::promote(wire::Loop::Milliseconds longer) {
  if (second_ == 0) return;
  before_ = std::exchange(current_, std::exchange(second_, 0));
  if (current_ == arrived_) arrived_ = 0;
  steps_beside_ = 0;
  deadline_ = loop_.after(kBothHeld + longer, [this] { give_back_before(); });
  callbacks_.changed();
}

void Bases::stepped(bool settled) {
  if (before_ != 0 && ++steps_beside_ >= kStepsBeside && settled) give_back_before();
}

void Bases::give_back_before() {
  if (before_ != 0) release(std::exchange(before_, 0));
}

// The base has ended without this object's doing.
void Bases::end(JobId id, const std::string& why) {
  const bool first = id == first_waits_, runs = id == current_, second = id == second_;
  if (first) first_waits_ = 0;
  if (runs) current_ = 0;
  if (second) second_ = 0;
  if (id == arrived_) arrived_ = 0;
  if (id == before_) before_ = 0;
  release(id);
  if (ending_) return;
  const bool chosen = adoption_.complete();
  if (adoption_.ended(id)) {
    if (!chosen && adoption_.complete()) choose_left();
    return;
  }
  if (first) return refused(why + (current_ == 0 ? " before the training could start" : " while it waited"));
  if (runs) return callbacks_.lost(why);
  if (!second) return;
  if (acquiring_) return fail(why);
  callbacks_.second_failed(why);
}

void Bases::release(JobId id) {
  Base& base = bases_.at(id);
  if (std::exchange(base.leaving, true)) return;
  callbacks_.leaves(id);
  callbacks_.changed();
  confirm_release(id);
}

void Bases::confirm_release(JobId id) {
  slurm_.post_first([this, id, submitted = context_.job, restarts = context_.restarts]() -> std::function<void()> {
    bool gone = false;
    try {
      // Slurm may have requeued the job, and its next launcher trains on the base.
      if (has_been_requeued(submitted, restarts)) gone = true;
      else give_back(id);
      const auto job = load_job(id);
      gone = gone || !job || job->state == SlurmJob::State::ended || job->state == SlurmJob::State::completing;
    } catch (const Error& error) {
      spdlog::debug("base {}: {}", id, error.what());
    }
    return [this, id, gone] {
      const auto at = bases_.find(id);
      if (at == bases_.end()) return;
      if (gone) {
        bases_.erase(at);
        return callbacks_.changed();
      }
      at->second.check = loop_.after(kConfirm, [this, id] { confirm_release(id); });
    };
  });
}

void Bases::release_all() {
  left_jobs_.stop();
  first_base_.stop();
  give_back_extensions();
  ending_ = true;
  acquiring_ = false;
  deadline_.reset();
  watch_.reset();
  std::vector<JobId> ids;
  for (const auto& [id, base] : bases_) ids.push_back(id);
  for (const JobId id : ids) release(id);
}

std::vector<Holding> Bases::second_holdings() const {
  const auto at = bases_.find(second_);
  return at != bases_.end() && at->second.granted ? at->second.holdings : std::vector<Holding>();
}

std::vector<Holding> Bases::arrived_holdings() const {
  const auto at = bases_.find(arrived_);
  return at != bases_.end() && second_ == 0 && before_ == 0 ? at->second.holdings : std::vector<Holding>();
}

std::vector<NodeView> Bases::second_nodes() const {
  const auto at = bases_.find(second_);
  return at != bases_.end() && at->second.granted ? at->second.nodes : std::vector<NodeView>();
}

std::vector<Holding> Bases::before_holdings() const {
  const auto at = bases_.find(before_);
  return at != bases_.end() ? at->second.holdings : std::vector<Holding>();
}

std::vector<JobId> Bases::held() const {
  std::vector<JobId> ids;
  for (const auto& [id, base] : bases_)
    if (!base.leaving) ids.push_back(id);
  return ids;
}

}  // namespace espalier::launcher
