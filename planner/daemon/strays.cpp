#include "planner/daemon/strays.hpp"

#include <algorithm>
#include <utility>

#include "planner/daemon/planning_input.hpp"

namespace espalier {
namespace {

constexpr double kAnchorGoneSeconds = 10;
constexpr double kNoLongerWaitsSeconds = 1;
constexpr double kUnclaimedSeconds = 30;
constexpr double kUnregisteredSeconds = 120;
constexpr double kAgainSeconds = 10;

bool claims(const ElasticJob& job, JobId extension) {
  return std::any_of(job.extensions.begin(), job.extensions.end(),
                     [&](const Holding& held) { return held.job == extension; });
}

// What its launcher says of its GPUs holds.
bool is_settled(const LiveJob& live) { return live.link && !live.open && live.job.phase == JobPhase::running; }

// Slurm has requeued the job, or has stopped its processes: no launcher of it runs.
bool cannot_register(const SlurmJob& job) { return job.state == SlurmJobState::pending || job.suspended; }

}  // namespace

bool StraySince::is_over(JobId id, double now, double grace) {
  const auto before = since_.find(id);
  // One that was named has a later time than now where `grace` is short. Beyond it the clock was set back: the grace
  // begins anew.
  const double latest = now + std::max(0.0, kAgainSeconds - grace);
  double& since = still_[id] = before == since_.end() ? now : std::min(before->second, latest);
  if (now - since <= grace) return false;
  since = now - grace + kAgainSeconds;
  return true;
}

void StraySince::keep(JobId id) {
  if (const auto before = since_.find(id); before != since_.end()) still_[id] = before->second;
}

void StraySince::pause(JobId id, double now) {
  if (const auto before = since_.find(id); before != since_.end())
    still_[id] = before->second + std::max(0.0, now - last_look_);
}

void StraySince::end_look(double now) {
  since_ = std::exchange(still_, {});
  last_look_ = now;
}

void StraySince::put_off(JobId id) {
  if (const auto at = since_.find(id); at != since_.end()) at->second = -std::numeric_limits<double>::infinity();
}

bool Strays::can_be_asked_back(JobId extension, const LiveJob& live, const SlurmSnapshot& slurm) {
  if (is_settled(live) && !is_suspended(live.job, slurm)) return true;
  // A launcher that drops its connection again and again would otherwise begin the grace anew each time.
  if (live.link && live.open) beyond_since_.keep(extension);
  else beyond_since_.pause(extension, slurm.time);
  return false;
}

std::vector<Strays::Stray> Strays::look(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs, int max_gpus,
                                        double give_back_seconds, const std::set<JobId>& left_open) {
  std::map<JobId, int> sums;  // GPUs of anchors and of their extensions so far; older ones come first
  std::set<std::string> comments;
  std::vector<Stray> found;
  beyond_limit_.clear();
  registered_ = registered_ || std::any_of(jobs.begin(), jobs.end(), [](const auto& one) { return one.second.link; });
  for (const auto& [id, job] : slurm.jobs) {
    const JobId anchor = anchor_of_comment(job.comment);
    if (anchor == 0 || job.partition != partition_ || is_profile_job(job)) continue;
    if (job.state != SlurmJobState::running && job.state != SlurmJobState::pending) continue;
    const SlurmJob* owner = slurm.alive(anchor);
    std::string why;
    double grace = kAnchorGoneSeconds;
    bool beyond = false;
    if (owner == nullptr || owner->state == SlurmJobState::completing) {
      why = "its anchor has ended";
    } else if (owner->uid != job.uid) {
      why = "its anchor is a job of another user";
    } else if (const auto live = jobs.find(anchor); live == jobs.end()) {
      if (!registered_) continue;
      if (left_open.contains(anchor) && cannot_register(*owner)) continue;
      why = "its anchor is no elastic job: no launcher of it has registered";
      grace = kUnregisteredSeconds;
    } else if (!comments.insert(job.comment).second) {
      why = "another extension was submitted with the same grant";
    } else {
      int& sum = sums.try_emplace(anchor, gpus_of(*owner)).first->second;
      sum += gpus_of(job);
      grace = kUnclaimedSeconds;
      if (is_settled(live->second) && !claims(live->second.job, id)) {
        why = "its anchor's launcher does not claim it";
        beyond_since_.keep(id);  // should it claim it again
      } else if (sum > max_gpus && can_be_asked_back(id, live->second, slurm)) {
        why = "its job holds more GPUs than extensions.max_gpus allows, and has not given it back";
        grace = std::max(grace, give_back_seconds);
        beyond = true;
      }
    }
    if (why.empty()) continue;
    if ((beyond ? beyond_since_ : since_).is_over(id, slurm.time, grace))
      found.push_back({id, anchor, why, "extension", job.uid, job.state == SlurmJobState::running});
    else if (beyond) beyond_limit_[anchor].push_back(id);
  }
  since_.end_look(slurm.time);
  beyond_since_.end_look(slurm.time);
  return found;
}

std::vector<Strays::Stray> Strays::look_at_bases(const SlurmSnapshot& slurm, const std::map<JobId, LiveJob>& jobs) {
  std::vector<Stray> found;
  for (const auto& [id, job] : slurm.jobs) {
    const JobId submitted = submitted_of_base(job.comment);
    if (submitted == 0) continue;
    if (job.state != SlurmJobState::running && job.state != SlurmJobState::pending) continue;
    const SlurmJob* owner = slurm.alive(submitted);
    std::string why;
    double grace = kAnchorGoneSeconds;
    if (owner == nullptr || owner->state == SlurmJobState::completing) {
      why = "the movable job that it is the base of has ended";
    } else if (owner->uid != job.uid) {
      why = "the movable job that it names is another user's";
    } else if (const auto live = jobs.find(submitted); live != jobs.end()) {
      const auto& bases = live->second.bases;
      grace = kUnclaimedSeconds;
      if (is_settled(live->second) && std::find(bases.begin(), bases.end(), id) == bases.end())
        why = "the launcher of its movable job does not claim it";
    }
    if (!why.empty() && bases_since_.is_over(id, slurm.time, grace))
      found.push_back({id, submitted, why, "base", job.uid, job.state == SlurmJobState::running});
  }
  bases_since_.end_look(slurm.time);
  return found;
}

std::vector<Strays::Stray> Strays::look_at_profile_jobs(const SlurmSnapshot& slurm, const ProfilingRules& rules) {
  std::map<uid_t, int> of_user;
  int all = 0;
  std::vector<Stray> found;
  for (const auto& [id, job] : slurm.jobs) {
    if (!is_profile_job(job) || job.partition != partition_) continue;
    if (job.state != SlurmJobState::running && job.state != SlurmJobState::pending) continue;
    const JobId anchor = anchor_of_comment(job.comment);
    const SlurmJob* owner = slurm.alive(anchor);
    std::string why;
    double grace = kNoLongerWaitsSeconds;
    const int gpus = std::max(1, gpus_of(job));
    if (owner == nullptr || owner->state == SlurmJobState::completing) {
      why = "the job that it profiles for has ended";
    } else if (owner->uid != job.uid) {
      why = "the job that it profiles for is another user's";
    } else if (owner->state != SlurmJobState::pending) {
      why = "the job that it profiles for has started";
    } else if (all + gpus > rules.gpus || of_user[job.uid] + gpus > rules.per_user) {
      why = "profile jobs have more GPUs than [profiling] allows";
      grace = kAnchorGoneSeconds;
    } else {
      all += gpus;
      of_user[job.uid] += gpus;
    }
    if (!why.empty() && profiles_since_.is_over(id, slurm.time, grace))
      found.push_back({id, anchor, why, "profile job", job.uid, job.state == SlurmJobState::running});
  }
  profiles_since_.end_look(slurm.time);
  return found;
}

void Strays::put_off(const Stray& stray) {
  for (auto* since : {&since_, &beyond_since_, &bases_since_, &profiles_since_}) since->put_off(stray.extension);
}

void take_turns(std::vector<Strays::Stray>& strays) {
  std::stable_sort(strays.begin(), strays.end(),
                   [](const Strays::Stray& a, const Strays::Stray& b) { return a.runs && !b.runs; });
  std::map<uid_t, std::size_t> of_user;
  std::vector<std::pair<std::size_t, Strays::Stray>> turns;
  for (Strays::Stray& one : strays) {
    const std::size_t turn = of_user[one.uid]++;
    turns.emplace_back(turn, std::move(one));
  }
  std::stable_sort(turns.begin(), turns.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  strays.clear();
  for (auto& [turn, stray] : turns) strays.push_back(std::move(stray));
}

}  // namespace espalier
