#include "planner/core/hostlist.hpp"

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

std::string fold_hosts(const std::vector<std::string>& names) {
  hostlist_t list = slurm_hostlist_create(nullptr);
  for (const std::string& name : names) slurm_hostlist_push_host(list, name.c_str());
  slurm_hostlist_uniq(list);
  char* text = slurm_hostlist_ranged_string_malloc(list);
  slurm_hostlist_destroy(list);
  std::string folded(text == nullptr ? "" : text);
  std::free(text);  // NOLINT: as above
  return folded;
}

}  // namespace espalier
