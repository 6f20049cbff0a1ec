// The worker's side of its node's vaults (planner/wire/vault_message.hpp).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/vault_message.hpp"
#include "torchrt/device/unique_fd.hpp"
#include "torchrt/recovery/marks.hpp"

namespace espalier::torchrt {

// A rank's connection to a vault. While it is open, the vault counts the rank as alive. For one
// thread. Throws Error, also when there is no vault of this name.
class VaultLine {
 public:
  // `marks` must outlive it.
  VaultLine(const std::string& name, int generation, int rank, const Marks& marks);
  // `rank`: the rank to which the state belongs. The vault keeps its own descriptor.
  void deposit(int rank, int unit, int slot, int mark, int fd, std::uint64_t bytes);

 private:
  std::string name_;
  wire::Descriptor connection_;
};

// Names of all vaults of the job on this machine. Throws nothing: without an answer there are none.
std::vector<std::string> vaults_here(const std::string& base);

// Lists the memory that a vault keeps of `generation`. Before the vault answers, all processes that
// deposited for a generation before `asker` are dead, or their memory counts as changing. Throws
// Error.
std::vector<wire::VaultItem> take_inventory(const std::string& name, int generation, int asker);

// The memory of an item in an inventory. Throws Error.
UniqueFd fetch_deposit(const std::string& name, int generation, const wire::VaultItem& item);
// The vault lets the state go that the ended workers of `generation` trained on; it keeps their snapshots. Throws
// Error.
void discard_state(const std::string& name, int generation);
UniqueFd fetch_marks(const std::string& name, int generation, int holder);

}  // namespace espalier::torchrt
