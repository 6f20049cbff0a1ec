// The site's health check of nodes, before their idle GPUs are lent: [health] of espalier.toml.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

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

  // Another command starts afresh: what the one before found is forgotten, and a check under way is ended. After any
  // call a check that has failed is tried again at once.
  void configure(const HealthRules& rules);

  // Sets `unhealthy` of two kinds of nodes: those in which the last check found a fault, and those with idle GPUs that
  // no check has looked at within valid_minutes. Then starts a check of the nodes with idle GPUs whose last check is
  // older than half of valid_minutes. It starts none while one is under way, and none for a while after one failed: 10
  // s, and twice as long after each further failure, at most some 10 minutes. `now`: seconds.
  void look(ClusterView& cluster, double now);
  bool checking() const { return running_ != nullptr; }

 private:
  struct Finding {
    double time = 0;
    std::string fault;  // empty: none
  };
  // A check on its way.
  struct Question {
    std::vector<std::string> nodes;
    std::set<std::string> cluster;  // all of its nodes
    double time = 0;
  };
  void check(Question question);
  void take(HealthCommand::Answer answer, const Question& question);

  wire::Loop& loop_;
  std::function<void()> news_;
  HealthRules rules_;
  std::map<std::string, Finding> findings_;  // by node
  std::unique_ptr<HealthCommand> running_;
  int failures_ = 0;  // in a row
  double failed_at_ = 0, wait_ = 0;
  std::string problem_;  // of the last check, as it was logged
};

// Faults by node, as a check printed them: in each line a node or a list of nodes as Slurm writes it, and a reason.
// Throws Error for a line that names no node of `cluster`. Such a line may be an error message of the program, or have
// a node's name in another form, and the node would be lent.
std::map<std::string, std::string> parse_health(const std::string& output, const std::set<std::string>& cluster);

}  // namespace espalier
