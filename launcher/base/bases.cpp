#include "launcher/base/bases.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "launcher/base/base_request.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

constexpr wire::Loop::Milliseconds kWatch{5000};
// A second base that has not been granted this long after the backfill scheduler's next look is withdrawn, whatever it
// waits for: limits of its user or QOS that cannot hold two bases, GPUs that another job has taken meanwhile, or a busy
// slurmctld. Where an older job waits, only the backfill scheduler starts a base.
constexpr std::chrono::seconds kSecondWaits{10};
constexpr wire::Loop::Milliseconds kAskSecond{1000};  // while a second base waits
// Least steps on the new base before the one before it is given back, and the longest time that both are held then,
// e.g. with a program that places no copies.
constexpr int kStepsBeside = 5;
constexpr wire::Loop::Milliseconds kBothHeld{60000};
constexpr int kMostTries = 3;  // of a move to a base that has arrived

}  // namespace

Bases::Bases(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, std::vector<std::string> environment,
             Callbacks callbacks)
    : loop_(loop),
      slurm_(slurm),
      context_(context),
      callbacks_(std::move(callbacks)),
      time_(context.ends, context.base_minutes, context.base_most_minutes),
      jobs_(loop, slurm, context, time_, of_jobs()),
      first_base_(loop, slurm, context, environment),
      second_base_(slurm, context, std::move(environment)),
      left_jobs_(loop, slurm, context),
      next_launcher_(slurm, context, [this] { callbacks_.superseded(); }) {}

BaseJobs::Callbacks Bases::of_jobs() {
  BaseJobs::Callbacks on;
  on.came = callbacks_.came;
  on.leaves = callbacks_.leaves;
  on.changed = callbacks_.changed;
  on.granted = [this](JobId id) { granted(id); };
  on.ended = [this](JobId id, const std::string& why) { ended(id, why); };
  on.waits = [this](JobId id, bool limited) { still_waits(id, limited); };
  on.lost_when_completing = [this](JobId id) { return id == second_; };
  return on;
}

void Bases::start() {
  if (const std::string words = cut_short(context_, std::time(nullptr)); !words.empty())
    spdlog::warn("espalier: launch: {}", words);
  watch_ = loop_.every(kWatch, [this] { look(); });
  left_jobs_.ask([this](const LeftJobs::Left& left) {
    extensions_left_ = left.extensions;
    if (left.waits != 0) take_over_waiting(left.waits, left.waiting_shape);
    if (ending_) return give_back_extensions();
    if (!left.bases.empty()) return await_left(left.bases);
    go_on_with_first();
  });
}

// ---- what an earlier launcher has left

// It keeps its place in the queue. Its keepers look for the launcher that submitted it, and then for this one, by the
// rank servers that `came` starts beside them.
void Bases::take_over_waiting(JobId id, const BaseShape& shape) {
  jobs_.add(id, shape);
  if (ending_) return jobs_.release(id);
  first_waits_ = id;
  spdlog::info("espalier: launch: base {}, which an earlier launcher of job {} has submitted, waits on", id,
               context_.job);
  callbacks_.changed();
}

// Training is on a base that was left, or on none.
void Bases::go_on_with_first() {
  if (first_waits_ == 0) return submit_first();
  if (jobs_.at(first_waits_).granted) granted_first(first_waits_);
  else jobs_.ask(first_waits_);
}

// Their keepers are found by the rank servers that `came` starts beside them.
void Bases::await_left(const std::vector<SlurmJob>& left) {
  for (const SlurmJob& job : left) adoption_.await(job.id);
  for (const SlurmJob& job : left) {
    jobs_.add(job.id, shape_of(job));
    spdlog::info("espalier: launch: an earlier launcher of job {} has left base {}", context_.job, job.id);
  }
  callbacks_.changed();
  for (const SlurmJob& job : left) jobs_.ask(job.id);
}

// All keepers of the bases that were left have come, or will not come.
void Bases::choose_left() {
  const Adoption::Choice choice = adoption_.choose(callbacks_.suits);
  for (const JobId id : choice.others) {
    // Training was moving, and the state is in part on the base before: that is left some steps later.
    if (choice.base != 0 && before_ == 0 && adoption_.holds_state(jobs_.at(id).holdings)) before_ = id;
    else jobs_.release(id);
  }
  if (before_ != 0) deadline_ = loop_.after(kBothHeld, [this] { give_back_before(); });
  if (choice.base == 0) {
    spdlog::warn("espalier: launch: what the earlier launcher has left is of no use: {}; training starts on a new base",
                 choice.why_none);
    give_back_extensions();
    return go_on_with_first();
  }
  current_ = choice.base;
  callbacks_.changed();
  const BaseJobs::Base& base = jobs_.at(current_);
  const int gpus = base.shape.nodes * base.shape.gpus_per_node;
  time_.began(base.ends);
  callbacks_.taken_over(base.holdings, base.nodes, adoption_.continuation(), std::exchange(extensions_left_, {}));
  // It is a smaller one: the job still waits for the base.
  if (context_.base_gpus > context_.min_gpus && gpus < context_.base_gpus) return go_on_with_first();
  if (first_waits_ != 0) jobs_.release(std::exchange(first_waits_, 0));
}

void Bases::give_back_extensions() { left_jobs_.give_back(std::exchange(extensions_left_, {})); }

// ---- the first base

void Bases::submit_first() {
  first_base_.submit(time_, [this](JobId id, const BaseShape& shape, const std::string& why) {
    if (id != 0) submitted(id, shape, true);
    if (id != 0 && ending_) return jobs_.release(id);
    if (id == 0 && !ending_) refused("the job's base cannot be submitted: " + why);
  });
}

void Bases::steer(JobId base, const std::string& nodes) {
  if (base == first_waits_ && base != 0 && !ending_) first_base_.steer(base, jobs_.at(base).shape, nodes);
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
  const bool none = current_ == 0 && second_ == 0 && !acquiring_ && !ending_ && adoption_.complete();
  return none && context_.base_gpus > context_.min_gpus ? first_waits_ : 0;
}

void Bases::acquire(const std::vector<ExtensionRequest>& nodes) {
  ++attempt_;
  acquiring_ = true;
  const BaseShape& now = jobs_.at(current_ != 0 ? current_ : first_waits_).shape;
  std::vector<std::string> only;
  only.reserve(nodes.size());
  for (const ExtensionRequest& request : nodes) only.push_back(request.node);
  const std::chrono::seconds waits = kSecondWaits + std::chrono::seconds(std::min(context_.site.backfill_seconds, 60));
  deadline_ =
      loop_.after(waits, [this, waits] { fail("it was not granted within " + std::to_string(waits.count()) + " s"); });
  const auto wanted = [this, attempt = attempt_] { return !ending_ && attempt == attempt_ && acquiring_; };
  second_base_.submit(current_, time_, same_per_gpu(now, static_cast<int>(nodes.size()), nodes.front().gpus),
                      std::move(only), wanted, [this, wanted, beside = current_](const SecondBase::Answer& answer) {
                        if (beside == current_) time_ = answer.time;
                        if (answer.id == 0) return fail(answer.why);
                        submitted(answer.id, answer.shape, false);
                        if (wanted()) return;
                        if (second_ == answer.id) second_ = 0;  // nobody waits for it any more
                        jobs_.release(answer.id);
                      });
}

void Bases::submitted(JobId id, const BaseShape& shape, bool first) {
  jobs_.add(id, shape);
  (first ? first_waits_ : second_) = id;
  spdlog::info("espalier: launch: {} base of job {} is Slurm job {}: {} node(s) with {} GPU(s) each",
               first           ? "the"
               : current_ == 0 ? "a smaller"
                               : "a second",
               context_.job, id, shape.nodes, shape.gpus_per_node);
  callbacks_.changed();
  jobs_.ask(id);
}

void Bases::saw(const wire::KeeperHello& hello) {
  jobs_.saw(hello);
  if (hello.continuation) adoption_.heard(*hello.continuation);
}

void Bases::look() {
  next_launcher_.look();
  jobs_.ask_about_all();
  // Training may not have begun when it arrived, or nothing may have happened since that could have moved it there.
  if (!ending_ && !arrived_holdings().empty()) callbacks_.arrived();
}

void Bases::still_waits(JobId id, bool limited) {
  if (id != second_ || !acquiring_) return;
  if (limited)
    return fail("Slurm job " + std::to_string(id) +
                " waits for a limit of its user, account or QOS, which the job's bases together exceed");
  jobs_.ask_later(id, kAskSecond);
}

void Bases::granted(JobId id) {
  if (adoption_.came(id)) {
    if (adoption_.complete()) choose_left();
    return;
  }
  if (id == first_waits_ && adoption_.complete()) return granted_first(id);  // else once one is chosen
  if (id != second_ || !acquiring_) return;
  acquiring_ = false;
  deadline_.reset();
  if (current_ != 0) return callbacks_.second_granted();
  current_ = std::exchange(second_, 0);
  const BaseJobs::Base& base = jobs_.at(id);
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
  const BaseJobs::Base& base = jobs_.at(id);
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
  jobs_.release(std::exchange(arrived_, 0));
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
  if (const JobId id = std::exchange(second_, 0); id != 0) jobs_.release(id);
}

void Bases::withdraw_second(const std::string& why) {
  if (acquiring_) return fail(why);
  if (second_ == 0 || second_ == arrived_ || current_ == 0) return;
  cancel_second();
  callbacks_.second_failed(why);
}

void Bases::promote(wire::Loop::Milliseconds longer) {
  if (second_ == 0) return;
  before_ = std::exchange(current_, std::exchange(second_, 0));
  if (current_ == arrived_) arrived_ = 0;
  time_.began(jobs_.at(current_).ends);
  steps_beside_ = 0;
  deadline_ = loop_.after(kBothHeld + longer, [this] { give_back_before(); });
  callbacks_.changed();
}

void Bases::stepped(bool settled) {
  if (before_ != 0 && ++steps_beside_ >= kStepsBeside && settled) give_back_before();
}

void Bases::give_back_before() {
  if (before_ != 0) jobs_.release(std::exchange(before_, 0));
}

// The base has ended without this object's doing.
void Bases::ended(JobId id, const std::string& why) {
  const bool first = id == first_waits_, runs = id == current_, second = id == second_;
  if (first) first_waits_ = 0;
  if (runs) current_ = 0;
  if (second) second_ = 0;
  if (id == arrived_) arrived_ = 0;
  if (id == before_) before_ = 0;
  jobs_.release(id);
  const bool chosen = adoption_.complete();
  if (ending_ || (first && !chosen)) return;
  if (adoption_.ended(id)) {
    if (!chosen && adoption_.complete()) choose_left();
    return;
  }
  // One that an earlier launcher has submitted has a deadline of that time.
  if (first && jobs_.at(id).past_deadline) return submit_first();
  if (first) return refused(why + (current_ == 0 ? " before the training could start" : " while it waited"));
  if (runs) return callbacks_.lost(why);
  if (!second) return;
  if (acquiring_) return fail(why);
  callbacks_.second_failed(why);
}

void Bases::release_all() {
  left_jobs_.stop();
  first_base_.stop();
  give_back_extensions();
  ending_ = true;
  next_launcher_.stop();
  acquiring_ = false;
  deadline_.reset();
  watch_.reset();
  jobs_.release_all();
}

std::vector<NodeView> Bases::arrived_nodes() const {
  const BaseJobs::Base* arrived = jobs_.find(arrived_);
  return arrived != nullptr ? arrived->nodes : std::vector<NodeView>();
}

std::vector<Holding> Bases::second_holdings() const {
  const BaseJobs::Base* second = jobs_.find(second_);
  return second != nullptr && second->granted ? second->holdings : std::vector<Holding>();
}

std::vector<NodeView> Bases::second_nodes() const {
  const BaseJobs::Base* second = jobs_.find(second_);
  return second != nullptr && second->granted ? second->nodes : std::vector<NodeView>();
}

}  // namespace espalier::launcher
