#include "planner/daemon/slurm_answers.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "planner/core/topology/topology_text.hpp"

namespace espalier {
namespace {

// Slurm takes names of plugins in any case, with their kind before them or without: "topology/tree", "tree".
bool is_plugin(std::string setting, const std::string& name) {
  for (char& c : setting) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return setting.substr(setting.rfind('/') + 1) == name;
}

}  // namespace

std::optional<std::shared_ptr<const FairShares>> told_shares(const char* text, const std::string& accounting) {
  if (text != nullptr && *text != '\0') return std::make_shared<const FairShares>(parse_fair_shares(text));
  if (is_plugin(accounting, "slurmdbd")) return std::nullopt;
  return nullptr;
}

std::optional<SwitchPaths> told_topology(const char* text, const std::string& plugin) {
  if (text == nullptr) return std::nullopt;
  SwitchPaths told = parse_topology(text);
  if (told.empty() && (is_plugin(plugin, "tree") || is_plugin(plugin, "block"))) return std::nullopt;
  return told;
}

bool ToldSwitches::take(const char* text, const std::string& plugin, double now) {
  auto told = told_topology(text, plugin);
  if (!told) return false;
  if (told->empty() && !switches_.empty()) {
    if (!empty_at_ || now < *empty_at_) empty_at_ = now;  // the clock may have been set back
    if (now - *empty_at_ < kApart) return false;
  }
  empty_at_.reset();
  switches_ = std::move(*told);
  return true;
}

void AskingTimes::answered() {
  wait_ = kUsual;
  failing_ = false;
}

bool AskingTimes::failed() {
  wait_ = failing_ ? std::min(2 * wait_, kUsual) : kSoon;
  return !std::exchange(failing_, true);
}

}  // namespace espalier
