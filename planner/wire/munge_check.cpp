#include "planner/wire/munge_check.hpp"

#include <unistd.h>

#include "planner/core/error.hpp"
#include "planner/wire/munge.hpp"

namespace espalier::wire {

std::string munge_problem() {
  try {
    munge_open(munge_seal("espalier", ::geteuid()));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

bool lacks_munge(const std::string& auth_type, const std::string& problem) {
  return !problem.empty() && !auth_type.empty() && auth_type != "auth/munge";
}

std::string without_munge(const std::string& auth_type, const std::string& problem) {
  const std::string slurm = lacks_munge(auth_type, problem)
                                ? "Slurm has AuthType=" + auth_type + ", whose credentials Espalier cannot use, and "
                                : "";
  return slurm + "MUNGE does not work on this host (" + problem +
         "), so espalierd, launchers, keepers and ranks cannot prove their users to each other over the network; run "
         "munged with the same key on all hosts";
}

}  // namespace espalier::wire
