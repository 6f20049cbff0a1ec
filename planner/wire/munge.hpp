// Wraps libmunge in two functions. Both ask munged, and so may block.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace espalier::wire {

struct Credential {
  std::string payload;
  uid_t uid;  // who made it
  gid_t gid;
  std::optional<uid_t> reader;  // the only user who may open it; nullopt: anybody
  bool encrypted = false;
};

// Both throw Error with MUNGE's own message and a hint what to check.
// The credential is encrypted by AES-256. munged opens it for `reader` only.
std::string munge_seal(const std::string& payload, uid_t reader);
Credential munge_open(const std::string& credential);  // no expired, replayed or foreign one

}  // namespace espalier::wire
