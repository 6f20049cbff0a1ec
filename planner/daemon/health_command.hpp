// One run of a program that the site named, beside the event loop and bounded in time and output.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "planner/wire/loop.hpp"

namespace espalier {

class HealthCommand {
 public:
  struct Answer {
    std::string problem;  // why the output does not count; empty: it does
    std::string output;
  };
  using Done = std::function<void(const Answer&)>;

  // Runs `program` with the one argument `nodes`, for at most `seconds`; timeout(1) ends it then, also where this
  // process is no more. Its standard error is this process's. `done` is called once, on the loop, unless this object
  // ends before: then the program is killed.
  HealthCommand(wire::Loop& loop, const std::string& program, const std::string& nodes, int seconds, Done done);
  ~HealthCommand();
  HealthCommand(const HealthCommand&) = delete;
  HealthCommand& operator=(const HealthCommand&) = delete;

 private:
  bool start(const std::string& program, const std::string& nodes, int seconds);  // false: problem_ says why
  void look();
  bool read_output();  // false: there is more than a check may print
  void end_group();
  void finish(Answer answer);

  Done done_;
  std::string program_, output_, problem_;
  pid_t child_ = -1;  // timeout(1), which leads a process group of its own
  int pipe_ = -1, looks_left_ = 0, seconds_;
  wire::Watch watch_;
};

}  // namespace espalier
