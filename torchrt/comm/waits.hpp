// How ranks wait for each other: they sleep. Several ranks may share a processor: two generations
// do so during every hand-off, and on CPU there are often more ranks than cores. Neither spinning
// nor sched_yield reliably leaves the processor to others. On some kernels (seen with Linux 6.18)
// two ranks that did either starved all other processes of a machine with two cores for up to two
// minutes. Among the starved were the ranks for which the two waited.
#pragma once

namespace espalier::torchrt {

// Call it before MPI_Init: it makes MPI call sched_yield where MPI waits. This program replaces
// sched_yield by a function that obeys Waiting.
void let_mpi_yield();

// Decides what sched_yield does in this thread while the object lives. Without an object it yields.
class Waiting {
 public:
  enum class Kind {
    yields,
    sleeps,   // for MPI's blocking calls
    returns,  // for MPI's tests: the caller decides how to wait
  };
  explicit Waiting(Kind kind);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Kind before_;
};

// Call pause() between two tests of one wait. The first pauses return at once, later ones sleep.
class Backoff {
 public:
  void pause();

 private:
  int turns_ = 0;
};

}  // namespace espalier::torchrt
