// Acts of a play in which the next generation takes the state of one that lives, or this one goes on with another plan.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "planner/wire/switch_lists.hpp"
#include "tests/torchrt/director.hpp"

namespace espalier::test {

using namespace wire;

void Director::ask_to_switch(const Plan& plan, int generation, const std::string& lists) {
  current_.unanswered += current_.size();
  awaiting_ = true;
  standing_ = 0;
  giving_ = false;
  const GpuJobs jobs = generation == next_.number ? next_.jobs : gpus_.jobs();
  current_.tell(with_lists(to_frame(Switch{plan, generation, jobs}), lists));
}

void Director::leave() {
  finished_ = true;
  current_.tell(Exit{});
}

void Director::on_next_ready() {
  ready_ms_ = milliseconds_since(started_);
  if (recovering_ && acts_[next_act_].abort == "ready") return try_again();
  if (recovering_) return next_.tell(Load{-1});
  if (acts_[next_act_].restart) return on_loaded();
  if (acts_[next_act_].abort == "ready") return give_up(false);
  late_ = loop_.after(std::chrono::milliseconds(acts_[next_act_].late_ms), [this] { switch_over(next_.number); });
}

void Director::switch_over(int generation) {
  switch_sent_ = Clock::now();
  if (acts_[next_act_].abort == "starved") current_.starve(true);
  ask_to_switch(acts_[next_act_].plan, generation, acts_[next_act_].lists);
  if (acts_[next_act_].abort == "switch") give_up(true);  // before any rank can answer
}

// At the boundary the old ranks report why they cannot give their state.
bool Director::expects_to_stay() const {
  return acts_[next_act_].abort == "starved" || acts_[next_act_].abort == "stays" || acts_[next_act_].in_place;
}

void Director::on_standing() {
  if (acts_[next_act_].serial) return;
  giving_ = true;
  next_.tell(Load{boundary_, true});
  if (acts_[next_act_].abort == "standing") give_up(true);
}

void Director::on_switched() {
  switched_ms_ = milliseconds_since(switch_sent_);
  stood_ = Clock::now();
  stand_ms_ = std::chrono::duration<double, std::milli>(stood_ - stepped_).count();
  awaiting_ = false;
  if (acts_[next_act_].restart) return restart();
  if (acts_[next_act_].abort == "switched") return give_up(true);
  if (acts_[next_act_].in_place) return go_on_in_place();
  if (acts_[next_act_].abort == "starved") current_.starve(false);
  if (expects_to_stay()) {
    if (problems_.empty()) return fail("all ranks gave their state, and none reported that it stays");
    const Json problems = std::exchange(problems_, {});
    give_up(true);
    summary_["acts"].back()["problems"] = problems;
    return;
  }
  giving_ ? next_.tell(Given{}) : next_.tell(Load{boundary_});
}

// As the launcher does: with the plan if all ranks can, or else with the one before.
void Director::go_on_in_place() {
  const bool taken = problems_.empty();
  if (taken) {
    current_.plan = acts_[next_act_].plan;
    current_.tell(Resume{current_.plan});
  } else {
    current_.tell(Resume{});
  }
  summary_["acts"].push_back({{"generation", current_.number},
                              {"step", boundary_},
                              {"in_place", taken},
                              {"problems", std::exchange(problems_, {})},
                              {"stand_ms", stand_ms_},
                              {"pause_ms", milliseconds_since(stood_)}});
  ++next_act_;
}

// Restarts by checkpoint, as the launcher does.
void Director::restart() {
  current_.tell(Exit{});
  left_.insert(std::exchange(current_.mpirun, -1));
  start(next_, ++last_number_, acts_[next_act_].plan);
}

void Director::on_loaded() {
  if (recovering_) return on_recovered();
  if (acts_[next_act_].abort == "loaded") return give_up(true);
  const int ready_to_be_left = next_.listening(token_);
  summary_["acts"].push_back({{"generation", next_.number},
                              {"step", boundary_},
                              {"listening", ready_to_be_left},
                              {"ready_ms", ready_ms_},
                              {"to_boundary_ms", switched_ms_},
                              {"stand_ms", stand_ms_},
                              {"pause_ms", milliseconds_since(stood_)},
                              {"phases_ms", next_.phases_ms},
                              {"bytes_adopted", next_.adopted},
                              {"bytes_copied", next_.copied},
                              {"bytes_sent", next_.sent},
                              {"bytes_sent_early", next_.sent_early}});
  if (!acts_[next_act_].restart) {
    current_.tell(Exit{});
    left_.insert(current_.mpirun);
  }
  succeed();
}

// The new generation becomes the job, as in the launcher. It goes on after step boundary_.
void Director::succeed() {
  earlier_.insert(earlier_.begin(), {current_.number, current_.plan, false, boundary_});
  for (auto& one : earlier_) one.step = std::min(one.step, boundary_);
  current_ = std::move(next_);
  next_ = Generation();
  recovering_ = false;
  ++next_act_;
  if (next_act_ == acts_.size() || !acts_[next_act_].at_commit) return current_.tell(Commit{});
  recovering_ = true;
  strike();
}

void Director::failed(const Failed& failed) {
  give_up(false);
  summary_["acts"].back().update({{"message", failed.message}, {"memory", failed.memory}, {"peer", failed.peer}});
}

// The old generation must train on as if nothing had happened.
void Director::give_up(bool stands) {
  ::kill(next_.mpirun, SIGKILL);
  ::waitpid(next_.mpirun, nullptr, 0);
  next_ = Generation();
  awaiting_ = false;
  if (stands) current_.tell(Resume{});
  summary_["acts"].push_back({{"aborted", acts_[next_act_].abort}, {"step", boundary_}});
  ++next_act_;
}

}  // namespace espalier::test
