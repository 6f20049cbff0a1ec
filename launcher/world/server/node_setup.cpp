#include "launcher/world/server/node_setup.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // of all changes, and of a line

// What the launcher sets for ranks, by the beginning of the name and by the whole name (local_variables(),
// torch_environment()).
constexpr std::array<std::string_view, 5> kPrefixes{"ESPALIER_", "SLURM_", "SLURMD_", "PMIX_", "OMPI_COMM_"};
constexpr std::array<std::string_view, 13> kNames{
    "HOSTNAME",         "CUDA_DEVICE_ORDER",  "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL", "NCCL_HOSTID",          "RANK",
    "WORLD_SIZE",       "LOCAL_RANK",         "LOCAL_WORLD_SIZE",     "MASTER_ADDR",
    "MASTER_PORT"};

// The rest of the line after this word and a space; nullopt: it does not begin so.
std::optional<std::string> after(const std::string& line, std::string_view word) {
  if (!line.starts_with(word) || line.size() <= word.size() || line[word.size()] != ' ') return std::nullopt;
  return line.substr(word.size() + 1);
}

void check_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || (name[0] >= '0' && name[0] <= '9') || !std::all_of(name.begin(), name.end(), fits))
    throw Error("\"" + name.substr(0, 64) + "\" is not the name of a variable");
  const bool ours = std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](auto one) { return name.starts_with(one); }) ||
                    std::find(kNames.begin(), kNames.end(), name) != kNames.end();
  if (ours) throw Error(name + " is set by the launcher; leave it as it is");
}

}  // namespace

void EnvironmentChanges::set(const std::string& name, std::optional<std::string> value) {
  check_name(name);
  bytes_ += name.size() + (value ? value->size() : 0);
  if (bytes_ > kMostBytes) throw Error("its exports are longer than 1 MiB");
  values_[name] = std::move(value);
}

bool EnvironmentChanges::take(const std::string& line) {
  if (const auto variable = after(line, "export")) {
    const std::size_t equals = variable->find('=');
    if (equals == std::string::npos) throw Error("\"export " + variable->substr(0, 64) + "\" has no value");
    set(variable->substr(0, equals), variable->substr(equals + 1));
    return true;
  }
  if (const auto name = after(line, "unset")) {
    set(*name, std::nullopt);
    return true;
  }
  return false;
}

std::vector<std::string> EnvironmentChanges::applied(const std::vector<std::string>& environment) const {
  std::vector<std::string> list;
  for (const std::string& variable : environment)
    if (!has(variable.substr(0, variable.find('=')))) list.push_back(variable);
  for (const auto& [name, value] : values_)
    if (value) list.push_back(name + "=" + *value);
  return list;
}

NodeSetup::NodeSetup(wire::Loop& loop, const std::string& program, const std::vector<std::string>& environment,
                     std::chrono::seconds limit, Callbacks callbacks, AwakeLooks looks)
    : program_(program), callbacks_(std::move(callbacks)), limit_(loop, looks) {
  output_ = std::make_unique<RankOutput>(loop, false, [this](const std::string& text) { printed(text); });
  Child::Traits traits;
  traits.output = output_->writer();
  process_ = std::make_unique<Child>(loop, std::vector<std::string>{program}, environment, traits,
                                     [this](int status) { ended(status); });
  output_->started();
  limit_.start(limit, [this, limit] {
    fail("it took longer than " + std::to_string(limit.count()) + " s (launch.node_setup_seconds)");
  });
}

void NodeSetup::printed(const std::string& text) {
  for (const char c : text) {
    if (c == '\n') said(std::exchange(line_, ""));
    else if (line_.size() < kMostBytes) line_.push_back(c);
    else return fail("a line of its output is longer than 1 MiB");
  }
}

void NodeSetup::said(const std::string& line) {
  try {
    if (changes_.take(line)) return;
    if (const auto shown = after(line, "print")) {
      std::printf("%s\n", shown->c_str());
      std::fflush(stdout);
    }
  } catch (const Error& error) {
    fail(error.what());
  }
}

void NodeSetup::ended(int status) {
  output_->drain();
  if (!line_.empty()) said(std::exchange(line_, ""));
  limit_.stop();
  if (!problem_.empty()) return;
  if (const int code = exit_code(status); code != 0) return fail("it ended with exit code " + std::to_string(code));
  callbacks_.ready();
}

void NodeSetup::fail(const std::string& why) {
  if (!problem_.empty()) return;
  problem_ = why;
  limit_.stop();
  callbacks_.failed("node_setup " + program_ + ": " + why);
}

}  // namespace espalier::launcher
