#include "planner/daemon/planner.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "planner/core/error.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/trigger_strength.hpp"

namespace espalier {
namespace {

using Milliseconds = wire::Loop::Milliseconds;

// slurmctld creates the job's record only after the plugin that sent the event has returned.
constexpr Milliseconds kSubmissionDelay{100};
// Least time between two questions to slurmctld, in seconds. Launchers that report often must not
// keep slurmctld busy.
constexpr double kLeastInterval = 0.01;
// A decision for thousands of jobs takes some tenths of a second, part of it on the loop. The planner then rests for
// twice as long, at most for this time, so that it takes no core for itself.
constexpr double kLongestRest = 2;
// The limit for one user's launchers: they could otherwise keep the planner asking, even with false
// reports.
constexpr Allowance::Rate kPrompts{5, 1};

// Bytes of topologies of nodes that Slurm does not know (yet). Nobody but root and SlurmUser sends
// them; a node whose name Slurm never tells must fill neither store nor memory.
constexpr std::size_t kMostEarly = 64u << 20;

}  // namespace

Planner::Planner(wire::Loop& loop, SlurmAgent& slurm, Store& store, const PlannerSettings& settings)
    : loop_(loop),
      slurm_(slurm),
      store_(store),
      sites_(store.topology_documents()),
      health_(loop, [this] { think(Trigger::timer); }),
      submissions_(store),
      strays_(settings.partition),
      allocations_(store, settings.partition),
      deciding_thread_(loop, 1, wire::SideThread::End::wait) {
  for (const auto id : store_.close_open("aborted: planner restarted"))
    spdlog::info("decision {}: left open by an earlier run, closed until its launcher says otherwise", id);
  configure(settings);
  think(Trigger::timer);
}

void Planner::configure(const PlannerSettings& settings) {
  settings_ = settings;
  settings_now_ = std::make_shared<const PlannerSettings>(settings);
  view_.reset();
  scheduler_ = make_scheduler(settings.scheduler);
  health_.configure(settings.health);
  const auto period = std::max<long>(100, std::lround(settings.poll_seconds * 1000));
  poll_ = loop_.every(Milliseconds(period), [this] { think(Trigger::timer); });
}

uid_t Planner::slurm_user() const { return last_ ? last_->slurm_user : 0; }

void Planner::job_submitted() {
  if (!submitted_at_) submitted_at_ = clock_seconds();
  if (!soon_)
    soon_ = loop_.after(kSubmissionDelay, [this] {
      soon_.reset();
      think(Trigger::job_submitted);
    });
}

void Planner::gpus_released(JobId job, const std::string& node) {
  releases_.reported(job, node, clock_seconds());
  think(Trigger::gpus_released);
}

// A node may report before Slurm has told of it. Until then the report is kept in memory.
void Planner::topology_reported(const std::string& node, const std::string& xml) {
  if (!last_ || last_->cluster.find(node) == nullptr) {
    std::size_t bytes = xml.size();
    for (const auto& [name, early] : early_topologies_) bytes += early.size();
    if (bytes <= kMostEarly) early_topologies_[node] = xml;
    else spdlog::warn("node {}: its topology is dropped: Slurm knows no such node, and too many such came", node);
    return;
  }
  store_.save_topology(node, xml, clock_seconds());
  sites_.reported(node, xml);
}

void Planner::think(Trigger trigger) {
  if (asking_) {
    again_ = stronger(again_, trigger);
    return;
  }
  trigger_ = stronger(trigger_, trigger);
  ask();
}

void Planner::think_for(uid_t user, Trigger trigger) {
  if (again_) return think(trigger);  // Slurm is about to be asked again anyway
  const double now = clock_seconds();
  std::erase_if(prompting_, [&](const auto& entry) {
    return !entry.second.waiting && entry.second.allowance.unused(now, kPrompts);
  });
  Prompting& one = prompting_[user];
  if (one.waiting) {
    one.waiting = stronger(one.waiting, trigger);
    return;
  }
  if (one.allowance.take(now, kPrompts)) return think(trigger);
  one.waiting = trigger;
  const auto wait = static_cast<long>(std::ceil(one.allowance.wait(kPrompts) * 1000));
  one.later = loop_.after(Milliseconds(wait), [this, user] {
    Prompting& due = prompting_.at(user);
    due.allowance.take(clock_seconds(), kPrompts);
    think(*std::exchange(due.waiting, std::nullopt));
  });
}

void Planner::ask() {
  asking_ = true;
  const double now = clock_seconds();
  const double wait = std::max(asked_at_ + kLeastInterval, rest_until_) - now;
  if (wait <= 0 || wait > kLongestRest) return send_question();  // beyond it the clock was set back
  paced_ = loop_.after(Milliseconds(std::lround(wait * 1000)), [this] { send_question(); });
}

void Planner::send_question() {
  std::move(next_applicants_.begin(), next_applicants_.end(), std::back_inserter(applicants_));
  next_applicants_.clear();
  asked_at_ = clock_seconds();
  slurm_.snapshot([this, alive = std::weak_ptr(alive_)](SlurmAgent::Snapshot answer) {
    if (!alive.expired()) answered(std::move(answer));
  });
}

void Planner::answered(SlurmAgent::Snapshot answer) {
  log_.tell_left_out(clock_seconds());
  ended_log_.tell_left_out(clock_seconds());
  if (const auto* why = std::get_if<std::string>(&answer)) {
    if (!trouble_) spdlog::error("Slurm: {}; no decisions until it answers", *why);
    trouble_ = *why;
    view_.reset();
    asking_ = false;
    trigger_.reset();
    again_.reset();  // the timer asks again
    return;
  }
  if (trouble_) spdlog::info("Slurm answers again");
  trouble_.reset();
  auto snapshot = std::make_shared<SlurmSnapshot>(std::move(std::get<SlurmSnapshot>(answer)));
  if (last_ && snapshot->time < last_->time)
    for (auto& [id, live] : jobs_) clock_set_back(live, last_->time, snapshot->time);
  health_.look(snapshot->cluster, snapshot->time);
  last_ = std::move(snapshot);
  view_.reset();
  count_running(*last_);
  int gpus = 0;
  for (const NodeView& node : last_->cluster.nodes) gpus += static_cast<int>(node.gpu_owner.size());
  cluster_gpus_ = std::max(cluster_gpus_, gpus);  // a job may still name a node that has just gone
  began_at_ = clock_seconds();
  try {
    review(*last_);
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
  }
  if (!deciding_) end_cycle();
}

void Planner::end_cycle() {
  asking_ = false;
  const double end = clock_seconds();
  rest_until_ = end + std::clamp(2 * (end - began_at_), 0.0, kLongestRest);
  if (!again_) return;
  trigger_ = stronger(trigger_, *again_);
  again_.reset();
  ask();
}

void Planner::take_early_topologies(const SlurmSnapshot& slurm) {
  std::erase_if(early_topologies_, [&](const auto& entry) {
    const bool known = slurm.cluster.find(entry.first) != nullptr;
    if (known) topology_reported(entry.first, entry.second);
    return known;
  });
}

void Planner::review(const SlurmSnapshot& slurm) {
  try {
    take_early_topologies(slurm);
  } catch (const Error& error) {
    spdlog::error("{}", error.what());
  }
  site_ = sites_.site(slurm.cluster, settings_.hardware);
  tell_preemption(slurm.preemption);
  admit_applicants(slurm);
  plan_starts(slurm);
  // If the store cannot be written, only the failing step is skipped.
  const auto apart = [](const auto& step) {
    try {
      step();
    } catch (const std::exception& error) {
      spdlog::error("{}", error.what());
    }
  };
  apart([&] { forget_ended(slurm); });
  apart([&] { end_unclaimed(slurm); });
  apart([&] { note_allocations(slurm); });
  apart([&] { note_standstill(slurm); });
  apart([&] { submissions_.look(slurm, settings_.partition); });
  kill_strays(slurm);
  apart([&] { keep_limit(); });
  apart([&] { close_overdue(slurm.time); });
  apart([&] { withdraw_bases(slurm); });
  releases_.look(slurm);
  if (releases_.waiting()) {
    const Milliseconds soon(std::lround(1000 * releases_.next_look(slurm.time)));
    again_soon_ = loop_.after(soon, [this] { think(Trigger::gpus_released); });
    if (releases_.hold_decision(slurm.time)) return;
  }
  releases_.decided();
  decide(slurm);
}

void Planner::tell_preemption(const PreemptionRule& preemption) {
  if (preemption_told_ == preemption) return;
  preemption_told_ = preemption;
  spdlog::info("{}", preemption.found);
  for (const std::string& what : preemption.missing)
    spdlog::log(preemption.lends ? spdlog::level::warn : spdlog::level::err, "{}", what);
}

void Planner::note_allocations(const SlurmSnapshot& slurm) {
  std::set<JobId> elastic;
  for (const auto& [id, live] : jobs_) elastic.insert(id);
  allocations_.look(slurm, elastic);
}

// A job whose base runs on while it waits in the queue holds that base's GPUs, which stand.
void Planner::note_standstill(const SlurmSnapshot& slurm) {
  for (auto& [id, live] : jobs_) {
    const SlurmJob* const job = slurm.alive(id);
    const bool has_base = base_of(live.job) != 0 || !live.bases.empty();
    const bool stands =
        job == nullptr || is_suspended(live.job, slurm) || (job->state == SlurmJobState::pending && !has_base);
    if (stands && live.usage.gpus > 0) {
      live.usage.end(slurm.time);
      store_.save(id, live.usage);  // the next espalierd would count the time until its launcher is back
      view_.reset();
    }
    if (!stands && live.stands && live.link) live.usage.report(live.job, slurm.time);
    live.stands = stands || (live.stands && !live.link);
  }
}

}  // namespace espalier
