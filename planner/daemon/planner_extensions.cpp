// What the planner itself has Slurm do with extensions and bases: those without an owner are ended, and the time limits
// of those that nobody waits for are prolonged.
#include <spdlog/spdlog.h>

#include "planner/daemon/account_limits.hpp"
#include "planner/daemon/extension_rules.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/waited_limits.hpp"

namespace espalier {
namespace {

// The next question to slurmctld waits until these have been ended.
constexpr std::size_t kStraysAtOnce = 16;

}  // namespace

void Planner::kill_strays(const SlurmSnapshot& slurm) {
  if (settings_.shadow) return;
  std::vector<Strays::Stray> strays = strays_.look(slurm, jobs_, settings_.max_gpus, give_back_seconds(), left_open_);
  for (auto& more : {strays_.look_at_bases(slurm, jobs_), strays_.look_at_profile_jobs(slurm, settings_.profiling)})
    strays.insert(strays.end(), more.begin(), more.end());
  take_turns(strays);
  for (const Strays::Stray& stray : strays) {
    if (ending_strays_ >= kStraysAtOnce) {
      strays_.put_off(stray);
      continue;
    }
    ++ending_strays_;
    ended_log_.line(stray.uid, spdlog::level::warn, "{} {} of job {}: {}; ending it", stray.what, stray.extension,
                    stray.anchor, stray.why);
    slurm_.kill(stray.extension, [this, alive = std::weak_ptr(alive_), stray](const std::string& error) {
      if (alive.expired()) return;
      --ending_strays_;
      if (!error.empty())
        ended_log_.line(stray.uid, spdlog::level::err, "{} {}: cannot be ended: {}", stray.what, stray.extension,
                        error);
    });
  }
}

// Those that end soon, and that the site's rules would grant now.
std::vector<Lease> Planner::leases_now(const SlurmSnapshot& slurm) {
  auto due = leases_.due(slurm, jobs_, settings_.scheduler.max_lease_minutes);
  if (due.empty()) return due;
  const AccountLimits limits(slurm, jobs_, settings_.rules.share, settings_.partition);
  const WaitedLimits waits(slurm);
  std::erase_if(due, [&](const Lease& lease) {
    const SlurmJob* const anchor = slurm.alive(lease.job);
    if (anchor == nullptr || anchor->suspended || !barred(*anchor, slurm, settings_.rules, waits).empty()) return true;
    const auto limit = limits.of(*anchor);
    return limit && limit->lent > limit->gpus;
  });
  return due;
}

// Unless the decision takes it back.
void Planner::prolong(const std::vector<Renewal>& renewals) {
  for (const Renewal& one : renewals) {
    const auto live = jobs_.find(one.job);
    if (live == jobs_.end() || live->second.open) continue;
    log_.line(live->second.job.uid, spdlog::level::info,
              "extension {} of job {}: nobody waits for {}; its time limit is {} minutes now", one.extension, one.job,
              one.node, one.minutes);
    slurm_.prolong(one.extension, one.minutes, [id = one.extension](const std::string& error) {
      if (!error.empty()) spdlog::warn("extension {}: cannot be prolonged: {}", id, error);
    });
  }
}

}  // namespace espalier
