// Keeps a node's training state while its workers come and go: descriptors of their memory. When workers die the next
// generation finds here what they held, and at which step it stands.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/vault_message.hpp"

namespace espalier::launcher {

// "<base>-<owner>": base is ESPALIER_VAULT, owner the Slurm job whose keeper this is.
std::string vault_name(const std::string& base, const std::string& owner);

// Serves workers of its own user from a thread of its own until destroyed, and waits for none of them.
class Vault {
 public:
  // Throws Error, also when the name is taken. `abandoned`: so long after its end what a generation left that never
  // became the job stays; its older one lives, or it would not be abandoned.
  explicit Vault(const std::string& name, std::chrono::milliseconds abandoned = std::chrono::seconds(30));
  ~Vault();
  Vault(const Vault&) = delete;
  Vault& operator=(const Vault&) = delete;

  // What generations before `generation` trained on is let go once they have ended, and copies that are torn; of
  // those before `copies` all is. From any thread.
  void keep(int generation, int copies);

 private:
  class Memory;
  struct Deposit;
  struct Depositor;
  struct Client;
  using Clock = std::chrono::steady_clock;

  void serve();
  void wake() const;
  void accept();
  bool read(Client& client);  // false: the client is gone, or not one of ours
  bool handle(Client& client, const wire::VaultRequest& request, wire::Descriptor fd);
  bool enter(Client& client, const wire::VaultRequest& request, wire::Descriptor fd);
  bool deposit(Client& client, const wire::VaultRequest& request, wire::Descriptor fd);
  void kill_before(int generation, bool patient) const;
  bool any_before(int generation) const;
  void answer_inventories();
  void send_inventory(Client& client);
  void fetch(Client& client, const wire::VaultRequest& request);
  void let_go();
  void drop_abandoned();
  int timeout() const;

  wire::Descriptor listener_, stop_;
  std::chrono::milliseconds abandoned_;
  std::atomic<int> keep_{-1}, keep_copies_{-1};
  std::atomic<bool> ends_{false};
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<std::pair<int, int>, std::unique_ptr<Depositor>> depositors_;  // by generation and rank
  std::thread thread_;
};

}  // namespace espalier::launcher
