// What keeps the processes and the GPUs of one job from another's.
#include "planner/cli/doctor/checks.hpp"

namespace espalier::cli::doctor {
namespace {

Finding tracking(const Facts& facts, const Slurm& slurm) {
  const std::string type = slurm.setting("ProctrackType");
  if (type == "proctrack/cgroup") return ok("ProctrackType is " + type);
  return warning("ProctrackType is " + type + ": a process that leaves its session outlives its extension",
                 {{facts.slurm_conf(), "ProctrackType=proctrack/cgroup", ""}});
}

bool confines_tasks(const Slurm& slurm) { return slurm.setting("TaskPlugin").find("cgroup") != std::string::npos; }

Finding tasks(const Facts& facts, const Slurm& slurm) {
  const std::string plugins = slurm.setting("TaskPlugin");
  if (confines_tasks(slurm)) return ok("TaskPlugin is " + plugins);
  const bool none = plugins.empty() || plugins == "task/none";
  return warning("TaskPlugin is " + (none ? std::string("task/none") : plugins) +
                     ": a job can use the GPUs and CPUs of others on its node",
                 {{facts.slurm_conf(), "TaskPlugin=" + (none ? "task/affinity" : plugins) + ",task/cgroup", ""}});
}

Finding devices(const Facts& facts, const Slurm& slurm) {
  if (!confines_tasks(slurm)) return skipped("TaskPlugin has no task/cgroup, which reads cgroup.conf");
  const auto found = slurm.cgroup.find("ConstrainDevices");
  if (found == slurm.cgroup.end()) return skipped("slurmctld does not tell cgroup.conf; look at that of the nodes");
  if (found->second == "yes") return ok("ConstrainDevices is yes in slurmctld's cgroup.conf");
  const std::string conf = facts.slurm_conf();
  return warning("ConstrainDevices is " + found->second + ": a job can use the GPUs of others on its node",
                 {{conf.substr(0, conf.rfind('/') + 1) + "cgroup.conf", "ConstrainDevices=yes", ""}});
}

Finding authentication(const Facts& facts, const Slurm& slurm) {
  const std::string type = slurm.setting("AuthType");
  if (type == "auth/munge") return ok("AuthType is " + type);
  return warning("AuthType is " + type + ": Espalier's own connections need MUNGE on every host all the same",
                 {{facts.slurm_conf(), "AuthType=auth/munge", ""}});
}

Finding munge(const Facts& facts) {
  if (!facts.munge_seconds)
    return fault("munged does not make and open a credential: " + facts.munge_seconds.why,
                 {command("systemctl restart munge"), command("munge -n | unmunge")});
  if (*facts.munge_seconds < 1) return ok("munged makes and opens a credential");
  return warning("munged takes " + std::to_string(static_cast<int>(*facts.munge_seconds)) +
                     " s for a credential: every connection waits for it",
                 {command("systemctl restart munge")});
}

}  // namespace

std::span<const Check> confinement_checks() {
  static const Check table[] = {
      {"process-tracking", Audience::administrator, tracking},
      {"task-plugin", Audience::administrator, tasks},
      {"constrain-devices", Audience::administrator, devices},
      {"auth-type", Audience::administrator, authentication},
      {"munge", Audience::everyone, munge},
  };
  return table;
}

}  // namespace espalier::cli::doctor
