#include "launcher/base/second_base.hpp"

#include <utility>

#include "launcher/base/base_request.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {

void SecondBase::submit(const BaseTime& time, const BaseShape& shape, std::vector<std::string> only,
                        std::function<bool()> wanted, Told told) {
  submit(base_job(context_, time, shape, std::move(only), environment_, true), wanted, told);
}

void SecondBase::submit(const BaseJob& job, const std::function<bool()>& wanted, const Told& told) {
  ++asking_;
  slurm_.post([this, job, wanted, told]() -> std::function<void()> {
    JobId id = 0;
    std::string why;
    try {
      id = submit_base(job);
    } catch (const Error& error) {
      why = error.what();
    }
    return [this, job, wanted, told, id, why] {
      --asking_;
      if (id != 0) return told(id, job.shape, why);
      if (!wanted()) return;
      if (!job.immediate) return told(0, job.shape, why);
      // It only means that it must wait in the queue, for some seconds.
      BaseJob queued = job;
      queued.immediate = false;
      submit(queued, wanted, told);
    };
  });
}

}  // namespace espalier::launcher
