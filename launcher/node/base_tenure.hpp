// Decides how long a keeper of a base holds its node without a launcher. Pure: the keeper passes time and what it saw.
//
// The launcher of a movable job runs in the submitted job, perhaps on another node. If that node is lost, Slurm
// requeues the submitted job, and its next launcher takes the base on. So the keeper asks Slurm about the submitted
// job.
#pragma once

#include <chrono>
#include <optional>

namespace espalier::launcher {

class BaseTenure {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Submitted { ended, waits, runs };  // waits: to run again, or to be resumed
  // `batch`: the keeper in the base's batch script, with which the base ends. It asks Slurm often; the others, of which
  // there may be thousands, ask seldom. `holds`: the longest time without a launcher, once there was one. `first`: the
  // longest time until the first launcher accepts the keeper, whatever Slurm says; nullopt: a minute, while the
  // submitted job runs. `spread`: how long this keeper waits with its first question after the loss of a launcher;
  // others wait for other times, so that thousands do not ask in one moment.
  BaseTenure(Time start, bool batch, std::chrono::milliseconds holds = std::chrono::minutes(10),
             std::optional<std::chrono::seconds> first = {}, std::chrono::milliseconds spread = {})
      : batch_(batch), holds_(holds), first_(first), spread_(spread), since_(start) {}

  void found();         // a launcher has accepted this keeper
  void lost(Time now);  // the connection to it
  // The places where a launcher may be were tried. `nobody`: the launcher's host says that nobody listens there.
  void looked(Time now, bool nobody);
  // Slurm's word on the submitted job. `restarts`: how often it was requeued.
  void heard(Submitted state, int restarts, Time now);

  bool asks(Time now);         // Slurm is to be asked now
  bool stays(Time now) const;  // false: the keeper gives its node back

 private:
  // What Slurm has said of the submitted job since a launcher was last there.
  struct Answers {
    std::optional<Submitted> state;
    std::optional<int> first_restarts;
    bool requeued = false;
    bool ended_itself = false;  // the launcher has
  };

  const bool batch_;
  const std::chrono::milliseconds holds_;
  const std::optional<std::chrono::seconds> first_;
  const std::chrono::milliseconds spread_;
  Time since_;  // without a launcher
  bool connected_ = false, ever_ = false;
  std::optional<Time> nobody_since_, asked_;
  Answers answers_;
};

}  // namespace espalier::launcher
