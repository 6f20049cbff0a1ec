#include "launcher/world/departure.hpp"

#include <csignal>

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kTermToKill{1500};
}

void Departure::begin(wire::Loop::Milliseconds patience) {
  begun_ = true;
  if (!ranks_->running()) return tell();
  patience_ = loop_.after(patience, [this] {
    ranks_->signal(SIGTERM);
    kill_ = loop_.after(kTermToKill, [this] { ranks_->signal(SIGKILL); });
  });
}

void Departure::all_ended() {
  kill_.reset();
  patience_.reset();
  if (begun_) tell();
}

void Departure::tell() {
  loop_.defer([alive = alive_, gone = gone_] {
    if (*alive && gone) gone();
  });
}

}  // namespace espalier::launcher
