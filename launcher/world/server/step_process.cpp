#include "launcher/world/server/step_process.hpp"

#include <csignal>
#include <utility>

namespace espalier::launcher {
namespace {
constexpr std::size_t kLongestLine = 4096;
}

StepProcess::StepProcess(wire::Loop& loop, const std::vector<std::string>& command,
                         const std::vector<std::string>& environment, Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      output_(loop, false, [this](const std::string& text) { printed(text); }),
      errors_(loop, false, [this](const std::string& text) { callbacks_.said(text); }),
      child_(loop, command, environment, traits(), [this](int status) { ended(status); }) {
  output_.started();
  errors_.started();
}

Child::Traits StepProcess::traits() const {
  Child::Traits traits;
  traits.output = output_.writer();
  traits.errors = errors_.writer();
  return traits;
}

void StepProcess::printed(const std::string& text) {
  for (const char c : text) {
    if (c != '\n' && line_.size() < kLongestLine) line_.push_back(c);
    if (c == '\n') callbacks_.line(std::exchange(line_, ""));
  }
}

void StepProcess::ended(int status) {
  output_.drain();
  errors_.drain();
  callbacks_.ended(status);
}

}  // namespace espalier::launcher
