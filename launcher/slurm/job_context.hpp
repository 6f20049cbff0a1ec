// What a launcher knows when it starts: from Slurm's environment, the plugin's variables and the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/slurm/slurm.hpp"
#include "planner/wire/config.hpp"

namespace espalier::launcher {

struct JobContext {
  JobId job = 0;
  unsigned step = 0;
  std::string node;                  // this node's Slurm name
  std::string self;                  // path of this program
  std::vector<std::string> program;  // the user's
  int min_gpus = 0, max_gpus = 0;
  Accuracy accuracy = Accuracy::bitwise;
  std::string name, account;
  std::vector<Holding> anchor;  // ask Slurm with complete()
  SlurmSite site;
  wire::Config config;

  std::vector<GpuId> anchor_gpus() const;
};

// Reads and checks the environment. Throws Error when this is not a Slurm step.
JobContext read_context(std::vector<std::string> program);
// Fills in what only Slurm knows (blocks; at start only). Throws Error.
void complete(JobContext& context);

// The address other nodes reach this one at: its interface in `network` (CIDR), else its name.
std::string own_address(const std::string& network, const std::string& node);

// What the names of the job's vaults (vault.hpp) begin with; "-<Slurm job of the node's step>" follows.
std::string vault_prefix(JobId job, unsigned step);

// Ports that a launcher tries, in this order, so that its anchor's keepers can find it.
std::vector<std::uint16_t> launcher_ports(JobId job, unsigned step);

}  // namespace espalier::launcher
