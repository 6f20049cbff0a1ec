#include "planner/cli/doctor/facts.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace espalier::cli::doctor {

const Qos* Slurm::find_qos(const std::string& name) const {
  const auto found = std::find_if(qos.begin(), qos.end(), [&](const Qos& one) { return one.name == name; });
  return found == qos.end() ? nullptr : &*found;
}

std::string Slurm::setting(const std::string& name) const {
  const auto found = settings.find(name);
  if (found == settings.end() || found->second == "(null)" || found->second == "N/A") return "";
  return found->second;
}

std::optional<long> Slurm::number(const std::string& name) const {
  const std::string text = setting(name);
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // 65534 and 65535 are NO_VAL16 and INFINITE16.
  if (error != std::errc() || end == text.data() || value == 65534 || value == 65535) return std::nullopt;
  return value;
}

std::optional<std::string> Plugins::argument(const std::string& name) const {
  if (spank.empty()) return std::nullopt;
  for (const std::string& word : spank.front().arguments)
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  return std::nullopt;
}

const Partition* Facts::elastic() const {
  if (!slurm) return nullptr;
  const auto found = std::find_if(slurm->partitions.begin(), slurm->partitions.end(),
                                  [&](const Partition& p) { return p.name == config.partition; });
  return found == slurm->partitions.end() ? nullptr : &*found;
}

std::string Facts::config_path() const { return config.path.empty() ? "/etc/espalier/espalier.toml" : config.path; }

std::string Facts::slurm_conf() const {
  const std::string path = slurm ? slurm->setting("SLURM_CONF") : "";
  return path.empty() ? "slurm.conf" : path;
}

std::string Facts::plugstack_path() const {
  if (plugins && !plugins->plugstack.empty()) return plugins->plugstack;
  return slurm_conf().substr(0, slurm_conf().rfind('/') + 1) + "plugstack.conf";
}

std::string Facts::planner_host() const {
  if (!is_loopback(config.planner_host)) return config.planner_host;
  std::string controller = slurm ? slurm->setting("SlurmctldHost[0]") : "";
  controller.resize(std::min(controller.size(), controller.find('(')));  // "ctl(10.0.0.1)"
  return controller.empty() ? host : controller;
}

bool Facts::is_node() const {
  return slurm && std::any_of(slurm->nodes.begin(), slurm->nodes.end(),
                              [&](const Node& node) { return node.hostname == host || node.name == host; });
}

std::string version_text(std::uint32_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%u.%02u.%u", number >> 16 & 0xff, number >> 8 & 0xff, number & 0xff);
  return text;
}

std::string release_of(const std::string& version) {
  const auto dot = version.find('.');
  return dot == std::string::npos ? version : version.substr(0, version.find('.', dot + 1));
}

bool is_loopback(const std::string& host) {
  return host.empty() || host == "localhost" || host.starts_with("localhost.") || host.starts_with("127.") ||
         host == "::1";
}

}  // namespace espalier::cli::doctor
