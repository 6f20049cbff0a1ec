// The reading end of a rank's standard output or standard error.
#pragma once

#include <functional>
#include <string>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/loop.hpp"

namespace espalier::launcher {

// Standard output is a pseudo-terminal without any processing of characters, as under mpirun: C programs then write
// each line at once. Where there is no pseudo-terminal left it is a pipe, and so is standard error.
class RankOutput {
 public:
  // `take` gets what the rank wrote, on the loop. Throws Error.
  RankOutput(wire::Loop& loop, bool terminal, std::function<void(std::string)> take);

  void deliver_to(std::function<void(std::string)> take) { take_ = std::move(take); }
  int writer() const { return writer_.get(); }  // for the rank
  void started() { writer_.reset(); }           // the rank has the writer now
  void pause(bool paused);                      // while paused nothing is read, and the rank waits when it writes more
  void drain();                                 // takes what is there, also when paused: the rank has ended

 private:
  void read();
  wire::Loop& loop_;
  std::function<void(std::string)> take_;
  wire::Descriptor reader_, writer_;
  wire::Watch readable_;
};

}  // namespace espalier::launcher
