#include "launcher/slurm/libslurm.hpp"

#include <doctest/doctest.h>

using namespace espalier;
using namespace espalier::launcher;

TEST_CASE("what slurmctld did not answer may be asked again") {
  errno = SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR;
  CHECK_THROWS_AS(fail_to_read("slurm: partitions cannot be asked for", "partitions"), Unanswered);
}

TEST_CASE("what the site hides from users is not asked again, and the message names the setting") {
  errno = ESLURM_ACCESS_DENIED;
  std::string words;
  try {
    fail_to_read("slurm: partitions cannot be asked for", "partitions");
  } catch (const Unanswered&) {
    words = "asked again";
  } catch (const Error& error) {
    words = error.what();
  }
  CHECK(words ==
        "slurm: partitions cannot be asked for: PrivateData in slurm.conf hides partitions from users; ask the "
        "administrator to leave \"partitions\" out of it");
}
