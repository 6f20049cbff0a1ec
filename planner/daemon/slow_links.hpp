// Links between nodes that are far slower than their like, as the looks of running jobs show it
// (model/compared_links.hpp). Traffic of others, and busy processors, lower what one look sees. So a link is slow only
// where the job's last three looks agree, the best of which counts. What one user's jobs find does not decide where
// another user's jobs go. Findings outlive the job that made them. One thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/model/compared_links.hpp"

namespace espalier {

class SlowLinks {
 public:
  // A look of a user's job, which is counted once, however often it is told. Returns what the job has found so far.
  const SlowPaths& note(uid_t user, JobId job, int generation, const LinkLook& look, const Site& site, double now);
  // Nodes that a user's job should not grow onto: those whose own link is slow, and those with a slow link to one of
  // `held`, which are the nodes that it has. None of `held` is among them. Sorted.
  std::vector<std::string> closed_to(uid_t user, const std::set<std::string>& held, double now) const;

  struct Slow {
    double share = 1;          // the least that a job has found
    std::set<std::string> to;  // nodes at the other ends
    int jobs = 0;              // that have found it
  };
  std::map<std::string, Slow> all(double now) const;  // by node

 private:
  struct Reading {
    double gb_s = 0, time = 0;
  };
  using Link = std::pair<std::string, std::string>;  // sorted
  struct Job {
    int generation = -1, number = 0;             // of the last look
    double until = 0;                            // of what it has found
    std::map<Link, std::vector<Reading>> links;  // the newest reading last
    SlowPaths paths;
  };
  struct User {
    std::map<JobId, Job> jobs;
    // Of all its jobs, until when.
    std::map<std::string, double> nodes;
    std::map<std::string, std::map<std::string, double>> pairs;  // by both ends
  };
  static void take(Job& job, const LinkLook& look, double now);
  static SlowPaths paths_of(const Job& job, const Site& site);
  static void sum_up(User& user, double now);
  std::map<uid_t, User> users_;
};

}  // namespace espalier
