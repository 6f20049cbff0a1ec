#include "launcher/base/left_jobs.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "launcher/base/base_request.hpp"
#include "launcher/slurm/requeued.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

// How often Slurm is asked, and how many times, while it does not answer.
constexpr wire::Loop::Milliseconds kAskAgain{2000};
constexpr int kMostQuestions = 150;

struct Answer {
  LeftJobs::Left left;
  std::string trouble;  // why Slurm has not answered
};

void end(JobId id) {
  try {
    give_back(id);
  } catch (const Error& error) {
    spdlog::warn("espalier: launch: job {}, which an earlier launcher has left: {}", id, error.what());
  }
}

// Whether the base waits for this launcher, too. Blocks. Throws Error where Slurm does not answer.
bool takes_over(const SlurmJob& base, const JobContext& context, LeftJobs::Left& left) {
  if (left.waits != 0 || base.state != SlurmJob::State::pending) return false;
  try {
    const auto shapes = base_shapes(context.base_gpus, partition_nodes(context.base_partition), types_of_base(context));
    const auto wanted = std::find_if(shapes.begin(), shapes.end(),
                                     [&](const BaseShape& shape) { return still_wanted(base, context, shape); });
    if (wanted == shapes.end()) return false;
    left.waits = base.id;
    left.waiting_shape = *wanted;
  } catch (const Error& error) {
    spdlog::warn("espalier: launch: base {}, which waits, is submitted again: {}", base.id, error.what());
  }
  return left.waits != 0;
}

// Blocks.
Answer left_by(const JobContext& context) {
  Answer answer;
  LeftJobs::Left& found = answer.left;
  const JobId job = context.job;
  const int restarts = context.restarts;
  try {
    // A launcher that was lost with its node may have left a base, which the base's keepers hold. The base of a
    // launcher that ended by itself is of no use: the script has gone on to its next step. The base that the job waits
    // for keeps its age. One that it would have moved to is of no use.
    for (SlurmJob& left : bases_of(job))
      if (restarts > 0 && left.state == SlurmJob::State::running) found.bases.push_back(std::move(left));
      else if (restarts == 0 || !takes_over(left, context, found)) end(left.id);
    // Extensions are of use together with a base only.
    for (SlurmJob& left : extensions_of(job))
      if (!found.bases.empty() && left.state == SlurmJob::State::running && left.holdings.size() == 1)
        found.extensions.push_back(std::move(left));
      else end(left.id);
  } catch (const Error& error) {
    answer.trouble = error.what();
  }
  return answer;
}

}  // namespace

void LeftJobs::ask(Told told) { ask(1, told); }

// `question`: the number of this question. Without an answer a second base would be submitted beside one that is held.
void LeftJobs::ask(int question, const Told& told) {
  asking_ = true;
  slurm_.post([this, question, told, context = context_]() -> std::function<void()> {
    const Answer answer = left_by(context);
    return [this, question, told, answer] {
      asking_ = false;
      if (!answer.trouble.empty() && !stopped_) {
        if (question < kMostQuestions) {
          again_ = loop_.after(kAskAgain, [this, question, told] { ask(question + 1, told); });
          return;
        }
        spdlog::warn("espalier: launch: {}; whether an earlier launcher has left a base is not known", answer.trouble);
      }
      told(answer.left);
    };
  });
}

void LeftJobs::stop() {
  stopped_ = true;
  again_.reset();
}

void LeftJobs::give_back(const std::vector<SlurmJob>& extensions) {
  for (const SlurmJob& left : extensions)
    slurm_.post([id = left.id, job = context_.job, restarts = context_.restarts]() -> std::function<void()> {
      try {
        if (!has_been_requeued(job, restarts)) launcher::give_back(id);
      } catch (const Error& error) {
        spdlog::debug("extension {}: {}", id, error.what());  // its keeper gives it back
      }
      return [] {};
    });
}

}  // namespace espalier::launcher
