#include "launcher/node/vault.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>

#include "launcher/process/resource_limits.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/handshake.hpp"
#include "planner/wire/packet_socket.hpp"

namespace espalier::launcher {

namespace {

using wire::VaultItem;
using wire::VaultReply;
using wire::VaultReplyKind;
using wire::VaultRequest;
using wire::VaultRequestKind;

// More than any node needs. The limits bound what a faulty client can take.
constexpr std::size_t kMostClients = 512;
constexpr std::size_t kMostAnswers = 4096;  // of one client, not sent yet
constexpr std::uint64_t kMostMarkBytes = 1 << 20;
// Limit for older workers to end before an inventory is answered.
constexpr auto kFence = std::chrono::seconds(2);
// A worker that is changing its state has this time to finish before it is killed. Replicas change their state at the
// same moment, and torn state is of no use.
constexpr auto kFinish = std::chrono::milliseconds(500);

int pidfd_of(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return -1;
  return static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0));
}

}  // namespace

std::string vault_name(const std::string& base, const std::string& owner) { return base + "-" + owner; }

struct Vault::Client {
  wire::Descriptor connection, process;
  std::optional<Deposits::Depositor> depositor;
  std::optional<VaultRequest> inventory;  // a request that is not answered yet
  Clock::time_point answer_by{};
  std::vector<std::vector<char>> outgoing;
  std::size_t sent = 0;  // how many of `outgoing` are sent
};

// Another user may have taken the name, which anybody can guess. Then the vault listens at one that
// nobody can: workers look for all vaults of their own user whose name begins so.
static wire::Descriptor listen_beside_others(const std::string& name) {
  try {
    return wire::listen_packets(name);
  } catch (const Error&) {
    const auto taken = wire::packet_listeners(name);
    const auto by = taken.find(name);
    if (by == taken.end() || by->second.value_or(::geteuid()) == ::geteuid()) throw;
    return wire::listen_packets(name + "." + wire::fresh_nonce());
  }
}

Vault::Vault(const std::string& name, std::chrono::milliseconds abandoned)
    : listener_(listen_beside_others(name)), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), abandoned_(abandoned) {
  if (!stop_) throw Error("vault: eventfd failed: " + std::string(std::strerror(errno)));
  allow_many_descriptors();
  thread_ = std::thread([this] { serve(); });
}

Vault::~Vault() {
  ends_ = true;
  wake();
  thread_.join();
}

void Vault::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_.get(), &one, sizeof one);
}

void Vault::keep(int generation, int copies) {
  keep_ = generation;
  keep_copies_ = copies;
  wake();
}

int Vault::timeout() const {
  const bool waits =
      std::any_of(clients_.begin(), clients_.end(), [](const auto& client) { return client->inventory.has_value(); });
  if (waits) return 5;
  return deposits_.any_ended() ? static_cast<int>(std::min<std::int64_t>(abandoned_.count(), 1000)) : -1;
}

void Vault::serve() {
  sigset_t all;  // the thread that started this one handles signals
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) {
    std::vector<pollfd> waits = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& client : clients_) {
      const bool writes = client->sent < client->outgoing.size();
      waits.push_back({client->connection.get(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
    }
    if (::poll(waits.data(), waits.size(), timeout()) < 0 && errno != EINTR) return;
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t drained = ::read(stop_.get(), &count, sizeof count);
    if (ends_) return;
    for (std::size_t i = clients_.size(); i-- > 0;) {
      Client& client = *clients_[i];
      if ((waits[i + 2].revents == 0 || read(client)) && write(client)) continue;
      if (client.depositor) deposits_.end(*client.depositor);
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if ((waits[1].revents & POLLIN) != 0) accept();
    deposits_.let_go(keep_, keep_copies_);
    deposits_.drop_abandoned(abandoned_);
    answer_inventories();
  }
}

void Vault::accept() {
  wire::Descriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  // The process may be out of descriptors: it must not spin.
  if (!connection) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!connection || clients_.size() >= kMostClients || !wire::same_user(connection.get())) return;
  auto client = std::make_unique<Client>();
  client->process = wire::Descriptor(pidfd_of(connection.get()));
  client->connection = std::move(connection);
  clients_.push_back(std::move(client));
}

bool Vault::read(Client& client) {
  for (;;) {
    VaultRequest request;
    wire::Descriptor fd;
    const std::ptrdiff_t size = wire::receive_packet(client.connection.get(), &request, sizeof request, fd);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size != sizeof request || !wire::is_vault_packet(request)) return false;
    if (client.outgoing.size() > kMostAnswers) return false;  // the client asks and does not read the answers
    if (!handle(client, request, std::move(fd))) return false;
  }
}

bool Vault::write(Client& client) const {
  for (; client.sent < client.outgoing.size(); ++client.sent) {
    const std::vector<char>& packet = client.outgoing[client.sent];
    if (::send(client.connection.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
      return errno == EAGAIN || errno == EINTR;
  }
  client.outgoing.clear();
  client.sent = 0;
  return true;
}

namespace {

std::vector<char> packet_of(const VaultReply& reply, const VaultItem* items = nullptr) {
  std::vector<char> packet(sizeof reply + static_cast<std::size_t>(reply.items) * sizeof(VaultItem));
  std::memcpy(packet.data(), &reply, sizeof reply);
  if (items != nullptr) std::memcpy(packet.data() + sizeof reply, items, packet.size() - sizeof reply);
  return packet;
}

VaultReply refusal(const std::string& why) {
  VaultReply reply;
  reply.kind = VaultReplyKind::refused;
  why.copy(reply.reason, sizeof reply.reason - 1);
  return reply;
}

// `refused`: why; empty: it was done.
std::vector<char> answer_to(const std::string& refused) {
  return packet_of(refused.empty() ? VaultReply{} : refusal(refused));
}

}  // namespace

bool Vault::handle(Client& client, const VaultRequest& request, wire::Descriptor fd) {
  switch (request.kind) {
    case VaultRequestKind::hello:
      return enter(client, request, std::move(fd));
    case VaultRequestKind::deposit:
      return deposit(client, request, std::move(fd));
    case VaultRequestKind::inventory:
      client.inventory = request;
      client.answer_by = Clock::now() + kFence;
      return true;
    case VaultRequestKind::fetch:
      fetch(client, request);
      return true;
    case VaultRequestKind::discard:
      deposits_.discard(request.generation);
      client.outgoing.push_back(answer_to(""));
      return true;
  }
  return false;
}

bool Vault::enter(Client& client, const VaultRequest& request, wire::Descriptor fd) {
  if (client.depositor || !fd || request.bytes < sizeof(wire::VaultMarks) || request.bytes > kMostMarkBytes)
    return false;
  const Deposits::Depositor depositor{request.generation, request.rank};
  const std::string refused = deposits_.enter(depositor, std::move(fd), request.bytes);
  if (refused.empty()) client.depositor = depositor;
  client.outgoing.push_back(answer_to(refused));
  return true;
}

bool Vault::deposit(Client& client, const VaultRequest& request, wire::Descriptor fd) {
  if (!client.depositor || !fd || !deposits_.has_mark(*client.depositor, request.mark)) return false;
  client.outgoing.push_back(answer_to(deposits_.take(*client.depositor, request, std::move(fd))));
  return true;
}

void Vault::kill_before(int generation, bool patient) const {
  for (const auto& client : clients_)
    if (client->depositor && client->depositor->first < generation && client->process &&
        !(patient && deposits_.changes(*client->depositor)))
      ::syscall(SYS_pidfd_send_signal, client->process.get(), SIGKILL, nullptr, 0);
}

void Vault::answer_inventories() {
  for (const auto& client : clients_) {
    if (!client->inventory) continue;
    kill_before(client->inventory->asker, Clock::now() < client->answer_by - kFence + kFinish);
    if (deposits_.any_lives_before(client->inventory->asker) && Clock::now() < client->answer_by) continue;
    send_inventory(*client);
    client->inventory.reset();
  }
}

void Vault::send_inventory(Client& client) {
  const std::vector<VaultItem> items = deposits_.items(client.inventory->generation);
  for (std::size_t first = 0; first < items.size(); first += wire::kVaultItemsPerReply) {
    VaultReply reply;
    reply.kind = VaultReplyKind::more;
    reply.items = static_cast<std::int32_t>(
        std::min<std::size_t>(items.size() - first, static_cast<std::size_t>(wire::kVaultItemsPerReply)));
    client.outgoing.push_back(packet_of(reply, items.data() + first));
  }
  client.outgoing.push_back(packet_of({}));
}

void Vault::fetch(Client& client, const VaultRequest& request) {
  const int fd = deposits_.find(request);
  const VaultReply reply = fd >= 0 ? VaultReply{} : refusal("it does not hold that");
  // Not queued: the client must read this answer before it asks again, so the socket has room for it. A client that
  // asks again first breaks the protocol.
  wire::send_packet(client.connection.get(), &reply, sizeof reply, fd);
}

}  // namespace espalier::launcher
