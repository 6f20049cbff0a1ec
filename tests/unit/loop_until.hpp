// A loop that runs until something has happened.
#pragma once

#include <chrono>
#include <functional>

#include "planner/wire/loop.hpp"

namespace espalier::test {

// Runs the loop until `condition` holds, which is looked at every 10 ms, or the limit is over. Whether it holds.
inline bool until(wire::Loop& loop, const std::function<bool()>& condition,
                  wire::Loop::Milliseconds limit = std::chrono::seconds(60)) {
  const auto look = loop.every(wire::Loop::Milliseconds(10), [&] {
    if (condition()) loop.stop();
  });
  const auto end = loop.after(limit, [&] { loop.stop(); });
  loop.run();
  return condition();
}

}  // namespace espalier::test
