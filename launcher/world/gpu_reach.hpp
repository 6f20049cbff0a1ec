// Which of the job's GPUs reach each other's memory, as its ranks have said. State that one generation leaves on a GPU
// is taken by another GPU of the same island, and sent elsewhere.
#pragma once

#include <vector>

#include "launcher/world/placement.hpp"

namespace espalier::launcher {

class GpuReach {
 public:
  // A rank of this server has said it.
  void heard(const ServerId& server, const wire::Ready& ready);
  // An earlier launcher of the job knew this.
  void take_over(const wire::GpuIslands& islands, bool jobs_reach) { islands_ = islands, jobs_reach_ = jobs_reach; }
  // Of what the job holds; the rest is forgotten.
  const wire::GpuIslands& of(const std::vector<Holding>& holdings);
  const wire::GpuIslands& all() const { return islands_; }
  // The same for a part of what the job holds, as the planner is told it: `part` has a place for each GPU that it
  // names.
  wire::GpuIslands of_part(const std::vector<Holding>& holdings, const std::vector<Holding>& part) const;

  // Ranks in two Slurm jobs on one node reach each other without the network.
  bool jobs_reach() const { return jobs_reach_; }

 private:
  wire::GpuIslands islands_;
  bool jobs_reach_ = false;
};

}  // namespace espalier::launcher
