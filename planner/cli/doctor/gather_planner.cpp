// Asks munged and espalierd, and looks at the folder of espalierd's state.
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/cli/ask.hpp"
#include "planner/cli/doctor/bounded.hpp"
#include "planner/cli/doctor/gather.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/munge.hpp"

namespace espalier::cli::doctor {
namespace {

constexpr double kMungeSeconds = 10, kAskSeconds = 40;  // ask() may ask slurmctld for SlurmUser

Learned<Json> asked(const std::function<Json()>& ask) {
  const Bounded reply =
      call_bounded([&] { return ask().dump(-1, ' ', false, Json::error_handler_t::replace); }, kAskSeconds);
  if (!reply.succeeded()) return Learned<Json>::unknown(reply.problem());
  Json json = Json::parse(reply.output, nullptr, false);
  if (!json.is_object()) return Learned<Json>::unknown("its answer cannot be read");
  return json;
}

Learned<StateFolder> state_of(const std::string& path) {
  StateFolder state;
  state.path = path;
  struct stat folder {
  }, store{};
  struct statvfs disk {};
  if (::stat(path.c_str(), &folder) != 0 || ::statvfs(path.c_str(), &disk) != 0)
    return Learned<StateFolder>::unknown(path + ": " + std::strerror(errno));
  state.mode = folder.st_mode & 07777;
  state.owner = folder.st_uid;
  state.free_mb = disk.f_bavail * disk.f_frsize >> 20;
  std::uint64_t bytes = 0;
  for (const char* file : {"/espalier.db", "/espalier.db-wal", "/espalier.db-shm"})
    if (::stat((path + file).c_str(), &store) == 0) bytes += static_cast<std::uint64_t>(store.st_size);
  state.store_mb = bytes >> 20;
  return state;
}

}  // namespace

Learned<double> gather_munge() {
  const Bounded reply = call_bounded(
      [] {
        wire::munge_open(wire::munge_seal("espalier", ::geteuid()));
        return std::string();
      },
      kMungeSeconds);
  if (!reply.succeeded()) return Learned<double>::unknown(reply.problem());
  return reply.seconds;
}

void gather_planner(Facts& facts) {
  const wire::Config& config = facts.config;
  struct stat folder {
  }, socket{};
  facts.planner_is_here =
      ::stat((config.run_dir + "/control.sock").c_str(), &socket) == 0 && ::stat(config.run_dir.c_str(), &folder) == 0;
  if (facts.planner_is_here) facts.planner_user = folder.st_uid;
  facts.ping = asked([&] { return ask(config, "ping"); });
  if (!facts.ping) {
    facts.network_ping.why = facts.planner_config.why = "espalierd did not answer";
  } else {
    facts.planner_config = asked([&] { return ask(config, "config"); });
    facts.network_ping = asked([&] { return ask_by_network(config, "ping"); });
  }
  facts.state = facts.planner_is_here ? state_of(config.state_dir)
                                      : Learned<StateFolder>::unknown("espalierd's socket is not on this host");
}

}  // namespace espalier::cli::doctor
