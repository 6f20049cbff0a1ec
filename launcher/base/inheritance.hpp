// What an earlier launcher of a movable job has left: bases, the training on one of them, and extensions. This object
// asks Slurm for them, waits for the bases' keepers, and chooses the base on which training goes on. Bases that are of
// no use are given back, and so are the extensions then. Runs on the loop.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "launcher/base/adoption.hpp"
#include "launcher/base/base_jobs.hpp"
#include "launcher/base/left_jobs.hpp"

namespace espalier::launcher {

class Inheritance {
 public:
  struct Callbacks {
    // Whether this launcher can go on with what an earlier one has left.
    std::function<bool(const wire::Continuation&)> suits;
    std::function<void(JobId, const BaseShape&)> waits;  // the job's first base, which waits on
    std::function<void(JobId)> before;                   // a base that training was leaving, with state on it
    // Once, after the others: training goes on on this base. 0: there is none of use.
    std::function<void(JobId)> chosen;
    std::function<void()> changed;  // the job has more bases
  };
  // All outlive this object.
  Inheritance(wire::Loop& loop, BlockingThread& slurm, const JobContext& context, BaseJobs& jobs, Callbacks callbacks)
      : context_(context), jobs_(jobs), callbacks_(std::move(callbacks)), left_(loop, slurm, context) {}

  void look();
  // A keeper tells what its launcher had told it.
  void heard(const wire::Continuation& left) { adoption_.heard(left); }
  // The keepers of a base have come, or the base has ended. True: it is one that was left.
  bool came(JobId base);
  bool ended(JobId base);
  void stop();  // for the end of the job: Slurm is asked no more, and the extensions are given back

  bool complete() const { return adoption_.complete(); }  // no keeper is waited for
  bool asking() const { return left_.asking(); }          // Slurm has a question
  // Once a base is chosen. nullopt: no launcher had started ranks.
  const std::optional<wire::Continuation>& continuation() const { return adoption_.continuation(); }
  std::vector<SlurmJob> take_extensions();  // the caller's from now on

 private:
  void await(const std::vector<SlurmJob>& bases);
  void choose();
  void give_back_extensions();

  const JobContext& context_;
  BaseJobs& jobs_;
  Callbacks callbacks_;
  LeftJobs left_;
  Adoption adoption_;
  std::vector<SlurmJob> extensions_;
  bool stopped_ = false;
};

}  // namespace espalier::launcher
