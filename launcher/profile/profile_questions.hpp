// What a profile job asks espalierd, and tells it, about the job for which it measures. Each function blocks for some
// seconds at most, and throws Error when espalierd refuses or cannot be reached.
#pragma once

#include <string>

#include "launcher/profile/profile_job.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher {

class ProfileQuestions {
 public:
  // Throws Error when this process is in no profile job.
  explicit ProfileQuestions(const ProfileRequest& request);

  const ProfileRequest& request() const { return request_; }
  JobId own() const { return own_; }  // this profile job
  // What the program has told of itself; plans() and report() pass it on.
  void described(const wire::Description& told) { told_ = wire::to_frame(told).body; }

  bool waits() const;                          // the job still does
  Json plans() const;                          // whose stages are to be measured
  Json report(const Json& profiles) const;     // of all stages of a plan
  Json places(const std::string& type) const;  // where the next profile job may run
  JobId submit_next(const Json& place, int delay_seconds) const;

 private:
  Json ask(const std::string& what, const Json& arguments) const;
  Json arguments() const;

  const ProfileRequest request_;
  const wire::Config config_;
  const SlurmSite site_;
  JobId own_ = 0;
  Json told_;
};

}  // namespace espalier::launcher
