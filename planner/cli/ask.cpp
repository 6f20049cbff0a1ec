#include "planner/cli/ask.hpp"

#include <pwd.h>
#include <slurm/slurm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "planner/cli/start_slurm.hpp"
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
  start_slurm("");
  slurm_conf_t* conf = nullptr;
  if (slurm_load_ctl_conf(0, &conf) == SLURM_SUCCESS) {
    users.push_back(conf->slurm_user_id);
    espalier_slurm_free_conf(conf);
  }
  return users;
}

wire::Client connect_by_network(const wire::Config& config) {
  const std::string where = config.planner_host + ":" + std::to_string(config.planner_port);
  const std::vector<uid_t> users = planner_users();
  try {
    return wire::Client::tcp(wire::planner_caller(users), config.planner_host, config.planner_port, kPatience);
  } catch (const Error& error) {
    throw Error("planner: cannot be reached at " + where + " (" + error.what() +
                "); check that espalierd runs there, that planner.host and planner.port in " +
                (config.path.empty() ? "/etc/espalier/espalier.toml" : config.path) +
                " name it, and that munged runs on both hosts");
  }
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
  return connect_by_network(config);
}

// One question on an open connection.
Json ask_once(wire::Client& client, const std::string& what, const Json& arguments) {
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

// Adds the lists of a further page. Decisions come newest page first, each page oldest first.
std::size_t add_page(Json& whole, Json page, bool in_front) {
  std::size_t count = 0;
  for (auto entry = page.begin(); entry != page.end(); ++entry) {
    Json& value = entry.value();
    if (!value.is_array()) continue;
    count += value.size();
    Json& list = whole[entry.key()];
    if (in_front) std::swap(list, value);
    list.insert(list.end(), value.begin(), value.end());
  }
  return count;
}

}  // namespace

Json ask_by_network(const wire::Config& config, const std::string& what) {
  wire::Client client = connect_by_network(config);
  return ask_once(client, what, Json::object());
}

Json ask(const wire::Config& config, const std::string& what, const Json& arguments) {
  constexpr int kMostPages = 10000;
  wire::Client client = connect(config);
  Json question = arguments, whole = ask_once(client, what, question);
  const bool decisions = what == "decisions";
  int left = question.value("limit", 100) - (decisions ? static_cast<int>(whole.at("decisions").size()) : 0);
  for (int page = 1; whole.contains("next") && page < kMostPages; ++page) {
    if (decisions && left <= 0) break;
    question["page"] = whole["next"];
    if (decisions) question["limit"] = left;
    whole.erase("next");
    Json more = ask_once(client, what, question);
    if (more.contains("next")) whole["next"] = more["next"];
    left -= static_cast<int>(add_page(whole, std::move(more), decisions));
  }
  whole.erase("next");
  return whole;
}

}  // namespace espalier::cli
