// A worker's start: from its assignment to the commit of its generation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "planner/core/pipeline/schedule.hpp"
#include "torchrt/handoff/arrive.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/kept_state.hpp"
#include "torchrt/recovery/recover.hpp"
#include "torchrt/session.hpp"
#include "torchrt/training.hpp"
#include "torchrt/worker.hpp"
#include "torchrt/worker_steps.hpp"

namespace espalier::torchrt {

// Comes by the state: it is new, or that of a generation which trains on meanwhile, or what is left of a lost one. For
// one thread. Collective: every rank of the world has one. Destroying it after an error may wait for ranks that are
// gone. The references must outlive it.
class WorkerStart {
 public:
  // After the hello. `checksum`: as run_worker's.
  WorkerStart(const Config& config, const WorkerEnvironment& environment, World& world, Session& session, bool checksum)
      : config_(config), environment_(environment), world_(world), session_(session), checksum_(checksum) {}
  WorkerStart(const WorkerStart&) = delete;
  WorkerStart& operator=(const WorkerStart&) = delete;

  // Until the launcher knows that this rank is ready. Throws LeaveNow when the launcher says `exit`, and Error.
  void prepare();
  // After that: until the generation is the job. Returns the step after which the state is. Throws as prepare() does.
  std::int64_t commit();
  // After that. They live as long as this object.
  WorkerParts parts();

 private:
  void take_part();
  void build();
  void serve();
  std::int64_t load();
  void recover();
  void look_at_last_step();
  void go_on_with_metrics();
  std::string origin() const;
  void check_data() const;
  void measure_a_layer();
  bool by_disk() const;
  AddressOf addresses() const;
  std::string node() const;

  Config config_;
  const std::shared_ptr<const pipeline::Schedule> own_lists_ = config_.training.given_schedule;  // --schedule FILE
  const ParallelLimits asked_ = config_.parallel.limits;                                         // before an assignment
  const WorkerEnvironment& environment_;
  World& world_;
  Session& session_;
  bool checksum_;
  Plan plan_;
  std::optional<wire::Assign::Source> source_;
  std::optional<int> gpu_;  // as in Assign
  wire::GpuJobs jobs_;      // as in Assign
  std::unique_ptr<Device> device_;
  std::optional<RankState> state_;
  std::optional<Training> training_;
  std::int64_t done_ = 0;             // steps before this generation's first, unless it takes over
  std::optional<Recovery> recovery_;  // the generation before is lost
  wire::VaultMarks last_;             // what its ranks last agreed on, if known
  std::unique_ptr<Arrival> arrival_;
  std::optional<KeptState> kept_;
  std::optional<StateServer> server_;
};

}  // namespace espalier::torchrt
