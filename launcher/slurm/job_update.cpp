#include "launcher/slurm/job_update.hpp"

#include <algorithm>

#include "launcher/slurm/libslurm.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::launcher {
namespace {

// `fill` sets what changes. `what`: in words.
template <class Fill>
void update(JobId id, const std::string& what, const Fill& fill) {
  initialize();
  job_desc_msg_t change;
  slurm_init_job_desc_msg(&change);
  std::string name = std::to_string(id);
  change.job_id_str = name.data();
  fill(change);
  job_array_resp_msg_t* answer = nullptr;
  const int result = slurm_update_job2(&change, &answer);
  const int error = errno;
  const Owned<job_array_resp_msg_t, slurm_free_job_array_resp> owner(answer);
  errno = error;
  bool refused = result != SLURM_SUCCESS;
  for (std::uint32_t i = 0; answer != nullptr && i < answer->job_array_count; ++i)
    if (answer->error_code[i] != 0) {
      errno = static_cast<int>(answer->error_code[i]);
      refused = true;
    }
  if (refused) fail("slurm: " + what + " of job " + name + " cannot be changed");
}

}  // namespace

void lower_time_limit(JobId id, long minutes) {
  update(id, "the time limit",
         [&](job_desc_msg_t& change) { change.time_limit = static_cast<std::uint32_t>(std::max(minutes, 1L)); });
}

void exclude_nodes(JobId id, const std::vector<std::string>& nodes) {
  std::string names = fold_hosts(nodes);  // "" takes them away
  update(id, "the excluded nodes", [&](job_desc_msg_t& change) { change.exc_nodes = names.data(); });
}

}  // namespace espalier::launcher
