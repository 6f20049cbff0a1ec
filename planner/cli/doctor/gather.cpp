#include "planner/cli/doctor/gather.hpp"

#include <arpa/inet.h>
#include <limits.h>
#include <netdb.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

#include "planner/cli/doctor/bounded.hpp"
#include "planner/core/error.hpp"

namespace espalier::cli::doctor {
namespace {

constexpr std::size_t kMostNodes = 16;  // whose names are looked up
constexpr double kLookupSeconds = 20;

std::string own_name() {
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof name - 1);
  const std::string whole = name;
  return whole.substr(0, whole.find('.'));
}

// "/opt/espalier" of "/opt/espalier/bin/espalier".
std::string own_prefix() {
  char own[PATH_MAX] = "";
  const ssize_t size = ::readlink("/proc/self/exe", own, sizeof own - 1);
  const std::string self(own, size > 0 ? static_cast<std::size_t>(size) : 0);
  const auto bin = self.rfind('/');
  const auto end = bin == std::string::npos || bin == 0 ? bin : self.rfind('/', bin - 1);
  return end == std::string::npos ? "/usr/local" : self.substr(0, end);
}

// Where `make install` puts a plugin, unless it is in the build's own folder.
std::string installed_plugin(const std::string& prefix, const std::string& file) {
  const std::string place = prefix + "/lib/slurm/" + file, built = prefix + "/lib/" + file;
  return ::access(place.c_str(), F_OK) != 0 && ::access(built.c_str(), F_OK) == 0 ? built : place;
}

// A package puts the plugin among Slurm's own.
std::string or_packaged(const std::string& place, const std::string& plugin_dir) {
  if (::access(place.c_str(), F_OK) == 0) return place;
  std::istringstream folders(plugin_dir);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string other = folder + place.substr(place.rfind('/'));
    if (::access(other.c_str(), F_OK) == 0) return other;
  }
  return place;
}

std::vector<std::string> ipv4_of(const std::string& name) {
  std::vector<std::string> list;
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return list;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    sockaddr_in address{};
    char text[INET_ADDRSTRLEN] = "";
    std::memcpy(&address, at->ai_addr, sizeof address);
    if (::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text) != nullptr) list.emplace_back(text);
  }
  ::freeaddrinfo(found);
  return list;
}

}  // namespace

Learned<std::map<std::string, std::vector<std::string>>> gather_addresses(const std::vector<Node>& nodes) {
  using Addresses = std::map<std::string, std::vector<std::string>>;
  const Bounded reply = call_bounded(
      [&] {
        Addresses addresses;
        for (const Node& node : nodes)
          if (node.gpus > 0 && addresses.size() < kMostNodes)
            addresses[node.name] = ipv4_of(node.address.empty() ? node.name : node.address);
        return Json(addresses).dump();
      },
      kLookupSeconds);
  if (!reply.succeeded()) return Learned<Addresses>::unknown("the names of the nodes: " + reply.problem());
  return Json::parse(reply.output).get<Addresses>();
}

Facts gather(const std::string& config) {
  Facts facts;
  facts.host = own_name();
  facts.prefix = own_prefix();
  facts.spank_file = installed_plugin(facts.prefix, "espalier.so");
  facts.submit_file = installed_plugin(facts.prefix, "job_submit_espalier.so");
  try {
    facts.config = wire::load_config(config);
    facts.config_there = !facts.config.path.empty();
  } catch (const Error& error) {
    facts.config_problem = error.what();
  }
  facts.slurm = gather_slurm();
  if (facts.slurm)
    for (std::string* file : {&facts.spank_file, &facts.submit_file})
      *file = or_packaged(*file, facts.slurm->setting("PluginDir"));
  facts.plugins = facts.slurm ? gather_plugins(*facts.slurm)
                              : Learned<Plugins>::unknown("slurmctld did not tell where plugstack.conf is");
  facts.srun_knows_elastic = gather_srun_option();
  facts.munge_seconds = gather_munge();
  gather_planner(facts);
  gather_programs(facts);
  gather_gpus(facts);
  if (facts.slurm && !facts.config.network.empty()) facts.addresses = gather_addresses(facts.slurm->nodes);
  return facts;
}

}  // namespace espalier::cli::doctor
