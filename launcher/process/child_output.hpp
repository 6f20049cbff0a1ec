// A child process whose standard output is read to the end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/child.hpp"

namespace espalier::launcher {

// The child is killed when this object is destroyed.
class ChildOutput {
 public:
  // `text`: all that the child printed; nothing when it printed more than `most` bytes or took longer than `limit`.
  // `status`: as waitpid() gave it.
  using Done = std::function<void(std::optional<std::string> text, int status)>;

  // `done` is called once, on the loop, after the child has ended; it may destroy this object. traits.output is set
  // here. Throws Error when the program cannot be started.
  ChildOutput(wire::Loop& loop, const std::vector<std::string>& program, const std::vector<std::string>& environment,
              Child::Traits traits, std::size_t most, wire::Loop::Milliseconds limit, Done done);
  ~ChildOutput();
  ChildOutput(const ChildOutput&) = delete;
  ChildOutput& operator=(const ChildOutput&) = delete;

 private:
  void read();
  void give_up();      // kills the child; what it printed does not count
  void end_if_over();  // calls `done` soon, outside of the child's and the output's own callbacks

  wire::Loop& loop_;
  const std::size_t most_;
  Done done_;
  int output_ = -1;
  std::string text_;
  bool given_up_ = false;
  std::optional<int> status_;
  std::unique_ptr<Child> child_;
  wire::Watch readable_, limit_, over_;
};

}  // namespace espalier::launcher
