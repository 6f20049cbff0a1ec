// Memory of the CPU device.
#include <doctest/doctest.h>

#include <csignal>
#include <cstring>

#include <sys/time.h>

#include "torchrt/device/cpu.hpp"

using namespace espalier::torchrt;

namespace {

volatile std::sig_atomic_t signals = 0;

// While it lives, a signal interrupts this process every 10 ms.
class Interrupting {
 public:
  Interrupting() {
    struct sigaction action {};
    action.sa_handler = [](int) { signals = signals + 1; };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGALRM, &action, &before_);
    set(10'000);
  }
  ~Interrupting() {
    set(0);
    ::sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  static void set(int microseconds) {
    const itimerval every{{0, microseconds}, {0, microseconds}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
  }
  struct sigaction before_ {};
};

}  // namespace

TEST_CASE("signals, such as those of a suspension, do not keep memory from being had") {
  constexpr std::size_t kBytes = std::size_t{768} << 20;
  const auto device = make_cpu_device();
  const Interrupting interrupting;
  const auto memory = device->allocate(kBytes, "espalier-test");
  CHECK(signals > 0);
  CHECK(memory->bytes() == kBytes);
  CHECK(static_cast<char*>(memory->data())[kBytes - 1] == 0);
}
