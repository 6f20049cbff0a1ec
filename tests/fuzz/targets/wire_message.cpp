// Every message, as JSON with its type.
#include <map>
#include <string>

#include "planner/core/error.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/wire/grant_message.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "planner/wire/messages.hpp"
#include "planner/wire/movable_message.hpp"
#include "planner/wire/rank_messages.hpp"
#include "planner/wire/start_messages.hpp"
#include "tests/fuzz/targets.hpp"

namespace espalier::fuzz {
namespace {

using namespace wire;

// What was read and is written again is read as the same.
template <class Message>
void read_as(const Frame& frame) {
  const Frame once = to_frame(from_frame<Message>(frame));
  const Frame twice = to_frame(from_frame<Message>(once));
  require(encode(once) == encode(twice));
}

template <class... Messages>
std::map<std::string, void (*)(const Frame&)> readers() {
  return {{Messages::type, read_as<Messages>}...};
}

const std::map<std::string, void (*)(const Frame&)>& known() {
  static const auto all =
      readers<Hello, Description, BasesHeld, SteerBase, WithdrawBase, Known, Grants, Unplanned, DeadlineChecked, Ready,
              Step, Profiled, Standing, Switched, Loaded, Done, Failed, Assign, Switch, Load, Given, Commit, Resume,
              Checkpoint, Exit, KeeperHello, RankServerHello, RankEnded, RankAborted, RanksRefused, Rendezvous,
              FenceEntered, RankOutput, ModexWanted, ModexFound, RunRanks, FenceDone, KeepSpares, SparesFork,
              SignalRanks, EndRanks, OutputTaken, Notice, Heartbeat, Keep, GiveBack, Continuation, Register, Status,
              Transition, Outcome, Bye, Registered, Refused, Propose, Query, Reply, wire::Topology>();
  return all;
}

// What a rank server's bytes become.
void as_bytes(const Frame& frame) {
  if (const auto base64 = frame.body.find("base64"); base64 != frame.body.end() && base64->is_string()) {
    const std::string bytes = base64_to_bytes(base64->get<std::string>());
    require(base64_to_bytes(bytes_to_base64(bytes)) == bytes);
  }
  const auto data = frame.body.find("data");
  if (data == frame.body.end() || !data->is_string()) return;
  const std::string bytes = text_to_bytes(data->get<std::string>());
  require(text_to_bytes(bytes_to_text(bytes)) == bytes);
}

}  // namespace

void wire_message(std::string_view input) {
  const JsonSize size = json_size(input);
  if (size.depth > kMaxDepth || size.values > kMaxFrameValues) return;
  const Json json = Json::parse(input, nullptr, false);
  if (!json.is_object() || !json.contains("type") || !json.at("type").is_string()) return;
  Frame frame{json.at("type").get<std::string>(), json};
  frame.body.erase("type");
  const auto reader = known().find(frame.type);
  if (reader == known().end()) return;
  try {
    as_bytes(frame);
    reader->second(frame);
  } catch (const Error&) {
  }
  // A plan of others is judged before it is used.
  const auto plan = frame.body.find("plan");
  if (plan == frame.body.end()) return;
  try {
    validate(plan->get<Plan>(), 1);
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
