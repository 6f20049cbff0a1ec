// Memory of the CPU device.
#include <doctest/doctest.h>

#include <cstring>

#include "torchrt/device/cpu.hpp"
#include "torchrt/device/reserve_file.hpp"

using namespace espalier::torchrt;

TEST_CASE("signals, such as those of a suspension, do not keep memory from being had") {
  constexpr std::size_t kBytes = (std::size_t{100} << 20) + 5;
  std::size_t reserved = 0;
  int calls = 0;
  const auto interrupted = [&](int, off_t at, off_t length) {
    CHECK(static_cast<std::size_t>(at) == reserved);
    if (++calls % 3 != 0) return EINTR;  // two of three, each without having reserved anything
    reserved += static_cast<std::size_t>(length);
    return 0;
  };
  CHECK(reserve_file(-1, kBytes, interrupted) == 0);
  CHECK(reserved == kBytes);
  CHECK(reserve_file(-1, kBytes, [](int, off_t at, off_t) { return at > 0 ? ENOSPC : 0; }) == ENOSPC);
}

TEST_CASE("memory of the CPU device is there as a whole, and zero") {
  constexpr std::size_t kBytes = (std::size_t{20} << 20) + 3;
  const auto memory = make_cpu_device()->allocate(kBytes, "espalier-test");
  CHECK(memory->bytes() == kBytes);
  const char* bytes = static_cast<const char*>(memory->data());
  CHECK(std::all_of(bytes, bytes + kBytes, [](char byte) { return byte == 0; }));
}
