// What a TCP stream is for, and what each side of it asks of the other. Both credentials of a login
// name these, so that a credential made for one purpose is useless for another.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::wire {

// espalierd has the first service, a launcher the others: for workers, keepers and rank servers.
enum class Service { planner, worker, keeper, ranks };
const char* name_of(Service service);

// What a server asks of its clients.
struct Door {
  std::vector<Service> services;
  JobId job = 0;              // the launcher's anchor; 0: espalierd
  std::string token;          // of the job, hex; empty: espalierd
  std::optional<uid_t> user;  // the only one who is let in; nullopt: anybody of the cluster
};

// What a client says, and asks of its server.
struct Caller {
  Service service = Service::planner;
  JobId job = 0;
  std::string token;
  std::vector<uid_t> server_uids;  // the server must run as one of them
};

// The caller for espalierd.
inline Caller planner_caller(std::vector<uid_t> server_uids) {
  return {Service::planner, 0, "", std::move(server_uids)};
}

}  // namespace espalier::wire
