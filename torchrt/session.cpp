#include "torchrt/session.hpp"

#include <unistd.h>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

using namespace std::chrono_literals;

// The launcher's own limits are shorter; these only make sure that no wait is without an end.
constexpr Control::Milliseconds kLauncherActs = 10min;
constexpr Control::Milliseconds kSwitchArrives = 60s;

}  // namespace

Session::Session(const WorkerEnvironment& environment)
    : control_({wire::Service::worker, environment.anchor, environment.token, {::geteuid()}}, environment.host,
               environment.port, environment.rank, environment.heartbeat) {}

wire::Assign Session::assignment() { return control_.expect<wire::Assign>(kLauncherActs); }

wire::Load Session::load() { return control_.expect<wire::Load>(kLauncherActs); }

void Session::given() { control_.expect<wire::Given>(kLauncherActs); }

void Session::committed() { control_.expect<wire::Commit>(kLauncherActs); }

bool Session::switch_wanted() {
  while (const std::optional<wire::Frame> frame = control_.poll()) {
    if (frame->type == wire::Switch::type) requests_.push_back({wire::from_frame<wire::Switch>(*frame), false});
    else if (frame->type == wire::Resume::type && !requests_.empty()) requests_.back().resumed = true;
    else if (frame->type == wire::Checkpoint::type) checkpoint_ = true;
    else Control::unexpected(frame->type, wire::Switch::type);
  }
  return !requests_.empty();
}

const wire::Switch& Session::stand() {
  if (requests_.empty()) requests_.push_back({control_.expect<wire::Switch>(kSwitchArrives), false});
  return requests_.front().message;
}

void Session::switched(const wire::Switched& switched, const std::function<void()>& meanwhile) {
  const bool resumed = requests_.front().resumed;
  requests_.pop_front();
  control_.send(switched);
  meanwhile();
  if (!resumed) control_.expect<wire::Resume>(kLauncherActs);
}

bool Session::failed(const wire::Failed& words) {
  try {
    control_.farewell();
    control_.send(words);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace espalier::torchrt
