#include "torchrt/recovery/find_survivors.hpp"

#include <cstring>
#include <utility>

#include "planner/core/error.hpp"
#include "torchrt/device/device_error.hpp"
#include "torchrt/device/memory_error.hpp"
#include "torchrt/recovery/exchange_inventories.hpp"
#include "torchrt/recovery/vault_client.hpp"

namespace espalier::torchrt {

namespace {

// What marks tell of the files that a generation trained on, whatever its step was.
wire::VaultMarks data_only(const wire::VaultMarks& marks) {
  wire::VaultMarks only;
  only.data = marks.data;
  only.validation = marks.validation;
  return only;
}

}  // namespace

Survivors::Survivors(World& world, Device& device, LostGeneration lost, std::set<std::string>& silent,
                     const std::function<void(const std::string&)>& tell)
    : lost_(std::move(lost)) {
  const std::vector<GpuId> gpus = lost_.plan.ranks(), copies = lost_.copies.ranks();
  std::vector<Held> here;
  for (const std::string& name : lost_.vault.empty() ? std::vector<std::string>() : vaults_here(lost_.vault)) {
    if (silent.count(name) != 0) continue;
    try {
      for (const wire::VaultItem& item : take_inventory(name, lost_.generation, lost_.asker)) {
        // A machine may serve as several nodes. Each node counts only its own memory. Of a GPU's memory only that of
        // the own Slurm job can be mapped. Copies are in host memory.
        if (item.holder < 0 || item.holder >= static_cast<int>(gpus.size()) ||
            (item.slot == 0 ? gpus : copies)[static_cast<std::size_t>(item.holder)].node != lost_.node)
          continue;
        here.push_back({item.holder, item.rank, item.unit, item.slot, item.step, item.bytes});
        vaults_[{item.holder, item.rank, item.unit, item.slot}] = name;
      }
    } catch (const Error& problem) {
      tell(std::string(problem.what()) + "; what it keeps is not used");
      silent.insert(name);
    }
  }
  if (device.kind() != DeviceKind::cpu) check_gpu_memory(device, here, tell);
  left_ = exchange_inventories(std::move(here), world.rank(),
                               [&](std::span<const char> bytes) { return world.gather(bytes); });
  find_untouched(world);
}

// Descriptors outlive the processes that made the memory. They do not outlive the driver's instance of the GPU: without
// persistence mode the driver may end it with the GPU's last process. One unit tells for all that a rank left on its
// GPU.
void Survivors::check_gpu_memory(Device& device, std::vector<Held>& here,
                                 const std::function<void(const std::string&)>& tell) {
  std::map<int, bool> there;  // by holder
  for (Held& held : here) {
    if (held.slot != 0 || held.step < 0) continue;
    const auto [known, fresh] = there.try_emplace(held.holder, true);
    if (fresh) {
      try {
        device.adopt(fetch(held.holder, held.rank, held.unit, held.slot), held.bytes);
      } catch (const DeviceError&) {
        throw;  // this rank's own GPU
      } catch (const MemoryError&) {
        throw;  // the state is there: this GPU has no room to map it beside what else it holds now
      } catch (const Error& problem) {
        known->second = false;
        tell("the GPU memory that old rank " + std::to_string(held.holder) + " left is lost: " + problem.what() +
             "; the driver keeps it without a process only in persistence mode: start nvidia-persistenced or run "
             "nvidia-smi -pm 1 on the node");
      }
    }
    if (!known->second) held.step = -1;
  }
}

// A rank changes its state only after all ranks of its world have noted the agreement in their
// marks. So one rank that died without the note proves that no rank changed anything.
void Survivors::find_untouched(World& world) {
  double here = 0;
  for (const auto& [holder, name] : holders_here()) {
    try {
      if (read_marks(fetch_marks(name, lost_.generation, holder)).trained == 0) ++here;
    } catch (const Error&) {
      // The rank is alive, or its vault is gone: it proves nothing.
    }
  }
  world.sum({&here, 1});
  untouched_ = here > 0;
}

std::map<int, std::string> Survivors::holders_here() const {
  std::map<int, std::string> holders;
  for (const auto& [key, name] : vaults_) holders[std::get<0>(key)] = name;
  return holders;
}

UniqueFd Survivors::fetch(int holder, int rank, int unit, int slot) const {
  const auto found = vaults_.find({holder, rank, unit, slot});
  if (found == vaults_.end())
    throw Error("recovery: unit " + std::to_string(unit) + " of old rank " + std::to_string(rank) +
                " is not in the keeping of this node");
  wire::VaultItem item;
  item.holder = holder;
  item.rank = rank;
  item.unit = unit;
  item.slot = slot;
  return fetch_deposit(found->second, lost_.generation, item);
}

void Survivors::discard_state(const std::function<void(const std::string&)>& tell) const {
  std::set<std::string> names;
  for (const auto& [key, name] : vaults_)
    if (std::get<3>(key) == wire::kVaultState) names.insert(name);
  for (const std::string& name : names) {
    try {
      torchrt::discard_state(name, lost_.generation);
    } catch (const Error& problem) {
      tell(std::string(problem.what()) + "; the GPU memory of generation " + std::to_string(lost_.generation) +
           " may still be taken there");
    }
  }
}

wire::VaultMarks Survivors::agreement(World& world, std::int64_t step) const {
  wire::VaultMarks found;
  for (const auto& [holder, name] : holders_here()) {
    if (found.step == step) break;
    try {
      found = read_marks(fetch_marks(name, lost_.generation, holder));
    } catch (const Error&) {
      // Other ranks may know it.
    }
  }
  if (found.step != step) found = data_only(found);
  wire::VaultMarks known;
  for (const std::vector<char>& part :
       world.gather(std::span<const char>(reinterpret_cast<const char*>(&found), sizeof found))) {
    wire::VaultMarks theirs;
    std::memcpy(&theirs, part.data(), sizeof theirs);
    if (theirs.step == step) return theirs;
    if (known.data == 0) known = theirs;
  }
  return known;
}

}  // namespace espalier::torchrt
