// A cluster full of the paper's jobs, for measuring decisions, as espalierd sees it: Slurm's snapshot and the
// launchers' reports. Jobs end and arrive at random. Decisions take effect at once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "planner/core/topology/hardware_overrides.hpp"
#include "planner/daemon/live_job.hpp"
#include "planner/daemon/slurm.hpp"
#include "planner/sim/job_kind.hpp"

namespace espalier::bench {

struct BusyOptions {
  int gpus = 1024;
  int types = 1;       // of GPUs (typed_cluster.hpp)
  double movable = 0;  // share of the jobs whose bases can move; half of these restrict their types
  unsigned seed = 1;
};

class BusyCluster {
 public:
  // Fills the cluster with jobs up to a basic load of 95%. Throws Error that names the option that cannot be.
  explicit BusyCluster(const BusyOptions& options);

  const SlurmSnapshot& slurm() const { return slurm_; }
  std::map<JobId, LiveJob>& jobs() { return jobs_; }
  const std::map<JobId, LiveJob>& jobs() const { return jobs_; }
  const HardwareOverrides& hardware() const { return hardware_; }
  // Where extensions run.
  static constexpr const char* kPartition = "elastic";
  int gpus() const { return options_.gpus; }
  Trigger trigger() const { return trigger_; }

  // A random job ends. Its GPUs and its extensions' GPUs become idle. The basic load to aim at is drawn anew: 85-95%.
  void end_one();
  // A job arrives while the basic demands are below the load aimed at. It asks for one type of GPU, as in a site with a
  // partition for each, for which no job waits yet. True: a job waits now, this one or an earlier one.
  bool submit_one();
  // Whether the basic demands are below the load aimed at, and jobs wait for fewer than all types.
  bool expects_job() const;
  // Starts the waiting jobs whose GPUs are idle. False: there was none. The jobs of one type start first in, first out,
  // since large jobs would never start otherwise.
  bool start_waiting();
  // Throws Error when a moved job has no plan on its second base alone.
  void apply(const std::vector<Decision>& decisions);

  double load() const { return static_cast<double>(basic_) / options_.gpus; }
  int idle_gpus() const;

 private:
  struct Wish {
    const sim::JobKind* kind = nullptr;
    const sim::BasicPlan* on = nullptr;
    bool movable = false;
    std::vector<std::string> types;
  };
  int roll(int low, int high);
  Wish random_wish();
  std::optional<Wish> wish_of_free_type();
  void wait(Wish wish);
  bool place(const Wish& wish);
  std::optional<std::vector<GpuId>> find_gpus(int gpus, const std::string& type) const;
  // GPUs of a node that are of `type`.
  int node_gpus(const std::string& type) const;
  void run(SlurmJob job);
  void end(JobId slurm_job);
  void change(LiveJob& live, const Decision& decision);
  void move(LiveJob& live, const Decision& decision);
  NodeView& node(const std::string& name) { return slurm_.cluster.nodes[node_index_.at(name)]; }
  // The first idle GPUs of the node.
  std::vector<int> idle_on(const std::string& name, int gpus) const;

  const BusyOptions options_;
  std::mt19937 random_;
  SlurmSnapshot slurm_;
  std::map<JobId, LiveJob> jobs_;
  HardwareOverrides hardware_;
  std::shared_ptr<const Site> site_;
  std::vector<sim::JobKind> kinds_;
  std::map<std::string, std::size_t> node_index_;
  std::map<std::string, std::vector<std::string>> nodes_of_type_;  // sorted
  std::map<JobId, Wish> waiting_;
  wire::ConnectionPtr link_;
  Trigger trigger_ = Trigger::timer;
  JobId next_id_ = 1;
  double target_ = 0.95;
  int basic_ = 0;
};

}  // namespace espalier::bench
