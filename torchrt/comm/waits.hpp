// How ranks wait for each other. Several may share a processor: two generations do during every hand-off, and on CPU
// more ranks than cores are the rule. So whoever waits sleeps. Neither spinning nor sched_yield leaves the processor to
// others reliably: on some kernels (seen with Linux 6.18) two ranks that did either starved all other processes of a
// machine with two cores for up to two minutes, the ranks they waited for among them.
#pragma once

namespace espalier::torchrt {

// Before MPI_Init: MPI shall call sched_yield where it waits. This program has its own, which does what Waiting says.
void let_mpi_yield();

// What sched_yield does in this thread while the object lives. Without one: what it is for.
class Waiting {
 public:
  enum class Kind {
    yields,
    sleeps,   // for MPI's blocking calls
    returns,  // for tests whose caller decides how to wait
  };
  explicit Waiting(Kind kind);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Kind before_;
};

// Between the tests of one wait: short ones are answered quickly, long ones sleep.
class Backoff {
 public:
  void pause();

 private:
  int turns_ = 0;
};

}  // namespace espalier::torchrt
