#include "launcher/base/base_request.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "planner/wire/handshake.hpp"

namespace espalier::launcher {
namespace {

constexpr const char* kBeside = ":beside";  // behind the comment of a base that is submitted beside another one

// Slurm drops a base that waits when its launcher has not lowered its time limit for so long, e.g. because it is dead.
// A slurmctld that is away for less time changes nothing. Where Slurm may requeue the submitted job the next launcher
// goes on with the base, and it may wait longer then. (Tried on 22.05: a user may not change the deadline.)
constexpr std::time_t kDeadlineBehind = 30L * 60, kDeadlineOfRequeued = 7L * 24 * 3600;
// A base beside another one is withdrawn earlier than this by its launcher. Without a launcher it must not start late.
constexpr std::time_t kBesideStarts = 120;
// A job without a time limit can have no deadline. This is the limit of a base beside another one, then.
constexpr std::time_t kYear = 365L * 24 * 3600;

}  // namespace

BaseJob base_job(const JobContext& context, const BaseTime& time, const BaseShape& shape, std::vector<std::string> only,
                 std::vector<std::string> environment, bool immediate) {
  BaseJob job;
  job.shape = shape;
  job.partition = context.base_partition;
  job.qos = context.qos;
  job.account = context.account;
  job.reservation = context.reservation;
  job.wckey = context.wckey;
  job.cluster = context.site.cluster;
  job.nice = context.nice;
  job.name = "base-" + std::to_string(context.job);
  job.comment = base_comment(context.job, wire::fresh_nonce().substr(0, 8)) + (only.empty() ? "" : kBeside);
  job.only = std::move(only);
  job.script = "#!/bin/sh\nexec '" + context.self + "' keeper --base\n";
  job.environment = std::move(environment);
  job.directory = "/";
  const std::time_t now = std::time(nullptr);
  job.ends = time.ends(now);
  if (!job.only.empty()) {
    if (job.ends == 0) job.ends = now + kYear;
    job.deadline = job.ends + kBesideStarts;
  } else if (time.last() > 0) {
    job.deadline = time.last() + (context.may_be_requeued ? kDeadlineOfRequeued : kDeadlineBehind);
  }
  job.immediate = immediate;
  return job;
}

std::string cut_short(const JobContext& context, std::time_t now) {
  const long most = context.base_most_minutes, left = context.ends == 0 ? 0 : (context.ends - now) / 60;
  const long wanted = context.base_minutes != 0 ? context.base_minutes : left;
  if (most == 0 || (wanted != 0 && wanted <= most)) return "";
  return "the bases of job " + std::to_string(context.job) + " may run " + std::to_string(most) +
         " minutes, the MaxTime of partition " + context.base_partition + ", and not " +
         (wanted == 0 ? "without a limit" : std::to_string(wanted) + " minutes") +
         (context.base_minutes != 0 ? " as time= says" : " as the submitted job") +
         "; the job ends then, and can be submitted again to go on from a checkpoint";
}

BaseTypes types_of_base(const JobContext& context) { return {context.types, context.accuracy == Accuracy::relaxed}; }

bool still_wanted(const SlurmJob& waits, const JobContext& context, const BaseShape& shape) {
  const auto names_all = [](std::vector<std::string> names, const std::vector<std::string>& wanted) {
    std::sort(names.begin(), names.end());
    return std::includes(names.begin(), names.end(), wanted.begin(), wanted.end());
  };
  return waits.state == SlurmJob::State::pending && waits.comment.starts_with(base_comment(context.job, "")) &&
         !waits.comment.ends_with(kBeside) && waits.partition == context.base_partition && waits.qos == context.qos &&
         waits.account == context.account && waits.reservation == context.reservation &&
         waits.wanted_nodes == shape.nodes && waits.wanted_gpus_per_node == shape.gpus_per_node &&
         names_all(waits.excluded, shape.excluded);
}

BaseShape shape_of(const SlurmJob& runs) {
  BaseShape shape;
  std::size_t gpus = 0;
  for (const Holding& held : runs.holdings) gpus += held.gpus.size();
  shape.nodes = static_cast<int>(runs.holdings.size());
  shape.gpus_per_node = shape.nodes == 0 ? 0 : static_cast<int>(gpus) / shape.nodes;
  shape.cpus_per_node = runs.cpus / std::max(1, shape.nodes);
  shape.memory_mb_per_node = runs.memory_mb_per_node;
  return shape;
}

}  // namespace espalier::launcher
