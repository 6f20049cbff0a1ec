// The site's health check of nodes, before their idle GPUs are lent: [health] of espalier.toml.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "planner/core/cluster.hpp"
#include "planner/daemon/health_command.hpp"

namespace espalier {

struct HealthRules {
  std::string command;  // empty: every node is lent
  int timeout_seconds = 30;
  double valid_minutes = 10;
};

// All on the loop's thread.
class NodeHealth {
 public:
  // `news` is called after each check. `loop` must outlive this.
  NodeHealth(wire::Loop& loop, std::function<void()> news);

  void configure(const HealthRules& rules);

  // Sets `unhealthy` of the nodes: of those that the last check named, and of those with idle GPUs that no check has
  // looked at within valid_minutes. Starts a check of the latter, and of those for which half of that time is over,
  // unless one is under way, or one has failed a few seconds ago. `now`: seconds, rising.
  void look(ClusterView& cluster, double now);

 private:
  struct Finding {
    double time = 0;
    std::string fault;  // empty: none
  };
  void check(std::vector<std::string> nodes, double now);
  void take(const HealthCommand::Answer& answer, const std::vector<std::string>& asked, double now);

  wire::Loop& loop_;
  std::function<void()> news_;
  HealthRules rules_;
  std::map<std::string, Finding> findings_;  // by node
  std::unique_ptr<HealthCommand> running_;
  double not_before_ = 0;
  std::string problem_;  // of the last check, as it was logged
};

// The faults in what a check of `asked` printed: lines of a node, or a list of nodes as Slurm writes it, and a reason.
// Nodes that were not asked for are left out.
std::map<std::string, std::string> parse_health(const std::string& output, const std::vector<std::string>& asked);

}  // namespace espalier
