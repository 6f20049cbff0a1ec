// For the start of a launcher: what it must know of Slurm is asked for again while slurmctld or munged is away, e.g.
// since it is being restarted. Blocks.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace espalier::launcher {

struct Patience {
  std::chrono::milliseconds most, between;  // from the first question to the last; and between two of them
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(std::chrono::milliseconds)> sleep;
};

// Calls `ask` until it throws no Unanswered. Throws the last one when the time is over, and every other Error at once.
// `waits`: called once, before the second question.
void ask_patiently(const std::function<void()>& ask, const std::function<void(const std::string& why)>& waits,
                   const Patience& patience);

}  // namespace espalier::launcher
