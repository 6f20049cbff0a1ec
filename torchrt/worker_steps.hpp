// A worker's steps from the commit of its generation to its end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "planner/core/pipeline/schedule.hpp"
#include "torchrt/handoff/leave.hpp"
#include "torchrt/handoff/state_socket.hpp"
#include "torchrt/kept_state.hpp"
#include "torchrt/session.hpp"
#include "torchrt/training.hpp"
#include "torchrt/worker.hpp"

namespace espalier::torchrt {

// A worker's parts for training. The references must outlive what uses it.
struct WorkerParts {
  Config& config;  // a plan that it goes on with in place changes training.given_schedule
  const WorkerEnvironment& environment;
  World& world;
  Session& session;
  Device& device;
  RankState& state;
  Training& training;
  KeptState& kept;
  StateServer& server;
  std::shared_ptr<const pipeline::Schedule> own_lists;  // --schedule FILE; null: none
  bool is_first = false;                                // no generation of this job was before
  bool checksum = false;                                // as run_worker's
};

// For one thread. Collective: every rank of the world has one. Destroying it after an error may wait for ranks that are
// gone: see Departure.
class WorkerSteps {
 public:
  explicit WorkerSteps(const WorkerParts& parts) : parts_(parts) {}
  // `done`: what this generation begins with is the state after that step. At boundaries it hands its state over, or
  // goes on in place with another plan, as the launcher asks. Returns when the launcher knows that the last step is
  // done. Throws LeaveNow when other ranks have taken over, and Error.
  void train(std::int64_t done);

 private:
  void tell_notice();
  void stand_while(bool wanted, std::int64_t step, const std::function<bool()>& stop);
  void stand(std::int64_t step);
  void go_on_in_place(std::int64_t step, const Plan& next, const std::string& csv);

  WorkerParts parts_;
  std::optional<Departure> departure_;  // while it stands
};

}  // namespace espalier::torchrt
