// The planner's work for launchers that come: who is admitted, and how many each user has.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "planner/core/error.hpp"
#include "planner/core/schedule/move.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/planner.hpp"
#include "planner/daemon/printable.hpp"
#include "planner/daemon/report_check.hpp"

namespace espalier {
namespace {

// Seconds of the loop's time. After a restart thousands of launchers register at once, and each is looked up in the
// store; what else waits gets its turn in between.
constexpr double kAdmitting = 0.05;
// Largest frame of a launcher: what a newcomer may send, and room for each GPU in plans and profile.
constexpr std::size_t kBytesPerGpu = 4096;

// Charges the loop's time from here on to the user.
class Admission {
 public:
  Admission(Planner& planner, uid_t user) : planner_(planner), user_(user), begin_(thread_seconds()) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;
  ~Admission() { planner_.charge_time(user_, thread_seconds() - begin_); }

 private:
  Planner& planner_;
  const uid_t user_;
  const double begin_;
};

}  // namespace

std::optional<JobId> Planner::job_of(const wire::Connection& link) const {
  const auto found = by_link_.find(&link);
  return found == by_link_.end() ? std::nullopt : std::optional(found->second);
}

void Planner::admit(const wire::ConnectionPtr& link, const wire::Register& message) {
  check_report(message.job);
  for (auto* list : {&applicants_, &next_applicants_})
    std::erase_if(*list, [&](const Applicant& a) { return a.link.expired() || a.link.lock() == link; });
  next_applicants_.push_back({link, message});
  think_for(link->peer().uid, Trigger::job_started);
}

void Planner::admit_applicants(const SlurmSnapshot& slurm) {
  const double until = clock_seconds() + kAdmitting;
  while (!applicants_.empty()) {
    if (clock_seconds() > until) {
      admitting_ = loop_.after(wire::Loop::Milliseconds(0), [this] {
        if (last_) admit_applicants(*last_);
        if (applicants_.empty()) think(Trigger::job_started);
      });
      return;
    }
    const Applicant applicant = std::move(applicants_.front());
    applicants_.pop_front();
    const auto link = applicant.link.lock();
    if (!link) continue;
    const JobId id = applicant.message.job.id;
    const SlurmJob* job = slurm.alive(id);
    const uid_t uid = link->peer().uid;
    const Admission admission(*this, uid);
    std::string why;
    if (job == nullptr || job->state != SlurmJobState::running) why = "Slurm does not say that it is running";
    else if (uid != 0 && job->uid != uid)
      why = "it belongs to uid " + std::to_string(job->uid) + ", not to uid " + std::to_string(uid);
    const auto known = jobs_.find(id);
    if (why.empty() && known != jobs_.end() && known->second.link && known->second.link != link &&
        known->second.started >= job->started &&  // else that one is of a run before, and was cut off
        (known->second.host != printable(applicant.message.host, 255) || known->second.pid != applicant.message.pid))
      why = "it has a launcher already, process " + std::to_string(known->second.pid) + " on " + known->second.host;
    if (why.empty()) {
      try {
        admit_now(link, applicant.message, *job);
        continue;
      } catch (const std::exception& error) {  // e.g. the disk is full: the launcher will try again
        why = error.what();
        lost(id, link);
      }
    }
    log_.line(uid, spdlog::level::warn, "job {}: launcher at {} (uid {}) refused: {}", id, link->peer().address, uid,
              why);
    link->send(wire::Refused{"job " + std::to_string(id) + ": " + why});
    link->close();
  }
}

void Planner::admit_now(const wire::ConnectionPtr& link, const wire::Register& message, const SlurmJob& slurm) {
  LiveJob asked;
  asked.job = message.job;
  asked.job.uid = slurm.uid;
  check_gpus(asked, message.job);
  // Slurm has given the number again before the planner saw that the other user's job was gone.
  if (const auto other = jobs_.find(slurm.id); other != jobs_.end() && other->second.job.uid != slurm.uid) {
    const auto old = other->second.link;
    bye(slurm.id, -1);
    if (old) old->close();
  }
  const auto [at, fresh] = jobs_.try_emplace(slurm.id);
  LiveJob& live = at->second;
  if (!fresh) count_out(live.job.uid);
  ++jobs_by_user_[slurm.uid];
  const bool requeued = !fresh && live.started < slurm.started;  // nothing trained while it had no launcher
  const bool again = live.started >= slurm.started && (live.link != nullptr || live.pid == message.pid);
  if (live.link && live.link != link) {  // the same launcher's older one, or of the launcher that Slurm has replaced
    by_link_.erase(live.link.get());
    live.link->close();
  }
  live.started = slurm.started;
  live.link = link;
  by_link_[link.get()] = slurm.id;
  live.confirmed_gpus = std::max(live.confirmed_gpus, asked.confirmed_gpus);
  live.excess_told = false;
  live.back_since = true;
  live.host = printable(message.host, 255);
  live.pid = message.pid;
  live.job = message.job;
  live.job.uid = slurm.uid;
  // Slurm has given the number again: the hold was of another user's job.
  if (const auto owner = store_.owner(slurm.id); owner && *owner != slurm.uid) store_.hold(slurm.id, false);
  live.job.held = store_.held(slurm.id);
  if (fresh && store_.owner(slurm.id) == slurm.uid) live.usage = store_.training(slurm.id).value_or(TrainingUsage{});
  // A movable job's base may have run on meanwhile, and its GPUs have stood.
  const bool has_base = base_of(live.job) != 0 || !live.bases.empty();
  if (!has_base && live.usage.until > 0 && slurm.started > live.usage.until) live.usage.restart(slurm.started);
  else if (requeued) live.usage.stands = true;
  live.stands = false;
  live.usage.report(live.job, clock_seconds());
  may_write(live, clock_seconds());
  // What was measured of a job is kept beside its record, so the record is written first.
  auto profile = std::exchange(live.job.profile, std::nullopt);
  save(live, clock_seconds());
  charge_writes(live, clock_seconds());
  live.job.profile = std::move(profile);
  take_profile(live);
  note_pause(live);
  link->limit_frames(
      std::min(wire::kMaxFrame, wire::kMaxNewcomer + static_cast<std::size_t>(most_gpus(live)) * kBytesPerGpu),
      wire::kFrameTime);
  link->send(wire::Registered{true});
  live.start_planned = false;
  live.told.clear();
  tell_known(live);
  log_.line(slurm.uid, spdlog::level::info,
            "job {}: launcher {} (uid {}, process {} on {}), {} extension(s), generation {}", slurm.id,
            again ? "is back" : "registered", slurm.uid, message.pid, live.host, live.job.extensions.size(),
            live.job.generation);
}

std::size_t Planner::jobs_of(uid_t user) const {
  const auto registered = jobs_by_user_.find(user);
  const auto running = running_by_user_.find(user);
  return std::max(registered == jobs_by_user_.end() ? 0 : registered->second,
                  running == running_by_user_.end() ? 0 : running->second.jobs);
}

std::size_t Planner::elastic_jobs_of(uid_t user) const {
  const auto registered = jobs_by_user_.find(user);
  const std::size_t known = registered == jobs_by_user_.end() ? 0 : registered->second;
  const auto running = running_by_user_.find(user);
  if (running == running_by_user_.end()) return std::min(known, kJobsWithoutGpus);
  return std::min(std::max(known, running->second.with_gpus), running->second.gpus + kJobsWithoutGpus);
}

std::size_t Planner::weight_of(uid_t user) const {
  const auto running = running_by_user_.find(user);
  return elastic_jobs_of(user) + (running == running_by_user_.end() ? 0 : running->second.gpus);
}

void Planner::charge_time(uid_t user, double seconds) {
  loop_time_.charge(user, weight_of(user), clock_seconds(), seconds);
}

double Planner::time_until(uid_t user) { return loop_time_.wait(user, weight_of(user), clock_seconds()); }

void Planner::count_running(const SlurmSnapshot& slurm) {
  running_by_user_.clear();
  for (const auto& [id, job] : slurm.jobs) {
    if (job.state != SlurmJobState::running) continue;
    Running& running = running_by_user_[job.uid];
    const auto gpus = static_cast<std::size_t>(gpus_of(job));
    running.gpus += gpus;
    if (job.partition == settings_.partition) continue;
    ++running.jobs;
    running.with_gpus += gpus > 0 ? 1 : 0;
  }
}

void Planner::count_out(uid_t user) {
  const auto found = jobs_by_user_.find(user);
  if (--found->second == 0) jobs_by_user_.erase(found);
}

}  // namespace espalier
