#include "planner/daemon/node_health.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/daemon/printable.hpp"

namespace espalier {
namespace {

constexpr double kAfterFailure = 10;  // seconds
constexpr std::size_t kLongestFault = 200;

}  // namespace

std::map<std::string, std::string> parse_health(const std::string& output, const std::vector<std::string>& asked) {
  const std::set<std::string> known(asked.begin(), asked.end());
  std::map<std::string, std::string> faults;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string nodes, fault;
    if (!(words >> nodes)) continue;
    std::getline(words >> std::ws, fault);
    fault = printable(std::move(fault), kLongestFault);
    if (fault.empty()) fault = "its health check failed";
    std::vector<std::string> names;
    try {
      names = expand_hosts(nodes.c_str());
    } catch (const Error&) {  // more than any cluster has
      continue;
    }
    for (std::string& name : names)
      if (known.contains(name)) faults.try_emplace(std::move(name), fault);
  }
  return faults;
}

NodeHealth::NodeHealth(wire::Loop& loop, std::function<void()> news) : loop_(loop), news_(std::move(news)) {}

void NodeHealth::configure(const HealthRules& rules) {
  if (rules.command != rules_.command) {
    running_.reset();
    findings_.clear();
    not_before_ = 0;
  }
  rules_ = rules;
}

void NodeHealth::look(ClusterView& cluster, double now) {
  if (rules_.command.empty()) return;
  const double valid = 60 * rules_.valid_minutes;
  std::erase_if(findings_,
                [&](const auto& one) { return now - one.second.time >= valid || cluster.find(one.first) == nullptr; });
  std::vector<std::string> due;
  for (NodeView& node : cluster.nodes) {
    const auto found = findings_.find(node.name);
    const bool idle = node.idle_gpus() > 0;
    if (found != findings_.end()) node.unhealthy = found->second.fault;
    else if (idle) node.unhealthy = "it has not been checked yet";
    if (idle && (found == findings_.end() || now - found->second.time >= valid / 2)) due.push_back(node.name);
  }
  if (!due.empty() && !running_ && now >= not_before_) check(std::move(due), now);
}

void NodeHealth::check(std::vector<std::string> nodes, double now) {
  const std::string list = fold_hosts(nodes);
  running_ = std::make_unique<HealthCommand>(
      loop_, rules_.command, list, rules_.timeout_seconds,
      [this, now, asked = std::move(nodes)](const HealthCommand::Answer& answer) { take(answer, asked, now); });
}

void NodeHealth::take(const HealthCommand::Answer& answer, const std::vector<std::string>& asked, double now) {
  const auto ended = std::move(running_);  // its callback is under way
  if (answer.problem != problem_) {
    problem_ = answer.problem;
    if (problem_.empty()) spdlog::info("health check: {} works again", rules_.command);
    else spdlog::error("health check: {}; nodes without an answer are not lent", problem_);
  }
  if (!answer.problem.empty()) {
    not_before_ = now + rules_.timeout_seconds + kAfterFailure;
    return;
  }
  auto faults = parse_health(answer.output, asked);
  for (const std::string& name : asked) {
    Finding& finding = findings_[name];
    std::string fault;
    if (const auto found = faults.find(name); found != faults.end()) fault = std::move(found->second);
    if (fault != finding.fault) {
      if (fault.empty()) spdlog::info("node {}: its health check passes again", name);
      else spdlog::warn("node {}: not lent any more: {}", name, fault);
    }
    finding = {now, std::move(fault)};
  }
  news_();
}

}  // namespace espalier
