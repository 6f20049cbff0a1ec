// The processes of one generation, wherever they run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/world/placement.hpp"

namespace espalier::launcher {

// Callbacks run on the loop, never from inside a call to Ranks. Ranks may be destroyed from its own callback only
// through Loop::defer.
struct RanksCallbacks {
  // A rank has ended; `code` is as a shell reports it. A rank that left MPI without MPI_Finalize has no code 0.
  std::function<void(int rank, int code)> ended;
  // These ranks are gone with the rank server that ran them, or could not be started by it.
  std::function<void(const std::vector<int>& ranks, const std::string& why)> lost;
  // The last rank has ended. `code`: that of the first rank whose code was not 0.
  std::function<void(int code)> all_ended;
  // A rank called MPI_Abort, or its MPI did; all ranks are killed soon after.
  std::function<void(int rank)> aborted = {};
};

class Ranks {
 public:
  virtual ~Ranks() = default;  // SIGKILL to all ranks
  virtual bool running() const = 0;
  virtual void signal(int number) const = 0;
};

}  // namespace espalier::launcher
