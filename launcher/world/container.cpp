#include "launcher/world/container.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <string_view>

namespace espalier::launcher {
namespace {

constexpr std::string_view kMounts = "--container-mounts=", kPrinted = "espalier-container ";

// Of the step that holds the container, not of a rank.
bool is_of_step(std::string_view variable) {
  for (const std::string_view prefix : {"SLURM", "_SLURM", "SRUN_", "SPANK_", "PMI", "ESPALIER_"})
    if (variable.starts_with(prefix)) return true;
  for (const std::string_view name : {"CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=", "ZE_AFFINITY_MASK=",
                                      "GPU_DEVICE_ORDINAL=", "HOSTNAME=", "PWD=", "OLDPWD=", "SHLVL=", "_="})
    if (variable.starts_with(name)) return true;
  return false;
}

}  // namespace

std::vector<std::string> container_options(const std::string& text) {
  std::vector<std::string> options;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) options.push_back(line);
  return options;
}

std::vector<std::string> with_mounts(const std::vector<std::string>& options, const std::vector<std::string>& folders) {
  std::vector<std::string> list;
  std::string mounts;
  const auto add = [&](std::string_view mount) { mounts.append(mounts.empty() ? "" : ",").append(mount); };
  for (const std::string& option : options)
    if (option.starts_with(kMounts)) add(std::string_view(option).substr(kMounts.size()));
    else list.push_back(option);
  for (const std::string& folder : folders) add(folder + ":" + folder);
  if (!mounts.empty()) list.push_back(std::string(kMounts) + mounts);
  return list;
}

std::vector<std::string> container_program(const std::string& fifo) {
  return {"/bin/sh", "-c",
          "trap '' TERM; exec < \"$0\"; echo \"" + std::string(kPrinted) + "$$\"; exec cat > /dev/null", fifo};
}

std::vector<std::string> paths_of(const std::string& program, const std::vector<std::string>& environment) {
  if (program.find('/') != std::string::npos) return {program};
  std::string path = "/usr/bin:/bin";
  for (const std::string& variable : environment)
    if (variable.starts_with("PATH=")) path = variable.substr(5);
  std::vector<std::string> list;
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');)
    list.push_back((folder.empty() ? "." : folder) + "/" + program);
  return list;
}

long container_pid(const std::string& line) {
  if (!line.starts_with(kPrinted)) return -1;
  long pid = -1;
  const char* const end = line.data() + line.size();
  const auto [last, error] = std::from_chars(line.data() + kPrinted.size(), end, pid);
  return error == std::errc{} && last == end && pid > 1 ? pid : -1;
}

std::vector<std::string> environment_inside(const std::vector<std::string>& own, const std::vector<std::string>& inside,
                                            const std::vector<std::string>& given) {
  const std::set<std::string_view> known(given.begin(), given.end());
  std::vector<std::string> list;
  std::set<std::string_view> names;
  for (const std::string& variable : inside) {
    const auto size = variable.find('=');
    if (size == std::string::npos || known.contains(variable) || is_of_step(variable)) continue;
    if (names.insert(std::string_view(variable).substr(0, size)).second) list.push_back(variable);
  }
  std::vector<std::string> all;
  for (const std::string& variable : own)
    if (!names.contains(std::string_view(variable).substr(0, variable.find('=')))) all.push_back(variable);
  all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace espalier::launcher
