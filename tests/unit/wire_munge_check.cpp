// What a program says at its start on a host without MUNGE.
#include <doctest/doctest.h>

#include "planner/wire/munge_check.hpp"

using namespace espalier::wire;

TEST_CASE("a site lacks MUNGE where it does not work and Slurm uses another authentication") {
  CHECK(lacks_munge("auth/slurm", "it is away"));
  CHECK_FALSE(lacks_munge("auth/slurm", ""));            // munged runs beside
  CHECK_FALSE(lacks_munge("auth/munge", "it is away"));  // it may still come
  CHECK_FALSE(lacks_munge("", "it is away"));            // Slurm has not told yet
}

TEST_CASE("without MUNGE: one sentence with the cause, what cannot work, and the remedy") {
  CHECK(
      without_munge("auth/slurm", "it is away") ==
      "Slurm has AuthType=auth/slurm, whose credentials Espalier cannot use, and MUNGE does not work on this host (it "
      "is "
      "away), so espalierd, launchers, keepers and ranks cannot prove their users to each other over the network; run "
      "munged with the same key on all hosts");
  for (const char* type : {"auth/munge", ""})
    CHECK(without_munge(type, "it is away").starts_with("MUNGE does not work on this host (it is away), so espalierd"));
}
