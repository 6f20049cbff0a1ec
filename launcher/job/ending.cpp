#include "launcher/job/ending.hpp"

#include "planner/wire/clock.hpp"

namespace espalier::launcher {
namespace {
constexpr std::chrono::seconds kReleased{4};              // for Slurm to confirm what was given back
constexpr std::chrono::milliseconds kServersLeave{1000};  // for rank servers to end
}  // namespace

void Ending::fails() {
  if (code_ == 0) code_ = loss_code_.value_or(1);
}

void Ending::await(std::chrono::seconds patience) { until_released(wire::steady_now() + patience + kReleased); }

// Keepers see the control socket close and give back by themselves; waiting only makes the usual case tidy.
void Ending::until_released(Time give_up) {
  if ((callbacks_.gave_back() && world_gone_) || wire::steady_now() >= give_up) {
    callbacks_.leave();
    timer_ = loop_.after(std::chrono::milliseconds(20), [this] { until_left(wire::steady_now() + kServersLeave); });
    return;
  }
  timer_ = loop_.after(std::chrono::milliseconds(20), [this, give_up] { until_released(give_up); });
}

// An srun that ends by itself leaves Slurm nothing to repeat; one that is killed holds its step's GPUs for two seconds.
void Ending::until_left(Time give_up) {
  if (callbacks_.left() || wire::steady_now() >= give_up) return callbacks_.stop();
  timer_ = loop_.after(std::chrono::milliseconds(10), [this, give_up] { until_left(give_up); });
}

}  // namespace espalier::launcher
