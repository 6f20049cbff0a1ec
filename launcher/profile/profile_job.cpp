#include "launcher/profile/profile_job.hpp"

#include <unistd.h>

#include <ctime>
#include <filesystem>

#include "launcher/process/child.hpp"
#include "launcher/slurm/slurm.hpp"
#include "planner/core/error.hpp"
#include "planner/core/feature_expression.hpp"
#include "planner/wire/client.hpp"
#include "planner/wire/grant.h"
#include "planner/wire/handshake.hpp"
#include "planner/wire/stage_queries.hpp"

namespace espalier::launcher {
namespace {

constexpr wire::Client::Milliseconds kPatience{5000};
constexpr int kMostWaitSeconds = 7 * 24 * 3600;  // for its GPU; espalierd ends it when the job waits no longer

// For /bin/sh.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

Json arguments_of(const ProfileRequest& request) {
  Json arguments{{"job", request.job}};
  if (request.max_gpus > 0) arguments["max"] = request.max_gpus;
  if (!request.accuracy.empty()) arguments["accuracy"] = request.accuracy;
  return arguments;
}

Json ask_planner(const wire::Config& config, const std::vector<uid_t>& planner_uids, const std::string& what,
                 const Json& arguments) {
  auto client =
      wire::Client::tcp(wire::planner_caller(planner_uids), config.planner_host, config.planner_port, kPatience);
  client.send(wire::Query{what, arguments});
  const auto frame = client.receive(kPatience);
  if (!frame) throw Error("espalierd has not answered within 5 s");
  if (frame->type == wire::Refused::type) throw Error(wire::from_frame<wire::Refused>(*frame).reason);
  return wire::from_frame<wire::Reply>(*frame).body;
}

JobId submit_profile_job(const wire::Config& config, const std::string& cluster, const ProfileRequest& request,
                         const Json& place, int delay_seconds) {
  const auto anchor = load_job(request.job);
  if (!anchor) throw Error("job " + std::to_string(request.job) + ": Slurm does not know it");
  const auto own_or = [](const std::string& site, const std::string& anchors) { return site.empty() ? anchors : site; };
  const std::string grant = place.at("grant").get<std::string>();
  const std::string nonce = grant.empty() ? wire::fresh_nonce() : grant.substr(grant.find(':') + 1);
  const std::string number = std::to_string(request.job);
  ExtensionJob job;
  job.anchor = request.job;
  job.name = "prof-" + number;
  job.request = {place.at("node").get<std::string>(), 1, place.at("cpus").get<int>(), place.at("memory_mb").get<long>(),
                 place.at("minutes").get<int>()};
  job.partition = config.partition;
  job.account = own_or(config.extension_account, anchor->account);
  job.qos = config.extension_qos;
  job.constraint = own_or(config.extension_constraint, fits_one_node(anchor->features) ? anchor->features : "");
  job.reservation = own_or(config.extension_reservation, anchor->reservation);
  job.wckey = anchor->wckey;
  job.cluster = cluster;
  job.nice = std::max(0, anchor->nice);
  job.typed_gpus = anchor->typed_gpus;
  job.comment = "espalier:ext:" + number + ":" + nonce.substr(0, ESPALIER_GRANT_ID) + " " + wire::kStageProfileWord +
                place.at("type").get<std::string>();
  if (!config.extension_comment.empty()) job.comment += " " + config.extension_comment;
  job.script =
      "#!/bin/sh\nexec " + quoted(std::filesystem::read_symlink("/proc/self/exe").string()) + " profile --inside";
  if (request.max_gpus > 0) job.script += " --max=" + std::to_string(request.max_gpus);
  if (!request.accuracy.empty()) job.script += " --accuracy=" + request.accuracy;
  job.script += " " + number + " --";
  for (const std::string& word : request.program) job.script += " " + quoted(word);
  job.script += "\n";
  job.environment = clean_environment({std::string(ESPALIER_GRANT_ENV "=") + grant});
  job.directory = std::filesystem::current_path().string();
  job.output = job.directory + "/" + job.name + ".out";
  job.begin = delay_seconds > 0 ? std::time(nullptr) + delay_seconds : 0;
  job.grant_seconds = kMostWaitSeconds;
  return submit_extension(job);
}

}  // namespace espalier::launcher
