#include "planner/cli/ask.hpp"

#include <pwd.h>
#include <slurm/slurm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "planner/core/error.hpp"
#include "planner/slurm/site.h"
#include "planner/wire/client.hpp"

namespace espalier::cli {
namespace {

constexpr wire::Client::Milliseconds kPatience{5000};

// Users that are accepted as the planner over the network: root, slurm and SlurmUser.
std::vector<uid_t> planner_users() {
  std::vector<uid_t> users{0};
  if (const passwd* entry = ::getpwnam("slurm")) users.push_back(entry->pw_uid);
  slurm_init(nullptr);
  slurm_conf_t* conf = nullptr;
  if (slurm_load_ctl_conf(0, &conf) == SLURM_SUCCESS) {
    users.push_back(conf->slurm_user_id);
    espalier_slurm_free_conf(conf);
  }
  return users;
}

wire::Client connect(const wire::Config& config) {
  const std::string path = config.run_dir + "/control.sock";
  struct stat socket {
  }, directory{};
  if (::stat(path.c_str(), &socket) == 0 && ::stat(config.run_dir.c_str(), &directory) == 0) {
    try {
      // Only the directory's owner, or root, can have put the socket there.
      return wire::Client::local(path, {0, directory.st_uid}, kPatience);
    } catch (const Error& error) {
      throw Error("planner: does not answer on " + path + " (" + error.what() +
                  "); check that espalierd runs: systemctl status espalierd");
    }
  }
  const std::string where = config.planner_host + ":" + std::to_string(config.planner_port);
  try {
    return wire::Client::tcp(wire::Service::planner, config.planner_host, config.planner_port, planner_users(),
                             kPatience);
  } catch (const Error& error) {
    throw Error("planner: cannot be reached at " + where + " (" + error.what() +
                "); check that espalierd runs there, that planner.host and planner.port in " +
                (config.path.empty() ? "/etc/espalier/espalier.toml" : config.path) +
                " name it, and that munged runs on both hosts");
  }
}

}  // namespace

Json ask(const wire::Config& config, const std::string& what, const Json& arguments) {
  wire::Client client = connect(config);
  try {
    client.send(wire::Query{what, arguments});
  } catch (const wire::ConnectionLost&) {
    // The planner may have refused the connection before the question was sent. Its reason can then
    // be read.
  }
  const auto frame = client.receive(kPatience);
  if (!frame) throw Error("planner: did not answer within 5 s; see its log");
  if (frame->type == wire::Refused::type) throw Error(wire::from_frame<wire::Refused>(*frame).reason);
  return wire::from_frame<wire::Reply>(*frame).body;
}

}  // namespace espalier::cli
