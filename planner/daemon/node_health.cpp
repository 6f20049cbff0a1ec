#include "planner/daemon/node_health.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "planner/core/error.hpp"
#include "planner/core/hostlist.hpp"
#include "planner/daemon/printable.hpp"

namespace espalier {
namespace {

constexpr double kAfterFailure = 10;  // seconds
constexpr int kMostDoublings = 6;
constexpr std::size_t kLongestFault = 200;

}  // namespace

std::map<std::string, std::string> parse_health(const std::string& output, const std::set<std::string>& cluster) {
  std::map<std::string, std::string> faults;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string nodes, fault;
    if (!(words >> nodes)) continue;
    std::getline(words >> std::ws, fault);
    fault = printable(std::move(fault), kLongestFault);
    if (fault.empty()) fault = "the health check gives no reason";
    const auto names = expand_hosts(nodes.c_str());
    const auto unknown = [&](const std::string& name) { return !cluster.contains(name); };
    if (names.empty() || std::any_of(names.begin(), names.end(), unknown))
      throw Error("it printed \"" + printable(line, kLongestFault) +
                  "\", which begins with no node's name as Slurm has it");
    for (const std::string& name : names) faults.try_emplace(name, fault);
  }
  return faults;
}

NodeHealth::NodeHealth(wire::Loop& loop, std::function<void()> news) : loop_(loop), news_(std::move(news)) {}

void NodeHealth::configure(const HealthRules& rules) {
  if (rules.command != rules_.command) {
    running_.reset();
    findings_.clear();
  }
  failures_ = 0;
  rules_ = rules;
}

void NodeHealth::look(ClusterView& cluster, double now) {
  if (rules_.command.empty()) return;
  const double valid = 60 * rules_.valid_minutes;
  std::erase_if(findings_, [&](const auto& one) {
    const double age = now - one.second.time;  // below 0 where the clock was set back
    return age < 0 || age >= valid || cluster.find(one.first) == nullptr;
  });
  Question due{{}, {}, now};
  for (NodeView& node : cluster.nodes) {
    const auto found = findings_.find(node.name);
    const bool idle = node.idle_gpus() > 0;
    if (found != findings_.end()) node.unhealthy = found->second.fault;
    else if (idle) node.unhealthy = "the node has not been checked yet";
    if (idle && (found == findings_.end() || now - found->second.time >= valid / 2)) due.nodes.push_back(node.name);
  }
  const double since = now - failed_at_;
  if (due.nodes.empty() || running_ || (failures_ > 0 && since >= 0 && since < wait_)) return;
  for (const NodeView& node : cluster.nodes) due.cluster.insert(node.name);
  check(std::move(due));
}

void NodeHealth::check(Question question) {
  const std::string list = fold_hosts(question.nodes);
  running_ = std::make_unique<HealthCommand>(
      loop_, rules_.command, list, rules_.timeout_seconds,
      [this, asked = std::move(question)](const HealthCommand::Answer& answer) { take(answer, asked); });
}

void NodeHealth::take(HealthCommand::Answer answer, const Question& question) {
  const auto ended = std::move(running_);  // its callback is under way
  std::map<std::string, std::string> faults;
  try {
    if (answer.problem.empty()) faults = parse_health(answer.output, question.cluster);
  } catch (const Error& error) {
    answer.problem = rules_.command + ": " + error.what();
  }
  if (answer.problem != problem_) {
    problem_ = answer.problem;
    if (problem_.empty()) spdlog::info("health check: {} works again", rules_.command);
    else
      spdlog::error("health check: {}; nodes that it has not judged are not lent: mend it, or empty health.command",
                    problem_);
  }
  if (!answer.problem.empty()) {
    failed_at_ = question.time;
    wait_ = rules_.timeout_seconds + kAfterFailure * (1 << std::min(failures_++, kMostDoublings));
    return news_();
  }
  failures_ = 0;
  for (const std::string& name : question.nodes) faults.try_emplace(name, "");
  for (auto& [name, fault] : faults) {
    Finding& finding = findings_[name];
    if (fault != finding.fault) {
      if (fault.empty()) spdlog::info("node {}: its health check passes again", name);
      else spdlog::warn("node {}: not lent any more: {}", name, fault);
    }
    finding = {question.time, std::move(fault)};
  }
  news_();
}

}  // namespace espalier
