// The facts that a launcher starts with. They come from Slurm's environment, the plugin's variables and the
// configuration.
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
  std::string node;                  // this node's name in Slurm
  std::string self;                  // path of this program
  std::vector<std::string> program;  // the user's program and its arguments
  int min_gpus = 0, max_gpus = 0;
  int floor_gpus = 0;   // MIN, if the user gave it; 0: none
  double deadline = 0;  // seconds since the epoch; 0: none
  Accuracy accuracy = Accuracy::bitwise;
  std::string name, account;
  std::string features, reservation;  // as the anchor was submitted
  bool typed_gpus = false;            // the anchor named a GPU type
  std::vector<Holding> anchor;        // filled in by complete()
  SlurmSite site;
  std::vector<NodeView> nodes;  // of the anchor; empty: Slurm did not tell
  wire::Config config;
  bool accuracy_given = false;  // by the user; else the program may say what it can promise

  std::vector<GpuId> anchor_gpus() const;
};

// Reads and checks the environment. Throws Error when this is not a Slurm step or a variable has a bad value.
JobContext read_context(std::vector<std::string> program);
// Fills in the facts that only Slurm knows. Blocks, so call it at the start only. Throws Error.
void complete(JobContext& context);

// The beginning of the names of the job's vaults (vault.hpp). "-<Slurm job of the node's step>" follows.
std::string vault_prefix(JobId job, unsigned step);

}  // namespace espalier::launcher
