#include "launcher/slurm/extensions.hpp"

#include <utility>

namespace espalier::launcher {

Extensions::Extensions(wire::Loop& loop, BlockingThread& slurm, const JobContext& context,
                       std::vector<std::string> environment, Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      jobs_(loop, slurm, context, of_jobs()),
      notices_(loop, slurm, jobs_, callbacks_.noticed),
      acquisition_(loop, slurm, context, std::move(environment), jobs_, {callbacks_.granted, callbacks_.failed}) {}

ExtensionJobs::Callbacks Extensions::of_jobs() {
  ExtensionJobs::Callbacks on;
  on.noticed = [this](JobId id) { notices_.notice(id); };
  on.lost = [this](const Holding& holding, bool acquiring) {
    if (acquiring) acquisition_.fail("extension " + std::to_string(holding.job) + " was lost");
    callbacks_.lost(holding);
  };
  on.refused = [this](const Holding& holding, const std::string& why) {
    acquisition_.fail(why);
    callbacks_.refused(holding, why);
  };
  on.came = [this](JobId id, const ExtensionRequest& request) {
    callbacks_.came(id, request);
    acquisition_.check_complete();
  };
  on.leaves = callbacks_.leaves;
  on.released = callbacks_.released;
  return on;
}

void Extensions::cancel_acquired() {
  acquisition_.cancel();
  jobs_.release_acquired();
}

void Extensions::release_all() {
  acquisition_.cancel();
  jobs_.release_all();
}

void Extensions::leave_to_next() {
  acquisition_.cancel();
  jobs_.leave_to_next();
}

}  // namespace espalier::launcher
