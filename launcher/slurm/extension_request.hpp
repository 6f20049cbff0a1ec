// What Slurm is asked for when a job wants an extension.
#pragma once

#include <string>
#include <vector>

#include "launcher/slurm/job_context.hpp"
#include "launcher/slurm/slurm.hpp"

namespace espalier::launcher {

// It inherits the job's account, constraint and reservation where the site sets none, and its wckey and nice value: a
// site may demand a wckey of every job. `environment`: what a keeper
// needs to find the launcher. `grant`: the planner's; empty: none. `immediate`: start now, or be refused. Pure but for
// a nonce.
ExtensionJob extension_job(const JobContext& context, std::vector<std::string> environment,
                           const ExtensionRequest& request, const std::string& grant, bool immediate);

}  // namespace espalier::launcher
