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

// A rank's line to a vault. While it is open the vault counts the rank as alive. One thread; throws Error, also when
// there is no vault of this name.
class VaultLine {
 public:
  // `marks` outlives it.
  VaultLine(const std::string& name, int generation, int rank, const Marks& marks);
  // `rank`: whose state it is. The vault keeps a descriptor of its own.
  void deposit(int rank, int unit, int slot, int mark, int fd, std::uint64_t bytes);

 private:
  std::string name_;
  wire::Descriptor connection_;
};

// Names of all vaults of the job on this machine. Throws nothing: a machine that does not tell has none.
std::vector<std::string> vaults_here(const std::string& base);

// What is left of `generation` at a vault; before it answers, everybody who deposited for a generation before `asker`
// is dead, or what it holds counts as changing. Throws Error.
std::vector<wire::VaultItem> take_inventory(const std::string& name, int generation, int asker);

// The memory that an inventory named. Throws Error.
UniqueFd fetch_deposit(const std::string& name, int generation, const wire::VaultItem& item);
UniqueFd fetch_marks(const std::string& name, int generation, int holder);

}  // namespace espalier::torchrt
