#include "planner/daemon/hostlist.hpp"

#include <slurm/slurm.h>

#include <cstdlib>

namespace espalier {

std::vector<std::string> expand_hosts(const char* text) {
  std::vector<std::string> names;
  if (text == nullptr || *text == '\0') return names;
  hostlist_t list = slurm_hostlist_create(text);
  if (list == nullptr) return names;
  while (char* name = slurm_hostlist_shift(list)) {
    names.emplace_back(name);
    std::free(name);  // NOLINT: libslurm gives it away by malloc
  }
  slurm_hostlist_destroy(list);
  return names;
}

}  // namespace espalier
