// Tells the launcher that a rank or a node of a generation has ended, from the process that started it there.
#pragma once

#include <chrono>
#include <string>

namespace espalier::launcher {

// Make it when what it is to tell of starts: what has lived for twice launch.start_seconds has said hello, or its
// generation was given up, and nothing is told any more, so that thousands that end at once do not come between the
// launcher and the next generation. Nor of generation 0, whose mpirun tells all. Reads ESPALIER_LAUNCHER, _TOKEN,
// _GENERATION and _START. Its functions take 2.5 s at most, and never throw: a launcher that cannot be reached has
// gone.
class LostTeller {
 public:
  void rank(int code) const;  // this process's, by OMPI_COMM_WORLD_RANK
  void node(const std::string& name, int code) const;

 private:
  bool is_of_interest() const;

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace espalier::launcher
