#include <csignal>
#include <cstdlib>
#include <fstream>
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

void kill_rank_servers(const std::string& vault, int restarts) {
  each_own_process([&](pid_t process, const std::string& environment) {
    if (variable_in(environment, "ESPALIER_VAULT") != vault) return;
    if (std::atoi(variable_in(environment, "ESPALIER_RESTARTS").c_str()) >= restarts) return;
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(process) + "/comm"), name);
    if (name == "espalier-ranks") ::kill(process, SIGKILL);
  });
}

}  // namespace espalier::launcher
