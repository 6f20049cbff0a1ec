#include "launcher/base/second_submission.hpp"

#include <utility>

#include "launcher/base/base_request.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

// The limits that count now. Blocks. Throws Error.
BaseTime read_anew(BaseTime time, JobId base, JobId submitted) {
  const auto runs = load_job(base), job = load_job(submitted);
  // The end of a job that Slurm preempts is that of its grace time.
  if (runs && job && runs->state == SlurmJob::State::running && !runs->preempted) time.seen(runs->ends, job->ends);
  return time;
}

}  // namespace

void SecondSubmission::submit(JobId beside, const BaseTime& time, const BaseShape& shape, std::vector<std::string> only,
                              std::function<bool()> wanted, Told told) {
  submit({beside, time, shape, std::move(only)}, wanted, told);
}

void SecondSubmission::submit(const Request& request, const std::function<bool()>& wanted, const Told& told) {
  ++asking_;
  slurm_.post([this, request, wanted, told, context = context_, environment = environment_]() -> std::function<void()> {
    Answer answer{0, request.shape, request.time, ""};
    try {
      if (request.beside != 0) answer.time = read_anew(request.time, request.beside, context.job);
      answer.id =
          submit_base(base_job(context, answer.time, request.shape, request.only, environment, request.immediate));
    } catch (const Error& error) {
      answer.why = error.what();
    }
    return [this, request, wanted, told, answer] {
      --asking_;
      if (answer.id != 0) return told(answer);
      if (!wanted()) return;
      if (!request.immediate) return told(answer);
      // It only means that it must wait in the queue, for some seconds.
      Request queued = request;
      queued.time = answer.time;
      queued.immediate = false;
      submit(queued, wanted, told);
    };
  });
}

}  // namespace espalier::launcher
