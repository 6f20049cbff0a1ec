// What the scheduler maximises: how the gains of different jobs compare (Arena §3.5, §5.6). The daemon and the
// simulator use the same. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier {

// throughput: gains count as they are, so GPUs go where they bring most (Arena, Equation 5).
// jct: average completion time, the default. A job with little work left comes first. A job that would miss its
// deadline counts up to four times as much.
// deadline: as jct, but a job that would miss its deadline, and can still keep it, counts four times as much when jobs
// are compared (Arena, Equation 6).
// fairness: as jct, times rho, the finish-time fairness (Themis; Arena, Equation 7).
enum class ObjectiveKind { throughput, jct, deadline, fairness };

// "throughput", "jct", "deadline", "fairness", in this order.
const std::vector<std::string>& objective_names();
std::string to_string(ObjectiveKind kind);
std::optional<ObjectiveKind> objective_from(const std::string& name);  // nullopt: there is none of this name

// [objective] of espalier.toml.
struct Objective {
  ObjectiveKind kind = ObjectiveKind::jct;
  // Factors on the gains of jobs by Slurm's account and QOS. Absent: 1.
  std::map<std::string, double> account_weights, qos_weights;
  bool operator==(const Objective&) const = default;
};

// What the objective knows of one running job.
struct Contender {
  const ElasticJob* job = nullptr;
  double size = 0;                           // |.| of its GPUs (benefit.hpp)
  int gpus = 0;                              // that its plan uses
  double weight = 1;                         // PlanningInput::weights
  std::optional<double> submitted;           // seconds since the epoch
  std::optional<double> alone_step_seconds;  // predicted on its own GPUs, without extensions
};

// How one job stands in a decision.
struct JobStanding {
  ObjectiveKind kind = ObjectiveKind::jct;
  double discount = 1;  // factor on its marginal benefits, before they meet the threshold
  double turn = 1;      // factor on its benefits when jobs are compared; thresholds do not change
  // What these were made of.
  double weight = 1;
  double left_seconds = 0;      // until its end at its present speed; infinity: not known
  double deadline_seconds = 0;  // from now until its deadline; 0: it has none, or it is over
  bool lost = false;            // as good as sure to miss its deadline, whatever it gets
  double rho = 0;               // fairness; 0: not known

  // The discount if its steps took `slower` times as long. What is lent to a job was weighed at the speed that it had
  // without: with the lent GPUs it is less urgent, and would give them back and want them again in turn.
  double discount_if(const ElasticJob& job, double now, double slower) const;
};

// One JobStanding for each contender, in their order. `now`: seconds since the epoch. `short_first`:
// SchedulerOptions::short_first, of jct and deadline.
//
// jct: turn is W^-short_first, where W is the work left: the seconds until the job's end at its present speed times the
// size of its GPUs. Jobs whose end is not known count with the mean of the others. With short_first = 1, benefit times
// turn is the part of the remaining work that one more GPU does each second. Serving the largest first is the c-mu
// rule, which lowers the average completion time. For jobs that scale linearly it is SRPT; for others heSRPT (Berg,
// Vesilo, Harchol-Balter 2020) shares in the same order. discount is urgency().
//
// deadline: as jct, but turn counts four times for a job whose end at its present speed is later than 0.8 of the time
// until its deadline. It is lost if that needs more than three times its speed, or than linear scaling to its maximum.
//
// fairness: rho = (time since the submission + time left at the present speed) / (all steps on its own GPUs alone).
// turn is jct's times rho. Not known: rho 1. Measured: RESULTS.md tells what larger powers of rho do.
//
// The contender's weight multiplies the turn under every objective.
std::vector<JobStanding> standings(ObjectiveKind kind, const std::vector<Contender>& contenders, double now,
                                   double short_first);

// In words, for `espalier explain`: "jct: 12 min left at its present speed; compared with other jobs' gains by a factor
// of 0.00139".
std::string describe(const JobStanding& standing);

}  // namespace espalier
