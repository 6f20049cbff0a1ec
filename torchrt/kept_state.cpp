#include "torchrt/kept_state.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "torchrt/recovery/vault_client.hpp"

namespace espalier::torchrt {

void KeptState::deposit(const WorkerEnvironment& environment, const std::string& node, const DataMarks& reads) {
  const std::string owner = environment.owner.empty() ? node : environment.owner;
  const auto tell = [this](const std::string& what) {
    std::fprintf(stderr, "espalier: train: rank %d: %s\n", world_.rank(), what.c_str());
  };
  // A vault that is not there keeps nothing for anybody.
  const std::vector<std::string> here = environment.own ? vaults_here(environment.vault) : std::vector<std::string>();
  // Where another user has taken the vault's name, it has a longer one.
  const std::string name = environment.vault + "-" + owner;
  const auto found = std::find_if(here.begin(), here.end(),
                                  [&](const std::string& one) { return one == name || one.starts_with(name + "."); });
  const bool own = found != here.end();
  const int every = state_.config().recovery.snapshot_steps;
  if (every > 0)
    snapshots_.emplace(state_, world_, device_, every, VaultPlace{owner, own, own && environment.with_launcher});
  keeping_.emplace(environment.vault.empty() ? ""
                   : own                     ? *found
                                             : name,
                   environment.generation, world_.rank(), state_, device_, snapshots_ ? snapshots_->marks() : 0, tell);
  keeping_->marks().reads(reads.data, reads.validation);
  if (snapshots_) snapshots_->deposit(*keeping_);
}

void KeptState::equip() {
  state_.executor().mark(&keeping_->marks());
  if (!snapshots_) return;
  state_.executor().beside([this] { snapshots_->poll(); });
  state_.executor().before_change([this] { snapshots_->before_change(); });
}

void KeptState::boundary(std::int64_t step) {
  if (snapshots_) snapshots_->boundary(step);
}

void KeptState::before_change() {
  if (snapshots_) snapshots_->before_change();
}

}  // namespace espalier::torchrt
