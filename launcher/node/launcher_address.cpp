#include "launcher/node/launcher_address.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "launcher/node/own_processes.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

std::optional<std::pair<std::string, std::uint16_t>> parse(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const long port = std::strtol(address.c_str() + colon + 1, nullptr, 10);
  if (port < 1 || port > 65535) return std::nullopt;
  return std::pair{address.substr(0, colon), static_cast<std::uint16_t>(port)};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::pair<std::string, std::uint16_t> launcher_address() {
  const std::string address = variable("ESPALIER_LAUNCHER");
  if (address.find(':') == std::string::npos) throw Error("ESPALIER_LAUNCHER: not set; start this through a launcher");
  const auto place = parse(address);
  if (!place) throw Error("ESPALIER_LAUNCHER: no port");
  return *place;
}

LauncherPlace own_launcher() {
  const auto [host, port] = launcher_address();
  return {host, port, static_cast<JobId>(std::strtoul(variable("ESPALIER_ANCHOR").c_str(), nullptr, 10)),
          variable("ESPALIER_TOKEN"), std::atoi(variable("ESPALIER_RESTARTS").c_str())};
}

std::vector<LauncherPlace> launchers_on_this_node(JobId anchor, const std::string& vault) {
  std::vector<LauncherPlace> found;
  each_own_process([&](pid_t, const std::string& environment) {
    if (variable_in(environment, "ESPALIER_VAULT") != vault) return;
    const auto address = parse(variable_in(environment, "ESPALIER_LAUNCHER"));
    const std::string token = variable_in(environment, "ESPALIER_TOKEN");
    if (!address || token.empty()) return;
    const LauncherPlace place{address->first, address->second, anchor, token,
                              std::atoi(variable_in(environment, "ESPALIER_RESTARTS").c_str())};
    if (std::find(found.begin(), found.end(), place) == found.end()) found.push_back(place);
  });
  return found;
}

}  // namespace espalier::launcher
