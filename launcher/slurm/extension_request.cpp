#include "launcher/slurm/extension_request.hpp"

#include <utility>

#include "planner/core/feature_expression.hpp"
#include "planner/wire/grant.h"
#include "planner/wire/handshake.hpp"

namespace espalier::launcher {

ExtensionJob extension_job(const JobContext& context, std::vector<std::string> environment,
                           const ExtensionRequest& request, const std::string& grant, bool immediate) {
  const wire::Config& config = context.config;
  const auto own_or = [](const std::string& site, const std::string& anchors) { return site.empty() ? anchors : site; };
  ExtensionJob job;
  job.anchor = context.job;
  job.request = request;
  job.partition = config.partition;
  job.account = own_or(config.extension_account, context.account);
  job.qos = config.extension_qos;
  // The constraint of a movable job says where its launcher runs.
  const bool inherits = !context.movable && fits_one_node(context.features);
  job.constraint = own_or(config.extension_constraint, inherits ? context.features : "");
  job.reservation = own_or(config.extension_reservation, context.reservation);
  job.wckey = context.wckey;
  job.cluster = context.site.cluster;
  job.nice = context.nice;
  job.typed_gpus = context.typed_gpus;
  // A grant is for the extension of its id (planner/wire/grant.h).
  const std::string nonce = grant.empty() ? wire::fresh_nonce() : grant.substr(grant.find(':') + 1);
  job.comment = "espalier:ext:" + std::to_string(context.job) + ":" + nonce.substr(0, ESPALIER_GRANT_ID);
  if (!config.extension_comment.empty()) job.comment += " " + config.extension_comment;
  job.script = "#!/bin/sh\nexec '" + context.self + "' keeper --extension\n";
  job.environment = std::move(environment);
  if (!grant.empty()) job.environment.push_back(ESPALIER_GRANT_ENV "=" + grant);
  job.directory = "/";
  job.immediate = immediate;
  job.grant_seconds = config.acquire_seconds;
  return job;
}

}  // namespace espalier::launcher
