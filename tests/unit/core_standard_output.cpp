// What a program prints and cannot write.
#include <doctest/doctest.h>

#include <memory>

#include "planner/core/error.hpp"
#include "planner/core/standard_output.hpp"

using namespace espalier;

TEST_CASE("what is printed and cannot be written is an error that says why, also if nothing is left to write") {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> full(std::fopen("/dev/full", "w"), std::fclose);
  REQUIRE(full);
  CHECK_NOTHROW(flush_standard_output(full.get()));
  std::fputs("text", full.get());
  CHECK_THROWS_WITH_AS(flush_standard_output(full.get()), "standard output: cannot be written: No space left on device",
                       Error);
  std::setvbuf(full.get(), nullptr, _IONBF, 0);
  std::fputs("text", full.get());
  CHECK_THROWS_WITH_AS(flush_standard_output(full.get()), doctest::Contains("standard output: cannot be written"),
                       Error);
}
