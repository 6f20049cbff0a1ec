#include <csignal>
#include <string>

#include "launcher/node/keeper.hpp"
#include "launcher/node/own_processes.hpp"

namespace espalier::launcher {

int kill_local_processes(unsigned job) {
  int count = 0;
  each_own_process([&](pid_t process, const std::string& environment) {
    if (variable_in(environment, "SLURM_JOB_ID") == std::to_string(job) && ::kill(process, SIGKILL) == 0) ++count;
  });
  return count;
}

}  // namespace espalier::launcher
