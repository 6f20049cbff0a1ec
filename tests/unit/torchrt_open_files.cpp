#include <doctest/doctest.h>

#include <sys/resource.h>

#include <algorithm>

#include "torchrt/open_files.hpp"

using namespace espalier::torchrt;

TEST_CASE("a rank may open as many files as its hard limit allows, up to a million") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit few = before, now{};
  few.rlim_cur = std::min<rlim_t>(256, before.rlim_max);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  allow_many_files();
  ::getrlimit(RLIMIT_NOFILE, &now);
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(now.rlim_cur == std::min<rlim_t>(before.rlim_max, 1 << 20));
  CHECK(now.rlim_max == before.rlim_max);
}
