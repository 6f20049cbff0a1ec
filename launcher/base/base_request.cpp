#include "launcher/base/base_request.hpp"

#include <utility>

#include "planner/wire/handshake.hpp"

namespace espalier::launcher {

BaseJob base_job(const JobContext& context, const BaseTime& time, const BaseShape& shape, std::vector<std::string> only,
                 std::vector<std::string> environment, bool immediate) {
  BaseJob job;
  job.shape = shape;
  job.only = std::move(only);
  job.partition = context.base_partition;
  job.qos = context.qos;
  job.account = context.account;
  job.reservation = context.reservation;
  job.name = "base-" + std::to_string(context.job);
  job.comment = base_comment(context.job, wire::fresh_nonce().substr(0, 8));
  job.script = "#!/bin/sh\nexec '" + context.self + "' keeper --base\n";
  job.environment = std::move(environment);
  job.directory = "/";
  job.ends = time.ends(std::time(nullptr));
  job.last = time.last();
  job.immediate = immediate;
  return job;
}

}  // namespace espalier::launcher
