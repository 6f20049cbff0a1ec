#include "launcher/world/server/node_setup.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "launcher/world/server/variables.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // of all changes, and of a line

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
  for (const char* prefix : {"ESPALIER_", "SLURM_", "PMIX_", "OMPI_COMM_"})
    if (name.starts_with(prefix)) throw Error(name + " is set by the launcher; leave it as it is");
}

}  // namespace

void EnvironmentChanges::count(const std::string& line) {
  bytes_ += line.size();
  if (bytes_ > kMostBytes) throw Error("its exports are longer than 1 MiB");
}

bool EnvironmentChanges::take(const std::string& line) {
  if (const auto variable = after(line, "export")) {
    const std::size_t equals = variable->find('=');
    if (equals == std::string::npos) throw Error("\"export " + variable->substr(0, 64) + "\" has no value");
    const std::string name = variable->substr(0, equals);
    check_name(name);
    count(line);
    unset_.erase(name);
    exported_ = merged(exported_, {*variable});
    return true;
  }
  if (const auto name = after(line, "unset")) {
    check_name(*name);
    count(line);
    unset_.insert(*name);
    std::erase_if(exported_, [&](const std::string& one) { return one.starts_with(*name + "="); });
    return true;
  }
  return false;
}

std::vector<std::string> EnvironmentChanges::applied(const std::vector<std::string>& environment) const {
  std::vector<std::string> list = merged(environment, exported_);
  std::erase_if(list, [this](const std::string& one) { return unset_.contains(one.substr(0, one.find('='))); });
  return list;
}

NodeSetup::NodeSetup(wire::Loop& loop, const std::string& program, const std::vector<std::string>& environment,
                     std::chrono::seconds limit, Callbacks callbacks)
    : program_(program), callbacks_(std::move(callbacks)) {
  output_ = std::make_unique<RankOutput>(loop, false, [this](const std::string& text) { printed(text); });
  Child::Traits traits;
  traits.output = output_->writer();
  process_ = std::make_unique<Child>(loop, std::vector<std::string>{program}, environment, traits,
                                     [this](int status) { ended(status); });
  output_->started();
  limit_ = loop.after(limit, [this, limit] {
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
  limit_.reset();
  if (!problem_.empty()) return;
  if (const int code = exit_code(status); code != 0) return fail("it ended with exit code " + std::to_string(code));
  callbacks_.ready();
}

void NodeSetup::fail(const std::string& why) {
  if (!problem_.empty()) return;
  problem_ = why;
  limit_.reset();
  callbacks_.failed("node_setup " + program_ + ": " + why);
}

}  // namespace espalier::launcher
