#include "launcher/conform/record.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"
#include "planner/core/flat_profile.hpp"
#include "planner/core/profile_check.hpp"
#include "planner/wire/links_field.hpp"
#include "planner/wire/progress_field.hpp"

namespace espalier::launcher::conform {

void Record::note(int rank, std::deque<wire::Frame>& frames, const Plan& plan, const ModelShape& model) {
  for (; !frames.empty(); frames.pop_front()) {
    try {
      note(rank, frames.front(), plan, model);
    } catch (const Error& error) {
      breaks("rank " + std::to_string(rank) + ": " + error.what());
    }
  }
}

void Record::note(int rank, const wire::Frame& frame, const Plan& plan, const ModelShape& model) {
  const auto only_of_first = [&] {
    if (rank != 0) throw Error("`" + frame.type + "` is for rank 0 to send");
  };
  if (frame.type == wire::Heartbeat::type) {
    ++heartbeats_[rank];
    wire::tells_progress(frame);  // throws where the field is malformed
  } else if (frame.type == wire::Step::type) {
    only_of_first();
    const auto step = wire::from_frame<wire::Step>(frame);
    if (step_ >= 0 && step.step != step_ + 1)
      throw Error("step " + std::to_string(step.step) + " comes after step " + std::to_string(step_));
    if (!(step.seconds > 0) || !std::isfinite(step.seconds)) throw Error("step.seconds: must be above 0");
    step_ = step.step;
  } else if (frame.type == wire::Profiled::type) {
    only_of_first();
    const auto flat = frame.body.find("flat");
    const Profile profile = flat == frame.body.end() ? wire::from_frame<wire::Profiled>(frame).profile
                                                     : profile_of(flat->get<FlatProfile>(), plan, model);
    if (const std::string why = unfit(profile, plan, model); !why.empty()) throw Error(why);
    if (const std::string why = unfit(wire::links_of(frame), plan); !why.empty()) throw Error(why);
    ++profiles_;
  } else if (frame.type == wire::Failed::type) {
    failed_ = wire::from_frame<wire::Failed>(frame).message;
  } else if (frame.type != wire::Notice::type) {
    inbox_[rank].push_back(frame);
  }
}

bool Record::waits(int rank) const {
  const auto at = inbox_.find(rank);
  return at != inbox_.end() && !at->second.empty();
}

bool Record::has_said(int rank, const std::string& type) const {
  const auto at = inbox_.find(rank);
  return at != inbox_.end() && std::any_of(at->second.begin(), at->second.end(),
                                           [&](const wire::Frame& frame) { return frame.type == type; });
}

wire::Frame Record::take(int rank) {
  std::deque<wire::Frame>& inbox = inbox_.at(rank);
  wire::Frame frame = inbox.front();
  inbox.pop_front();
  return frame;
}

int Record::heartbeats(int rank) const {
  const auto at = heartbeats_.find(rank);
  return at == heartbeats_.end() ? 0 : at->second;
}

}  // namespace espalier::launcher::conform
