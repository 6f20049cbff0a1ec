#include "launcher/job/first_start.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "launcher/job/deadline_words.hpp"
#include "planner/core/error.hpp"
#include "planner/core/schedule/job_coefficients.hpp"
#include "planner/wire/clock.hpp"

namespace espalier::launcher {

FirstStart::FirstStart(wire::Loop& loop, std::vector<std::string> program, std::vector<std::string> environment,
                       Limits limits, Callbacks callbacks)
    : loop_(loop),
      program_(std::move(program)),
      environment_(std::move(environment)),
      limits_(limits),
      callbacks_(std::move(callbacks)) {}

void FirstStart::begin() {
  stage_ = Stage::describing;
  const auto undescribed = [this] {
    stage_ = Stage::ranks_start;
    callbacks_.run_ranks();
  };
  if (!limits_.describes || !describes_itself(program_)) return undescribed();
  const auto told = [this, undescribed](std::optional<wire::Description> description) {
    // Not from inside the description's own callback: it is destroyed here.
    loop_.defer([this, undescribed, description = std::move(description)] {
      if (stage_ != Stage::describing) return;
      description_.reset();
      if (!description || description->model.layers < 1) return undescribed();
      callbacks_.described(*description);
      ask(RankOrder::planned);
    });
  };
  try {
    description_ = std::make_unique<ProgramDescription>(loop_, program_, environment_, limits_.describe, told);
  } catch (const Error& error) {
    spdlog::debug("launch: {}", error.what());
    undescribed();
  }
}

void FirstStart::told_by_hello() {
  if (stage_ == Stage::ranks_start) ask(RankOrder::given);
}

void FirstStart::ask(RankOrder order) {
  order_ = order;
  stage_ = Stage::asking;
  if (planner_away_) return choose_alone("the planner does not answer");
  callbacks_.tell_planner();
  limit_ = loop_.after(limits_.plan, [this] { choose_alone("the planner has not answered in time"); });
}

void FirstStart::no_plan(const std::string& why) {
  if (stage_ == Stage::asking) choose_alone(why);
}

void FirstStart::deadline_checked(const wire::DeadlineChecked& checked, bool goes_on) {
  const double deadline = callbacks_.job().deadline;
  if (stage_ != Stage::asking || deadline <= 0 || deadline_told_) return;
  deadline_told_ = true;
  const double now = wire::unix_seconds();
  const DeadlineVerdict verdict = judge_deadline(checked, deadline, now, goes_on);
  if (verdict.refused) {
    limit_.reset();
    stage_ = Stage::refused;
    return callbacks_.refuse(verdict.text);
  }
  if (verdict.doubtful) spdlog::warn("espalier: launch: {}", verdict.text);
  else spdlog::info("espalier: launch: {}", verdict.text);
}

void FirstStart::planner_away() {
  planner_away_ = true;
  if (stage_ == Stage::asking)
    loop_.defer([this] {
      if (stage_ == Stage::asking) choose_alone("the planner does not answer");
    });
}

std::string FirstStart::why_not(const Decision& decision) const {
  const ElasticJob job = callbacks_.job();
  if (const auto broken = validate(decision.plan, job.model.layers); !broken.empty()) return broken.front();
  if (decision.plan.global_batch != job.model.global_batch) return "the global batch must not change";
  std::vector<GpuId> own;
  for (const Holding& held : job.anchor)
    for (const int gpu : held.gpus) own.push_back({held.node, gpu});
  const auto ranks = decision.plan.ranks();
  if (order_ == RankOrder::given) return ranks == own ? "" : "its ranks run already, on other GPUs";
  if (own.empty() || ranks.front() != own.front()) return "rank 0 must stay on the job's first GPU";
  if (static_cast<int>(ranks.size()) > job.max_gpus) return "it exceeds the job's maximum";
  std::set<std::string> more;
  for (const ExtensionRequest& request : decision.acquire) more.insert(request.node);
  const std::set<GpuId> of_the_job(own.begin(), own.end());
  for (const GpuId& gpu : ranks)
    if (!of_the_job.contains(gpu) && !more.contains(gpu.node))
      return "GPU " + std::to_string(gpu.index) + " of " + gpu.node + " is not the job's";
  if (job.accuracy == Accuracy::bitwise)
    for (const espalier::Stage& stage : decision.plan.stages)
      if (stage.tp != std::max(1, job.parallel.tp)) return "accuracy=bitwise keeps the user's TP degree";
  return "";
}

void FirstStart::proposed(const Decision& decision) {
  // Without an outcome the planner would keep the decision open, and propose nothing else meanwhile.
  if (done())
    return callbacks_.given_up(decision, stage_ == Stage::refused ? "the job ends: its deadline cannot be kept"
                                                                  : "it came late: generation 0 has a plan already");
  if (stage_ == Stage::acquiring)  // a planner that was started again meanwhile knows nothing of the first one
    return callbacks_.given_up(decision, "a wide start is under way already");
  if (stage_ != Stage::asking) return;
  std::string refusal;
  if (const std::string why = why_not(decision); !why.empty()) refusal = "the planner's plan does not suit: " + why;
  else if (!decision.acquire.empty() && limits_.wide.count() == 0)
    refusal = "launch.wide_seconds = 0 takes no extensions at the start";
  if (!refusal.empty()) {
    callbacks_.given_up(decision, refusal);
    return choose_alone(refusal);
  }
  if (decision.acquire.empty()) return start(decision);
  wide_ = decision;
  stage_ = Stage::acquiring;
  limit_ = loop_.after(limits_.wide, [this] { acquire_failed("Slurm has not granted its extensions in time"); });
  callbacks_.acquire(decision.acquire);
}

void FirstStart::granted() {
  if (stage_ == Stage::acquiring) start(*wide_);
}

void FirstStart::acquire_failed(const std::string& why) {
  if (stage_ != Stage::acquiring) return;
  callbacks_.cancel_acquired();
  choose_alone("no wide start: " + why);
}

void FirstStart::start_alone(const std::string& why) { choose_alone("no wide start: " + why); }

void FirstStart::choose_alone(const std::string& because) {
  limit_.reset();
  const ElasticJob job = callbacks_.job();
  if (job.deadline > 0 && !std::exchange(deadline_told_, true))
    spdlog::warn("espalier: launch: {}", unchecked_deadline(job.deadline, because));
  const PlanningBasis& known = callbacks_.known();
  Decision decision;
  decision.trigger = Trigger::job_started;
  decision.kind = DecisionKind::start;
  decision.job = job.id;
  try {
    FirstPlan first =
        first_plan(job, known.site, known.coefficients ? *known.coefficients : sheet_for(job, known.site), order_);
    decision.plan = std::move(first.plan);
    decision.candidates = std::move(first.candidates);
    if (known.coefficients) decision.predicted_step_seconds = first.ms / 1000;
    decision.reason = "chosen by the launcher: " + because;
    if (!first.remark.empty()) decision.reason += "; " + first.remark;
  } catch (const Error& error) {
    stage_ = Stage::done;
    return callbacks_.refuse(error.what());
  }
  if (wide_) callbacks_.given_up(*std::exchange(wide_, std::nullopt), because);
  start(decision);
}

void FirstStart::start(const Decision& decision) {
  stage_ = Stage::done;
  limit_.reset();
  callbacks_.start(decision, order_);
}

}  // namespace espalier::launcher
