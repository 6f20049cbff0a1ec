#include "planner/core/hostlist.hpp"

#include <doctest/doctest.h>

#include <string>

#include "planner/core/error.hpp"

using namespace espalier;

namespace {

std::size_t named(const std::string& text, std::size_t most) {
  try {
    return expand_hosts(text.c_str(), most).size();
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("names more than " + std::to_string(most) + " hosts") != std::string::npos);
    return most + 1;
  }
}

}  // namespace

TEST_CASE("a host list may name as many hosts as are asked for, and no more") {
  CHECK(named("n[1-3,7],m,k[08-10]x[1-2]", 11) == 11);
  CHECK(named("n[1-3,7],m,k[08-10]x[1-2]", 10) == 11);
  CHECK(named("a b\tc", 3) == 3);
  CHECK(named("a b\tc", 2) == 3);
  CHECK(named("n[5]", 1) == 1);
  CHECK(named("", 0) == 0);
  CHECK(expand_hosts(nullptr, 0).empty());
  CHECK(expand_hosts("n[9-11],m") == std::vector<std::string>{"n9", "n10", "n11", "m"});
}

TEST_CASE("a host list of millions of names is refused before libslurm makes them") {
  // libslurm took 1.5 s to make the first one's four million names, and minutes to give them back.
  CHECK(named("x[1-1000][1-1000][1-4]", 4096) == 4097);
  CHECK(named("x[1-1000][1-1000][1-4]", kMaxHosts) == kMaxHosts + 1);
  CHECK(named("x[1-99999999999999999999999999]", 4096) == 4097);
  CHECK(named("x[1-99999999999999999999999999", 4096) == 4097);
  CHECK(named("x[0-999999999999][0-999999999999][0-999999999999]", 4096) == 4097);
  std::string many;
  for (int i = 0; i < 9; ++i) many += "n[1-16384],";
  CHECK(named(many, kMaxHosts) == kMaxHosts + 1);
}
