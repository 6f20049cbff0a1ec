#include "planner/sim/policies/rubick_slopes.hpp"

#include <algorithm>
#include <cmath>

namespace espalier::sim {

std::vector<CurvePoint> useful_points(std::vector<CurvePoint> points, double least_gain) {
  std::sort(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) {
    return a.gpus != b.gpus ? a.gpus < b.gpus : a.throughput > b.throughput;
  });
  std::vector<CurvePoint> useful;
  for (const CurvePoint& point : points)
    if (useful.empty() || point.throughput >= useful.back().throughput * least_gain) useful.push_back(point);
  return useful;
}

int minimum_demand(std::span<const CurvePoint> curve, double initial) {
  // The same plan may differ from itself by a rounding error.
  for (const CurvePoint& point : curve)
    if (point.throughput >= initial * (1 - 1e-9)) return point.gpus;
  return 0;
}

bool is_settled(double trained_seconds, int reconfigurations, double cost, const RubickOptions& options) {
  if (reconfigurations == 0) return false;
  return trained_seconds - reconfigurations * cost < options.least_worth * trained_seconds;
}

double slope(const RubickJob& job, const CurvePoint& from, const CurvePoint& to) {
  return std::abs(to.throughput - from.throughput) / job.initial / std::abs(to.gpus - from.gpus);
}

namespace {

class Shares {
 public:
  Shares(std::span<const RubickJob> jobs, int gpus, const RubickOptions& options)
      : jobs_(jobs), options_(options), idle_(gpus) {
    for (const RubickJob& job : jobs) {
      now_.push_back(job.gpus);
      idle_ -= job.gpus;
    }
  }

  std::vector<int> run() {
    for (std::size_t j = 0; j < jobs_.size(); ++j)
      if (jobs_[j].gpus == 0 && jobs_[j].minimum > 0 && !jobs_[j].fixed) serve(j);
    while (grow_one()) {
    }
    return now_;
  }

 private:
  CurvePoint point(std::size_t job, int gpus) const {
    for (const CurvePoint& each : jobs_[job].curve)
      if (each.gpus == gpus) return each;
    return {};
  }

  void serve(std::size_t job) {
    const auto before = now_;
    const int idle = idle_;
    const bool impatient = jobs_[job].waited > options_.patience;
    const double own = slope(jobs_[job], {0, 0}, point(job, jobs_[job].minimum));
    while (idle_ < jobs_[job].minimum)
      if (!shrink_one(impatient, own)) {
        now_ = before;
        idle_ = idle;
        return;
      }
    now_[job] = jobs_[job].minimum;
    idle_ -= now_[job];
  }

  // Moves one job down its curve: the one with the lowest slope to any smaller point.
  bool shrink_one(bool impatient, double below) {
    double lowest = 0;
    std::size_t victim = jobs_.size();
    int target = 0;
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      const RubickJob& job = jobs_[j];
      if (job.gpus == 0 || job.fixed || (job.settled && !impatient)) continue;
      const CurvePoint here = point(j, now_[j]);
      for (const CurvePoint& smaller : job.curve) {
        if (smaller.gpus >= now_[j] || smaller.gpus < job.minimum) continue;
        const double down = slope(job, here, smaller);
        if (victim != jobs_.size() && down >= lowest) continue;
        lowest = down, victim = j, target = smaller.gpus;
      }
    }
    if (victim == jobs_.size() || (!impatient && lowest >= below)) return false;
    idle_ += now_[victim] - target;
    now_[victim] = target;
    return true;
  }

  bool grow_one() {
    double steepest = 0;
    std::size_t winner = jobs_.size();
    int target = 0;
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      const RubickJob& job = jobs_[j];
      // A job that starts in this round pays nothing for starting larger.
      if (now_[j] == 0 || job.fixed || (job.settled && job.gpus > 0)) continue;
      const CurvePoint here = point(j, now_[j]);
      for (const CurvePoint& larger : job.curve) {
        if (larger.gpus <= now_[j] || larger.gpus - now_[j] > idle_) continue;
        const double up = slope(job, here, larger);
        if (up > steepest) steepest = up, winner = j, target = larger.gpus;
      }
    }
    if (winner == jobs_.size()) return false;
    idle_ -= target - now_[winner];
    now_[winner] = target;
    return true;
  }

  const std::span<const RubickJob> jobs_;
  const RubickOptions options_;
  std::vector<int> now_;
  int idle_ = 0;
};

}  // namespace

std::vector<int> rubick_shares(std::span<const RubickJob> jobs, int gpus, const RubickOptions& options) {
  return Shares(jobs, gpus, options).run();
}

}  // namespace espalier::sim
