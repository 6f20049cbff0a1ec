// Asks the user's program what it trains, before any of its ranks runs: `PROGRAM --describe`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/child_output.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher {

// Only a program that says so is started with --describe: another one could begin its work. The
// executable, or a file among the arguments (a script), must hold the text
// "espalier: describes itself".
bool describes_itself(const std::vector<std::string>& program);

// Throws Error unless the program says, by the text "espalier: profiles stages" in the same places, that it measures
// one stage when it is started with --profile-plan FILE --stage N --replica R. Another one could begin its training.
void must_profile_stages(const std::vector<std::string>& program);

// One question. The program is killed when it takes too long or when this object is destroyed.
class ProgramDescription {
 public:
  // `told` is called once, on the loop, with nothing if the program failed, took longer than
  // `limit`, or printed something else. `environment`: "NAME=value". Throws Error when the program
  // cannot be started.
  ProgramDescription(wire::Loop& loop, std::vector<std::string> program, const std::vector<std::string>& environment,
                     wire::Loop::Milliseconds limit, std::function<void(std::optional<wire::Description>)> told);
  ~ProgramDescription();

 private:
  void ended(const std::optional<std::string>& text);

  std::function<void(std::optional<wire::Description>)> told_;
  std::unique_ptr<ChildOutput> child_;
};

}  // namespace espalier::launcher
