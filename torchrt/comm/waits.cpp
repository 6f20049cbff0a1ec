#include "torchrt/comm/waits.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace espalier::torchrt {

namespace {

thread_local Waiting::Kind current = Waiting::Kind::yields;

void nap(long nanoseconds) {
  const timespec time{0, nanoseconds};
  ::nanosleep(&time, nullptr);
}

}  // namespace

void let_mpi_yield() { ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1); }

Waiting::Waiting(Kind kind) : before_(current) { current = kind; }
Waiting::~Waiting() { current = before_; }

void Backoff::pause() {
  if (++turns_ >= 20) nap(turns_ < 200 ? 20'000 : 100'000);
}

}  // namespace espalier::torchrt

// Replaces libc's function for every library of this program: the linker exports it (torchrt.mk).
extern "C" int sched_yield() noexcept {
  using namespace espalier::torchrt;
  if (current == Waiting::Kind::yields) return static_cast<int>(::syscall(SYS_sched_yield));
  if (current == Waiting::Kind::sleeps) nap(20'000);
  return 0;
}
