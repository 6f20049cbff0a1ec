// libmunge behind two functions.
#pragma once

#include <sys/types.h>

#include <string>

namespace espalier::wire {

struct Credential {
  std::string payload;
  uid_t uid;
  gid_t gid;
};

// Both throw Error with MUNGE's own message and what to check.
std::string munge_seal(const std::string& payload);
Credential munge_open(const std::string& credential);  // refuses expired, replayed and foreign ones

}  // namespace espalier::wire
