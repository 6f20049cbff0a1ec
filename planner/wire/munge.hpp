// Wraps libmunge in two functions.
#pragma once

#include <sys/types.h>

#include <string>

namespace espalier::wire {

struct Credential {
  std::string payload;
  uid_t uid;
  gid_t gid;
};

// Both throw Error with MUNGE's own message and a hint what to check.
std::string munge_seal(const std::string& payload);
Credential munge_open(const std::string& credential);  // no expired, replayed or foreign one

}  // namespace espalier::wire
