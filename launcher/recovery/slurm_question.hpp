// A question to Slurm about the nodes of a lost generation. A busy slurmctld may take its time. So a question that is
// under way is not asked a second time behind itself: its answer would only come later still.
#pragma once

#include <functional>
#include <set>

#include "launcher/recovery/slurm_answer.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

class SlurmQuestion {
 public:
  using Said = std::function<void(const SlurmAnswer&)>;
  struct Limits {
    wire::Loop::Milliseconds late;  // Slurm takes so long: the user is told
    wire::Loop::Milliseconds most;  // and after so long there is no answer
  };
  // `ask` may answer late, or not at all.
  SlurmQuestion(wire::Loop& loop, std::function<void(const std::set<JobId>&, Said)> ask)
      : loop_(loop), ask_(std::move(ask)) {}

  // `said` follows once, unless a later call takes its place: with Slurm's answer, or with one that says `away` when
  // the time is over. `late` is called at most once before it. Where Slurm has a question about these jobs already, it
  // is asked no other, and that answer counts.
  void put(const std::set<JobId>& jobs, const Limits& limits, std::function<void()> late, Said said);

 private:
  void answered(int question, const SlurmAnswer& answer);
  void end(const SlurmAnswer& answer);

  wire::Loop& loop_;
  const std::function<void(const std::set<JobId>&, Said)> ask_;
  std::set<JobId> asked_;  // empty: Slurm has no question
  int question_ = 0;       // that Slurm has, or had last
  Said said_;
  wire::Watch late_, most_;
};

}  // namespace espalier::launcher
