// Keeps a node's training state while its workers come and go. The vault holds descriptors of the workers' memory.
// After workers have died, the next generation finds in the vault the state that they held, and the step of that state.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "launcher/node/deposits.hpp"
#include "planner/wire/descriptor.hpp"
#include "planner/wire/vault_message.hpp"

namespace espalier::launcher {

// "<base>-<owner>". `base`: ESPALIER_VAULT. `owner`: the Slurm job whose step runs on the node.
std::string vault_name(const std::string& base, const std::string& owner);

// Serves workers of this process's user from its own thread until it is destroyed. It never waits for a worker.
class Vault {
 public:
  // Throws Error, also when the name is taken. `abandoned`: how long the vault keeps the state of an ended generation
  // while an older one lives. The older one lives because the ended one never became the job's generation.
  explicit Vault(const std::string& name, std::chrono::milliseconds abandoned = std::chrono::seconds(30));
  ~Vault();
  Vault(const Vault&) = delete;
  Vault& operator=(const Vault&) = delete;

  // Lets state go once its worker has ended. Of generations before `generation`: the state that was trained on. Of
  // generations before `copies`: everything. Torn snapshots go as well. Any thread may call this.
  void keep(int generation, int copies);

 private:
  struct Client;
  using Clock = std::chrono::steady_clock;

  void serve();
  void wake() const;
  void accept();
  bool read(Client& client);         // false: the client is gone or breaks the protocol
  bool write(Client& client) const;  // false: as read()
  bool handle(Client& client, const wire::VaultRequest& request, wire::Descriptor fd);
  bool enter(Client& client, const wire::VaultRequest& request, wire::Descriptor fd);
  bool deposit(Client& client, const wire::VaultRequest& request, wire::Descriptor fd);
  void kill_before(int generation, bool patient) const;
  void answer_inventories();
  void send_inventory(Client& client);
  void fetch(Client& client, const wire::VaultRequest& request);
  int timeout() const;

  wire::Descriptor listener_, stop_;
  std::chrono::milliseconds abandoned_;
  std::atomic<int> keep_{-1}, keep_copies_{-1};
  std::atomic<bool> ends_{false};
  std::vector<std::unique_ptr<Client>> clients_;
  Deposits deposits_;
  std::thread thread_;
};

}  // namespace espalier::launcher
