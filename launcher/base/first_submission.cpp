#include "launcher/base/first_submission.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "launcher/base/base_request.hpp"
#include "launcher/slurm/job_update.hpp"
#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::launcher {
namespace {

// Libslurm's errors do not tell a refusal from an answer that was lost, so that a refusal is asked for again.
constexpr int kMostAttempts = 3;
constexpr wire::Loop::Milliseconds kAgain{2000};
constexpr int kMostQuestions = 150;  // while slurmctld is away

}  // namespace

FirstSubmission::FirstSubmission(wire::Loop& loop, BlockingThread& slurm, const JobContext& context,
                                 std::vector<std::string> environment)
    : loop_(loop), slurm_(slurm), context_(context), environment_(std::move(environment)), time_(context.ends) {}

void FirstSubmission::submit(const BaseTime& time, const Told& told) {
  time_ = time;
  attempts_ = 0;
  attempt(told);
}

void FirstSubmission::stop() {
  stopped_ = true;
  again_.reset();
}

void FirstSubmission::attempt(const Told& told) {
  ++attempts_;
  asking_ = true;
  slurm_.post([this, told, context = context_, time = time_, environment = environment_]() -> std::function<void()> {
    Answer answer;
    try {
      const auto nodes = partition_nodes(context.base_partition);
      answer.hopeless = true;  // where the partition has no such nodes
      const BaseShape shape = base_shape(context.base_gpus, nodes, types_of_base(context));
      answer.hopeless = false;
      answer.job = base_job(context, time, shape, {}, environment, false);
      answer.id = submit_base(answer.job);
    } catch (const Error& error) {
      answer.why = error.what();
    }
    return [this, told, answer] {
      asking_ = false;
      if (answer.id != 0 || answer.hopeless || stopped_ || attempts_ == kMostAttempts)
        return told(answer.id, answer.job.shape, answer.why);
      spdlog::info("espalier: launch: the base of job {}: {}; it is asked for again", context_.job, answer.why);
      again_ = loop_.after(kAgain, [this, told, answer] { look(answer, told, 1); });
    };
  });
}

void FirstSubmission::look(const Answer& lost, const Told& told, int question) {
  asking_ = true;
  slurm_.post([this, told, lost, question, job = context_.job]() -> std::function<void()> {
    Answer answer = lost;
    try {
      for (const SlurmJob& base : bases_of(job))
        if (!lost.job.comment.empty() && base.comment == lost.job.comment) answer.id = base.id;
    } catch (const Error& error) {
      answer.away = true;
    }
    return [this, told, answer, question] {
      asking_ = false;
      if (answer.id != 0 || stopped_) return told(answer.id, answer.job.shape, answer.why);
      if (!answer.away) return attempt(told);
      if (question == kMostQuestions) return told(0, answer.job.shape, answer.why);
      again_ = loop_.after(kAgain, [this, told, answer, question] {
        look({0, answer.job, answer.why}, told, question + 1);
      });
    };
  });
}

void FirstSubmission::steer(JobId base, const BaseShape& shape, const std::string& nodes) {
  slurm_.post([base, shape, nodes, context = context_]() -> std::function<void()> {
    std::string why;
    try {
      const auto excluded = excluded_but(expand_hosts(nodes.c_str()), shape, partition_nodes(context.base_partition),
                                         types_of_base(context));
      exclude_nodes(base, excluded);
    } catch (const Error& error) {
      why = error.what();
    }
    return [base, nodes, why] {
      if (!why.empty()) return spdlog::warn("espalier: launch: base {} waits as before: {}", base, why);
      spdlog::info("espalier: launch: base {} waits for {} now", base,
                   nodes.empty() ? "any node that it may have" : nodes);
    };
  });
}

}  // namespace espalier::launcher
