#include "planner/sim/policies/arena_scheduler.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>

#include "planner/core/schedule/arena/scaling_step.hpp"

namespace espalier::sim {
namespace {

std::size_t level_of(int gpus) { return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(gpus)) - 1); }

}  // namespace

double ArenaScheduler::speed(std::size_t job, int pool, int gpus) const {
  if (gpus < 1) return 0;
  const auto& by_level = (*(*jobs_)[job].throughput)[static_cast<std::size_t>(pool)];
  const std::size_t level = level_of(gpus);
  return level < by_level.size() ? by_level[level] : 0;
}

ArenaScheduler::Edit ArenaScheduler::place_of(const Trial& trial, std::size_t job) const {
  for (const Edit& edit : trial.edits)
    if (edit.job == job) return edit;
  return {job, (*jobs_)[job].pool, (*jobs_)[job].gpus};
}

void ArenaScheduler::set(Trial& trial, const Edit& edit) const {
  const Edit before = place_of(trial, edit.job);
  if (before.gpus > 0) trial.free[static_cast<std::size_t>(before.pool)] += before.gpus;
  if (edit.gpus > 0) trial.free[static_cast<std::size_t>(edit.pool)] -= edit.gpus;
  trial.gain += speed(edit.job, edit.pool, edit.gpus) - speed(edit.job, before.pool, before.gpus);
  std::erase_if(trial.edits, [&](const Edit& one) { return one.job == edit.job; });
  trial.edits.push_back(edit);
}

void ArenaScheduler::note_running() {
  running_.assign(capacity_.size(), {});
  for (std::size_t j = 0; j < jobs_->size(); ++j)
    if ((*jobs_)[j].gpus > 0 && !(*jobs_)[j].fixed) running_[static_cast<std::size_t>((*jobs_)[j].pool)].push_back(j);
}

std::vector<int> ArenaScheduler::free_now() const {
  std::vector<int> free = capacity_;
  for (const ArenaJob& job : *jobs_)
    if (job.gpus > 0) free[static_cast<std::size_t>(job.pool)] -= job.gpus;
  return free;
}

std::vector<ArenaScheduler::Trial> ArenaScheduler::downgraded(const Trial& trial, std::size_t job) const {
  std::vector<Trial> next;
  const int pools = static_cast<int>(capacity_.size());
  // Halve the job with the least loss, of each type.
  for (int pool = 0; pool < pools; ++pool) {
    std::optional<std::size_t> best;
    double least = 0;
    for (const std::size_t one : running_in(pool)) {
      const Edit at = place_of(trial, one);
      if (one == job || at.pool != pool || at.gpus < 2 || 2 * at.gpus < (*jobs_)[one].asked_gpus) continue;
      const double after = speed(one, pool, at.gpus / 2);
      if (after <= 0) continue;
      const double loss = speed(one, pool, at.gpus) - after;
      if (!best || loss < least) best = one, least = loss;
    }
    if (!best) continue;
    Trial& made = next.emplace_back(trial);
    set(made, {*best, pool, place_of(trial, *best).gpus / 2});
  }
  // Move the job with the largest gain from the type that `job` asks for to another type with room.
  const int from = (*jobs_)[job].asked_pool;
  for (int pool = 0; pool < pools; ++pool) {
    if (pool == from) continue;
    std::optional<std::size_t> best;
    double most = 0;
    for (const std::size_t one : running_in(from)) {
      const Edit at = place_of(trial, one);
      if (one == job || at.pool != from || at.gpus > trial.free[static_cast<std::size_t>(pool)]) continue;
      const double after = speed(one, pool, at.gpus);
      if (after <= 0) continue;
      const double gain = after - speed(one, from, at.gpus);
      if (!best || gain > most) best = one, most = gain;
    }
    if (!best) continue;
    Trial& made = next.emplace_back(trial);
    set(made, {*best, pool, place_of(trial, *best).gpus});
  }
  return next;
}

bool ArenaScheduler::try_to_place(Trial& trial, std::size_t job) const {
  const ArenaJob& one = (*jobs_)[job];
  if (trial.free[static_cast<std::size_t>(one.asked_pool)] < one.asked_gpus) return false;
  set(trial, {job, one.asked_pool, one.asked_gpus});
  return true;
}

// Alg. 1, LEventHandler: at once if there is room, else breadth-first over halved and moved jobs; the job itself may
// start on half of its GPUs, or on another type.
bool ArenaScheduler::fit(std::size_t job, std::vector<int> free, std::vector<Edit>& edits) const {
  Trial start{std::move(free), {}, 0};
  if (try_to_place(start, job)) {
    edits = std::move(start.edits);
    return true;
  }
  std::optional<Trial> best;
  const auto consider = [&](Trial trial, int pool, int gpus) {
    if (speed(job, pool, gpus) <= 0 || trial.free[static_cast<std::size_t>(pool)] < gpus) return;
    set(trial, {job, pool, gpus});
    if (!best || trial.gain > best->gain) best = std::move(trial);
  };
  const ArenaJob& one = (*jobs_)[job];
  std::vector<Trial> level{std::move(start)};
  for (int depth = 1; depth <= options_.depth; ++depth) {
    std::vector<Trial> next;
    for (const Trial& trial : level) {
      // The job's own halving and type switch count as one step each.
      for (int gpus = one.asked_gpus, steps = 0; gpus >= 1 && steps < 2; gpus /= 2, ++steps)
        for (int pool = 0; pool < static_cast<int>(capacity_.size()); ++pool)
          if (steps + (pool != one.asked_pool) == 1 && depth == 1) consider(trial, pool, gpus);
      for (Trial& made : downgraded(trial, job)) {
        consider(made, one.asked_pool, one.asked_gpus);
        if (depth > 1 && one.asked_gpus > 1) consider(made, one.asked_pool, one.asked_gpus / 2);
        next.push_back(std::move(made));
      }
    }
    level = std::move(next);
  }
  if (!best) return false;
  edits = std::move(best->edits);
  return true;
}

int ArenaScheduler::queue_of(const ArenaJob& job) const {
  return std::max(1, options_.queues - static_cast<int>(job.waited / options_.promote_seconds));
}

// Jobs that wait, by queue and submission.
std::vector<std::size_t> ArenaScheduler::waiting() const {
  std::vector<std::size_t> order;
  for (std::size_t j = 0; j < jobs_->size(); ++j)
    if ((*jobs_)[j].gpus == 0 && !(*jobs_)[j].fixed) order.push_back(j);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return queue_of((*jobs_)[a]) < queue_of((*jobs_)[b]); });
  return order;
}

// Stops opportunistic jobs that passed `job`, the latest first, until the edits have room.
void ArenaScheduler::suspend_for(std::size_t job, const std::vector<Edit>& edits) {
  for (const Edit& edit : edits) (*jobs_)[edit.job].pool = edit.pool, (*jobs_)[edit.job].gpus = edit.gpus;
  const JobId id = (*jobs_)[job].id;
  std::vector<int> free = free_now();
  for (auto one = jobs_->rbegin(); one != jobs_->rend(); ++one) {
    const auto passed = blockers_.find(one->id);
    if (passed == blockers_.end() || !passed->second.contains(id) || one->gpus == 0 || one->fixed) continue;
    int& room = free[static_cast<std::size_t>(one->pool)];
    if (room >= 0) continue;
    room += one->gpus;
    one->gpus = 0;
    one->pool = -1;
    blockers_.erase(passed);
  }
  for (auto passed = blockers_.begin(); passed != blockers_.end();) {
    passed->second.erase(id);
    if (passed->second.empty()) passed = blockers_.erase(passed);
    else ++passed;
  }
}

bool ArenaScheduler::launch(std::size_t job) {
  std::vector<int> free = free_now();
  const JobId id = (*jobs_)[job].id;
  for (std::size_t j = 0; j < jobs_->size(); ++j) {
    const ArenaJob& one = (*jobs_)[j];
    const auto passed = blockers_.find(one.id);
    if (passed == blockers_.end() || !passed->second.contains(id) || one.gpus == 0 || one.fixed) continue;
    free[static_cast<std::size_t>(one.pool)] += one.gpus;
    // All of its GPUs count as free. Halved or moved, it would free some of them once more.
    std::erase(running_[static_cast<std::size_t>(one.pool)], j);
  }
  std::vector<Edit> edits;
  const bool fits = fit(job, std::move(free), edits);
  if (fits) suspend_for(job, edits);
  note_running();
  return fits;
}

void ArenaScheduler::launch_those_that_fit() {
  constexpr int kMostLaunches = 100;
  std::set<std::tuple<const void*, int, int>> failed;
  std::set<JobId> passed;  // jobs that wait on, ahead of the one at hand
  bool first_queue_blocked = false;
  int launched = 0;
  for (const std::size_t job : waiting()) {
    ArenaJob& one = (*jobs_)[job];
    if (one.gpus > 0) continue;
    const bool strict = queue_of(one) == 1 && first_queue_blocked;
    const std::tuple key(static_cast<const void*>(one.throughput), one.asked_pool, one.asked_gpus);
    if (strict || launched >= kMostLaunches || failed.contains(key) || !launch(job)) {
      failed.insert(key);
      passed.insert(one.id);
      if (queue_of(one) == 1) first_queue_blocked = true;
      continue;
    }
    ++launched;
    if (!passed.empty()) blockers_[one.id] = passed;
  }
}

// Alg. 1, InFlightHandler: doubles or moves the running job that gains most, while GPUs are idle.
void ArenaScheduler::upgrade() {
  for (int step = 0; step < options_.upgrades; ++step) {
    std::vector<ScalingJob> running;
    for (std::size_t j = 0; j < jobs_->size(); ++j) {
      const ArenaJob& one = (*jobs_)[j];
      const bool left_alone = one.fixed || one.gpus == 0;
      running.push_back({[this, j](int pool, int gpus) { return speed(j, pool, gpus); }, left_alone ? -1 : one.pool,
                         one.gpus, std::max(options_.most_gpus, one.asked_gpus)});
    }
    const auto best = best_step(running, free_now());
    if (!best) return;
    (*jobs_)[best->job].pool = best->pool;
    (*jobs_)[best->job].gpus = best->gpus;
    note_running();
  }
}

void ArenaScheduler::round(std::vector<ArenaJob>& jobs, const std::vector<int>& capacity) {
  jobs_ = &jobs;
  capacity_ = capacity;
  note_running();
  // Jobs that have ended pass and block nobody.
  const auto present = [&](JobId id) {
    const auto at = std::lower_bound(jobs.begin(), jobs.end(), id,
                                     [](const ArenaJob& job, JobId wanted) { return job.id < wanted; });
    return at != jobs.end() && at->id == id ? &*at : nullptr;
  };
  for (auto one = blockers_.begin(); one != blockers_.end();) {
    const ArenaJob* job = present(one->first);
    std::erase_if(one->second, [&](JobId id) { return present(id) == nullptr || present(id)->gpus > 0; });
    if (job == nullptr || job->gpus == 0 || one->second.empty()) one = blockers_.erase(one);
    else ++one;
  }
  launch_those_that_fit();
  upgrade();
  jobs_ = nullptr;
}

}  // namespace espalier::sim
