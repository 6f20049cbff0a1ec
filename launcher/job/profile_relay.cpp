#include "launcher/job/profile_relay.hpp"

#include <utility>

#include "planner/core/data_parallel.hpp"
#include "planner/core/error.hpp"
#include "planner/core/flat_profile.hpp"
#include "planner/core/profile_check.hpp"
#include "planner/wire/links_field.hpp"

namespace espalier::launcher {

namespace {

// A program that is data-parallel only reports a flat profile.
Profile read(const wire::Frame& frame, const Plan& plan, const ModelShape& shape) {
  const auto flat = frame.body.find("flat");
  if (shape.family != kDataFamily || flat == frame.body.end()) return wire::from_frame<wire::Profiled>(frame).profile;
  return profile_of(flat->get<FlatProfile>(), plan, shape);
}

}  // namespace

std::string ProfileRelay::take(const wire::Frame& frame, int rank, const Plan& plan, const ModelShape& shape) {
  std::string why;
  try {
    if (rank != 0) throw Error("profile: from rank " + std::to_string(rank) + "; only rank 0 reports one");
    auto profile = read(frame, plan, shape);
    why = unfit(profile, plan, shape);
    LinkLook links = wire::links_of(frame);
    if (why.empty()) why = unfit(links, plan);
    if (why.empty() && newest_ && profile.step <= newest_->step)
      why = "profile: of step " + std::to_string(profile.step) + " after one of step " + std::to_string(newest_->step);
    if (why.empty()) {
      newest_ = std::move(profile);
      links_ = std::move(links);
      told_ = false;
    }
  } catch (const Error& error) {
    why = error.what();
  }
  const std::string before = std::exchange(refused_, why);
  return why == before ? "" : why;
}

std::optional<Profile> ProfileRelay::untold() {
  if (!newest_ || std::exchange(told_, true)) return std::nullopt;
  return newest_;
}

void ProfileRelay::forget() { *this = ProfileRelay(); }

}  // namespace espalier::launcher
