// An address look-up on a thread of its own, so that an unreachable name server blocks nobody.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "planner/wire/endpoint.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::wire {

class NameLookup {
 public:
  struct Answer {
    std::optional<Endpoint> endpoint;
    std::string why_not;
  };
  // `look_up` runs on the new thread and may throw Error. `done` is called on the loop. If the
  // NameLookup is destroyed first, the look-up goes on and its answer is dropped. Throws Error when
  // there is no descriptor or thread.
  NameLookup(Loop& loop, std::function<Endpoint()> look_up, std::function<void(const Answer&)> done);

 private:
  Watch readable_;
};

}  // namespace espalier::wire
