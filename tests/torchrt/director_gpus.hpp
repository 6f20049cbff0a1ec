// Which GPU each rank of the director's plans takes, and which GPUs reach each other's memory, told as the launcher
// tells it. Nodes are a to d, each with GPUs 0 to 7.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "launcher/world/placement.hpp"

class DirectorGpus {
 public:
  // The rank's GPU among those that its process sees. STAGE_DIRECTOR_GPUS: it sees all of the machine, of which each
  // node has so many. STAGE_DIRECTOR_JOB_GPUS: it sees its Slurm job's, of which a node has so many. nullopt: neither
  // is set.
  static std::optional<int> place(const espalier::GpuId& gpu);
  // What the rank on this GPU says before it is ready.
  void heard(const espalier::GpuId& gpu, const espalier::wire::Ready& ready);
  // The job has no GPU of this node any more, or it has them again.
  void lose(const std::string& node) { lost_.insert(node); }
  void take(const std::string& node) { lost_.erase(node); }
  // Of the nodes that are not lost. Empty where neither variable is set.
  espalier::wire::GpuJobs jobs() const;

 private:
  espalier::wire::GpuIslands islands_;
  std::set<std::string> lost_;
};
