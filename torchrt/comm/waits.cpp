#include "torchrt/comm/waits.hpp"

#include <sched.h>
#include <time.h>

#include <cstdlib>

namespace espalier::torchrt {

namespace {

thread_local bool polling = false;

void nap(long nanoseconds) {
  const timespec time{0, nanoseconds};
  ::nanosleep(&time, nullptr);
}

}  // namespace

void sleep_in_mpi_waits() { ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1); }

Polling::Polling() { polling = true; }
Polling::~Polling() { polling = false; }

void Backoff::pause() {
  if (++turns_ >= 20) nap(turns_ < 200 ? 20'000 : 100'000);
}

}  // namespace espalier::torchrt

// In the place of libc's, for every library of this program: the linker exports it (torchrt.mk).
extern "C" int sched_yield() noexcept {
  if (!espalier::torchrt::polling) espalier::torchrt::nap(20'000);
  return 0;
}
