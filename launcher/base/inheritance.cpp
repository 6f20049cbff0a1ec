#include "launcher/base/inheritance.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "launcher/base/base_request.hpp"

namespace espalier::launcher {

void Inheritance::look() {
  left_.ask([this](const LeftJobs::Left& left) {
    extensions_ = left.extensions;
    if (left.waits != 0) callbacks_.waits(left.waits, left.waiting_shape);
    if (stopped_) return give_back_extensions();
    if (!left.bases.empty()) return await(left.bases);
    callbacks_.chosen(0);
  });
}

// Their keepers are found by the rank servers that are started beside them.
void Inheritance::await(const std::vector<SlurmJob>& bases) {
  for (const SlurmJob& job : bases) adoption_.await(job.id);
  for (const SlurmJob& job : bases) {
    jobs_.add(job.id, shape_of(job));
    spdlog::info("espalier: launch: an earlier launcher of job {} has left base {}", context_.job, job.id);
  }
  callbacks_.changed();
  for (const SlurmJob& job : bases) jobs_.ask(job.id);
}

bool Inheritance::came(JobId base) {
  if (!adoption_.came(base)) return false;
  if (adoption_.complete()) choose();
  return true;
}

bool Inheritance::ended(JobId base) {
  const bool chosen = adoption_.complete();
  if (!adoption_.ended(base)) return false;
  if (!chosen && adoption_.complete()) choose();
  return true;
}

// All keepers of the bases that were left have come, or will not come.
void Inheritance::choose() {
  const Adoption::Choice choice = adoption_.choose(callbacks_.suits, [this](JobId base) {
    int gpus = 0;
    for (const Holding& held : jobs_.at(base).holdings) gpus += static_cast<int>(held.gpus.size());
    return gpus >= context_.min_gpus;
  });
  JobId before = 0;
  for (const JobId id : choice.others) {
    // Training was moving, and the state is in part on the base before: that is left some steps later.
    if (choice.base != 0 && before == 0 && adoption_.holds_state(jobs_.at(id).holdings)) before = id;
    else jobs_.release(id);
  }
  if (before != 0) callbacks_.before(before);
  if (choice.base == 0) {
    spdlog::warn("espalier: launch: what the earlier launcher has left is of no use: {}; training starts on a new base",
                 choice.why_none);
    give_back_extensions();
  }
  callbacks_.chosen(choice.base);
}

std::vector<SlurmJob> Inheritance::take_extensions() { return std::exchange(extensions_, {}); }

void Inheritance::give_back_extensions() { left_.give_back(take_extensions()); }

void Inheritance::stop() {
  left_.stop();
  give_back_extensions();
  stopped_ = true;
}

}  // namespace espalier::launcher
