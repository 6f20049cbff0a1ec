// Acts of a play in which ranks are lost, and the next generation recovers what is left.
#include <algorithm>
#include <csignal>
#include <thread>

#include "planner/wire/packet_socket.hpp"
#include "tests/torchrt/director.hpp"
#include "torchrt/recovery/vault_client.hpp"

namespace espalier::test {

using namespace wire;

void Director::lose() {
  const Act& act = acts_[next_act_];
  recovering_ = true;
  if (act.at_ms >= 0) {
    recovery_ = loop_.after(std::chrono::milliseconds(act.at_ms), [this] { strike(); });
    return;
  }
  if (!current_.catch_moment(act)) return fail("the moment of the loss never comes");
  strike();
}

void Director::strike() {
  const Act& act = acts_[next_act_];
  lost_at_ = Clock::now();
  for (const int rank : act.kill) ::kill(current_.processes.at(rank), SIGKILL);
  const std::vector<GpuId> gpus = current_.plan.ranks();
  for (const std::string& node : act.lose) {
    for (std::size_t rank = 0; rank < gpus.size(); ++rank)
      if (gpus[rank].node == node) ::kill(current_.processes.at(static_cast<int>(rank)), SIGKILL);
    vaults_.erase(node);
    gpus_.lose(node);
  }
  // The other ranks go on as far as they can without the lost ones.
  for (const auto& [rank, process] : current_.processes)
    if (!std::count(act.stop.begin(), act.stop.end(), rank)) ::kill(process, SIGCONT);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  recover();
}

void Director::recover() {
  if (acts_[next_act_].stop.empty()) current_.kill();
  silent_.reset();
  if (acts_[next_act_].silent) silent_ = listen_packets(vault_base() + "-silent");  // nobody accepts there
  start(next_, ++last_number_, acts_[next_act_].plan);
}

// How many states of units the vaults hold that the lost generation trained on.
int Director::state_left() const {
  int count = 0;
  for (const auto& [node, vault] : vaults_)
    for (const VaultItem& item :
         torchrt::take_inventory(launcher::vault_name(vault_base(), node), current_.number, next_.number))
      if (item.slot == kVaultState) ++count;
  return count;
}

// Drops state of older generations once the running one has its own, as the launcher does.
void Director::keep(bool settled) {
  for (auto& one : earlier_) one.copies_only = true;
  if (settled) earlier_.clear();
  const int copies = earlier_.empty() ? current_.number : earlier_.back().generation;
  for (const auto& [node, vault] : vaults_) vault->keep(current_.number, copies);
}

void Director::on_recovered() {
  if (next_.origins.size() != 1) return fail("the ranks do not go on from one step and source");
  const auto [step, from] = *next_.origins.begin();
  const int living = current_.living();
  current_.kill();
  boundary_ = step;
  summary_["acts"].push_back({{"generation", next_.number},
                              {"step", step},
                              {"from", from},
                              {"state_left", acts_[next_act_].silent ? state_left() : -1},
                              {"living", living},
                              {"lost_ms", milliseconds_since(lost_at_)},
                              {"ready_ms", ready_ms_},
                              {"bytes_adopted", next_.adopted},
                              {"bytes_copied", next_.copied},
                              {"bytes_sent", next_.sent}});
  succeed();
}

// The attempt to recover is dropped.
void Director::try_again() {
  const int left = state_left();
  give_up(false);
  summary_["acts"].back()["state_left"] = left;
  recover();
}

}  // namespace espalier::test
