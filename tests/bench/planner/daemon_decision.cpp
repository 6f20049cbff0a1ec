#include "tests/bench/planner/daemon_decision.hpp"

#include "planner/daemon/planning_input.hpp"
#include "planner/daemon/room.hpp"

namespace espalier::bench {

std::vector<Decision> DaemonDecision::decide(BusyCluster& cluster) {
  const auto site = sites_.site(cluster.slurm().cluster, cluster.hardware());
  input_ = make_input(cluster.slurm(), cluster.jobs(), cluster.trigger(),
                      {.max_gpus = cluster.gpus(), .partition = BusyCluster::kPartition, .site = site});
  const auto room = find_room(input_, cluster.jobs(), nullptr, options_, *site);
  if (room) keep_room(input_, *room);
  auto decisions = scheduler_->decide(input_);
  if (room && room->move) decisions.insert(decisions.begin(), *room->move);
  return decisions;
}

}  // namespace espalier::bench
