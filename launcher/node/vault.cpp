#include "launcher/node/vault.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>

#include "planner/core/error.hpp"
#include "planner/wire/packet_socket.hpp"

namespace espalier::launcher {

namespace {

using wire::VaultItem;
using wire::VaultReply;
using wire::VaultReplyKind;
using wire::VaultRequest;
using wire::VaultRequestKind;

// More than any node has; they only bound what a client that runs wild can take.
constexpr std::size_t kMostClients = 512, kMostDepositors = 1024, kMostDeposits = 4096;
constexpr std::size_t kMostAnswers = 4096;  // of one client, waiting
constexpr std::uint64_t kMostMarkBytes = 1 << 20;
constexpr auto kFence = std::chrono::seconds(2);
// Who is changing its state may finish: replicas do so at the same moment, and torn are of no use to anybody.
constexpr auto kFinish = std::chrono::milliseconds(500);

int pidfd_of(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return -1;
  return static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0));
}

// A vault holds every unit of every rank of a node, in two generations.
void allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1 << 16);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::string vault_name(const std::string& base, const std::string& owner) { return base + "-" + owner; }

// A depositor's marks, mapped.
class Vault::Memory {
 public:
  Memory(wire::Descriptor fd, std::size_t bytes) : fd_(std::move(fd)), bytes_(bytes) {
    struct stat status {};
    const int seals = ::fcntl(fd_.get(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd_.get(), &status) != 0 ||
        static_cast<std::size_t>(status.st_size) < bytes_)
      return;
    void* const mapped = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd_.get(), 0);
    if (mapped != MAP_FAILED) data_ = static_cast<const char*>(mapped);
  }
  ~Memory() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  bool good() const { return data_ != nullptr; }
  int fd() const { return fd_.get(); }
  std::size_t bytes() const { return bytes_; }
  bool has(std::int32_t mark) const { return mark >= 0 && mark < INT32_MAX && wire::marks_bytes(mark + 1) <= bytes_; }
  std::int64_t agreed() const {
    std::int64_t step = -1;
    std::memcpy(&step, data_, sizeof step);
    return step;
  }
  std::int64_t mark(std::int32_t index) const {
    std::int64_t step = -1;
    std::memcpy(&step, data_ + wire::marks_bytes(index), sizeof step);
    return step;
  }

 private:
  wire::Descriptor fd_;
  std::size_t bytes_;
  const char* data_ = nullptr;
};

struct Vault::Deposit {
  wire::Descriptor fd;
  std::uint64_t bytes = 0;
  std::int32_t mark = 0;
};

struct Vault::Depositor {
  Depositor(wire::Descriptor fd, std::size_t bytes) : marks(std::move(fd), bytes) {}
  Memory marks;
  std::map<std::array<std::int32_t, 3>, Deposit> deposits;  // by rank, unit and slot
  bool alive = true;
  Clock::time_point ended{};
  // Of what is trained on; before the first step is agreed upon nothing is.
  bool changes() const {
    return marks.agreed() >= 0 && std::any_of(deposits.begin(), deposits.end(), [&](const auto& entry) {
             return entry.first[2] == wire::kVaultState && marks.mark(entry.second.mark) < 0;
           });
  }
};

struct Vault::Client {
  wire::Descriptor connection, process;
  std::optional<std::pair<int, int>> depositor;  // its key
  std::optional<VaultRequest> inventory;         // not answered yet
  Clock::time_point answer_by{};
  std::vector<std::vector<char>> outgoing;
  std::size_t sent = 0;  // of `outgoing`
};

Vault::Vault(const std::string& name, std::chrono::milliseconds abandoned)
    : listener_(wire::listen_packets(name)), stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), abandoned_(abandoned) {
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
  bool waits = false, dead = false;
  for (const auto& client : clients_) waits = waits || client->inventory;
  for (const auto& [key, depositor] : depositors_) dead = dead || !depositor->alive;
  return waits ? 5 : dead ? static_cast<int>(std::min<std::int64_t>(abandoned_.count(), 1000)) : -1;
}

void Vault::serve() {
  sigset_t all;  // signals are for the thread that started this one
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
      bool stays = waits[i + 2].revents == 0 || read(client);
      while (stays && client.sent < client.outgoing.size()) {
        const std::vector<char>& packet = client.outgoing[client.sent];
        if (::send(client.connection.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
          stays = errno == EAGAIN || errno == EINTR;
          break;
        }
        ++client.sent;
      }
      if (client.sent == client.outgoing.size()) {
        client.outgoing.clear();
        client.sent = 0;
      }
      if (stays) continue;
      if (client.depositor) {
        Depositor& ended = *depositors_.at(*client.depositor);
        ended.alive = false;
        ended.ended = Clock::now();
      }
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if ((waits[1].revents & POLLIN) != 0) accept();
    let_go();
    drop_abandoned();
    answer_inventories();
  }
}

void Vault::accept() {
  wire::Descriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // no descriptor may be left
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
    if (client.outgoing.size() > kMostAnswers) return false;  // asks and does not listen
    if (!handle(client, request, std::move(fd))) return false;
  }
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
  }
  return false;
}

bool Vault::enter(Client& client, const VaultRequest& request, wire::Descriptor fd) {
  const std::pair<int, int> key{request.generation, request.rank};
  const auto refuse = [&](const std::string& why) {
    client.outgoing.push_back(packet_of(refusal(why)));
    return true;
  };
  if (client.depositor || !fd || request.bytes < sizeof(wire::VaultMarks) || request.bytes > kMostMarkBytes)
    return false;
  if (depositors_.size() >= kMostDepositors) return refuse("it is full");
  if (depositors_.count(key) != 0) return refuse("this rank has deposited here already");
  auto depositor = std::make_unique<Depositor>(std::move(fd), request.bytes);
  if (!depositor->marks.good()) return refuse("the marks are no sealed memory of the size named");
  depositors_[key] = std::move(depositor);
  client.depositor = key;
  client.outgoing.push_back(packet_of({}));
  return true;
}

bool Vault::deposit(Client& client, const VaultRequest& request, wire::Descriptor fd) {
  if (!client.depositor || !fd) return false;
  Depositor& depositor = *depositors_.at(*client.depositor);
  if (!depositor.marks.has(request.mark)) return false;
  if (depositor.deposits.size() >= kMostDeposits) {
    client.outgoing.push_back(packet_of(refusal("too much is deposited")));
    return true;
  }
  depositor.deposits[{request.rank, request.unit, request.slot}] = {std::move(fd), request.bytes, request.mark};
  client.outgoing.push_back(packet_of({}));
  return true;
}

void Vault::kill_before(int generation, bool patient) const {
  for (const auto& client : clients_)
    if (client->depositor && client->depositor->first < generation && client->process &&
        !(patient && depositors_.at(*client->depositor)->changes()))
      ::syscall(SYS_pidfd_send_signal, client->process.get(), SIGKILL, nullptr, 0);
}

bool Vault::any_before(int generation) const {
  return std::any_of(depositors_.begin(), depositors_.end(),
                     [&](const auto& entry) { return entry.second->alive && entry.first.first < generation; });
}

void Vault::answer_inventories() {
  for (const auto& client : clients_) {
    if (!client->inventory) continue;
    kill_before(client->inventory->asker, Clock::now() < client->answer_by - kFence + kFinish);
    if (any_before(client->inventory->asker) && Clock::now() < client->answer_by) continue;
    send_inventory(*client);
    client->inventory.reset();
  }
}

// What a process that does not die may still change is of no use.
void Vault::send_inventory(Client& client) {
  std::vector<VaultItem> items;
  for (const auto& [key, depositor] : depositors_) {
    if (key.first != client.inventory->generation) continue;
    for (const auto& [what, deposit] : depositor->deposits)
      items.push_back({key.second, what[0], what[1], what[2],
                       depositor->alive ? -1 : depositor->marks.mark(deposit.mark), deposit.bytes});
  }
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
  const auto found = depositors_.find({request.generation, request.holder});
  int fd = -1;
  if (found != depositors_.end() && !found->second->alive) {
    const Depositor& depositor = *found->second;
    const auto deposit = depositor.deposits.find({request.rank, request.unit, request.slot});
    if (request.slot == wire::kVaultMarksSlot) fd = depositor.marks.fd();
    else if (deposit != depositor.deposits.end()) fd = deposit->second.fd.get();
  }
  const VaultReply reply = fd >= 0 ? VaultReply{} : refusal("it does not hold that");
  // One question, one answer: the socket has room for it, or the client does not keep to the protocol.
  wire::send_packet(client.connection.get(), &reply, sizeof reply, fd);
}

// Torn copies go with whoever made them. The marks stay as long as any copy does: what is no more than they themselves
// goes as well.
void Vault::let_go() {
  const int kept = keep_, copies = keep_copies_;
  std::erase_if(depositors_, [&](const auto& entry) {
    const auto& [key, depositor] = entry;
    if (depositor->alive) return false;
    if (key.first < copies) return true;
    const bool old = key.first < kept;
    std::erase_if(depositor->deposits, [&](const auto& one) {
      return one.first[2] == wire::kVaultState ? old : depositor->marks.mark(one.second.mark) < 0;
    });
    return old && depositor->deposits.empty();
  });
}

// A generation that was given up before it became the job: its older one lives on.
void Vault::drop_abandoned() {
  int oldest_alive = INT32_MAX;
  for (const auto& [key, depositor] : depositors_)
    if (depositor->alive) oldest_alive = std::min(oldest_alive, key.first);
  const Clock::time_point now = Clock::now();
  std::erase_if(depositors_, [&](const auto& entry) {
    return !entry.second->alive && entry.first.first > oldest_alive && now - entry.second->ended > abandoned_;
  });
}

}  // namespace espalier::launcher
