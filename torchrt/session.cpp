#include "torchrt/session.hpp"

#include <unistd.h>

#include "planner/core/error.hpp"
#include "planner/wire/host_uid.hpp"
#include "planner/wire/switch_lists.hpp"

namespace espalier::torchrt {

namespace {

using namespace std::chrono_literals;

constexpr Control::Milliseconds kSwitchArrives = 60s;

}  // namespace

Session::Session(const WorkerEnvironment& environment)
    : control_({wire::Service::worker, environment.anchor, environment.token, {wire::host_uid()}}, environment.host,
               environment.port, environment.rank, environment.heartbeat),
      patience_(environment.patience) {}

// The next message but for `checkpoint`, which must be of this type.
template <class Message>
wire::Frame Session::await_frame(Control::Milliseconds timeout) {
  wire::AwakeLimit limit(timeout);
  while (true) {
    wire::Frame frame = control_.next(Message::type, limit);
    if (frame.type == Message::type) return frame;
    if (frame.type != wire::Checkpoint::type) Control::unexpected(frame.type, Message::type);
    checkpoint_ = true;
  }
}

Session::Request Session::request_of(const wire::Frame& frame) {
  return {wire::from_frame<wire::Switch>(frame), wire::lists_of(frame)};
}

wire::Assign Session::assignment() { return await<wire::Assign>(patience_); }

wire::Load Session::load() { return await<wire::Load>(patience_); }

void Session::given() { await<wire::Given>(patience_); }

void Session::committed() { await<wire::Commit>(patience_); }

bool Session::switch_wanted() {
  while (const std::optional<wire::Frame> frame = control_.poll()) {
    if (frame->type == wire::Switch::type) requests_.push_back(request_of(*frame));
    else if (frame->type == wire::Resume::type && !requests_.empty() && !wire::from_frame<wire::Resume>(*frame).plan)
      // A `resume` with a plan comes only after all ranks have said `switched`: switched() waits for it.
      requests_.back().resumed = true;
    else if (frame->type == wire::Checkpoint::type) checkpoint_ = true;
    else Control::unexpected(frame->type, wire::Switch::type);
  }
  return !requests_.empty();
}

const wire::Switch& Session::stand() {
  if (requests_.empty()) requests_.push_back(request_of(await_frame<wire::Switch>(kSwitchArrives)));
  return requests_.front().message;
}

std::optional<Plan> Session::switched(const wire::Switched& switched, const std::function<void()>& meanwhile) {
  const bool resumed = requests_.front().resumed;
  requests_.pop_front();
  control_.send(switched);
  meanwhile();
  return resumed ? std::nullopt : await<wire::Resume>(patience_).plan;
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
