// How ranks wait for each other. Several may share a processor: two generations do during every hand-off, and on CPU
// more ranks than cores are the rule. So whoever waits sleeps. Neither spinning nor sched_yield leaves the processor to
// others reliably: on some kernels (seen with Linux 6.18) two ranks that did either starved all other processes of a
// machine with two cores for up to two minutes, the ranks they waited for among them.
#pragma once

namespace espalier::torchrt {

// Before MPI_Init. The waits inside MPI's own blocking calls then go through the sched_yield of this program, which
// sleeps.
void sleep_in_mpi_waits();

// While it lives, MPI does not sleep in this thread: for tests whose caller decides how to wait.
class Polling {
 public:
  Polling();
  ~Polling();
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;
};

// Between the tests of one wait: short ones are answered quickly, long ones sleep.
class Backoff {
 public:
  void pause();

 private:
  int turns_ = 0;
};

}  // namespace espalier::torchrt
