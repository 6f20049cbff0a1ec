#include "torchrt/recovery/vault_client.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/wire/packet_socket.hpp"

namespace espalier::torchrt {

namespace {

using wire::VaultItem;
using wire::VaultReply;
using wire::VaultReplyKind;
using wire::VaultRequest;
using wire::VaultRequestKind;

constexpr std::chrono::milliseconds kAnswers{5000};

struct Answer {
  VaultReply head;
  VaultItem items[wire::kVaultItemsPerReply];
};

void ask(const std::string& name, int connection, const VaultRequest& request, int fd = -1) {
  if (!wire::send_packet(connection, &request, sizeof request, fd))
    throw Error("vault " + name + ": cannot be asked: " + std::strerror(errno));
}

Answer hear(const std::string& name, int connection, wire::Descriptor& fd) {
  Answer answer;
  const std::ptrdiff_t size = wire::receive_packet(connection, &answer, sizeof answer, fd);
  const auto expected = [&] {
    return sizeof answer.head + static_cast<std::size_t>(answer.head.items) * sizeof(VaultItem);
  };
  if (size < static_cast<std::ptrdiff_t>(sizeof answer.head) || !wire::is_vault_packet(answer.head) ||
      answer.head.items < 0 || answer.head.items > wire::kVaultItemsPerReply ||
      static_cast<std::size_t>(size) != expected())
    throw Error("vault " + name + ": did not answer properly within 5 s");
  answer.head.reason[sizeof answer.head.reason - 1] = 0;
  if (answer.head.kind == VaultReplyKind::refused) throw Error("vault " + name + ": " + answer.head.reason);
  return answer;
}

UniqueFd fetch(const std::string& name, const VaultRequest& request) {
  const wire::Descriptor connection = wire::connect_packets(name, kAnswers);
  ask(name, connection.get(), request);
  wire::Descriptor fd;
  hear(name, connection.get(), fd);
  if (!fd) throw Error("vault " + name + ": sent no descriptor");
  return UniqueFd(fd.release());
}

}  // namespace

VaultLine::VaultLine(const std::string& name, int generation, int rank, const Marks& marks)
    : name_(name), connection_(wire::connect_packets(name, kAnswers)) {
  VaultRequest request;
  request.kind = VaultRequestKind::hello;
  request.generation = generation;
  request.rank = rank;
  request.bytes = marks.bytes();
  ask(name_, connection_.get(), request, marks.fd());
  wire::Descriptor none;
  hear(name_, connection_.get(), none);
}

void VaultLine::deposit(int rank, int unit, int slot, int mark, int fd, std::uint64_t bytes) {
  VaultRequest request;
  request.kind = VaultRequestKind::deposit;
  request.rank = rank;
  request.unit = unit;
  request.slot = slot;
  request.mark = mark;
  request.bytes = bytes;
  ask(name_, connection_.get(), request, fd);
  wire::Descriptor none;
  hear(name_, connection_.get(), none);
}

std::vector<std::string> vaults_here(const std::string& base) {
  std::vector<std::string> names;
  for (const auto& [name, owner] : wire::packet_listeners(base + "-"))
    if (owner.value_or(::geteuid()) == ::geteuid()) names.push_back(name);
  return names;
}

std::vector<VaultItem> take_inventory(const std::string& name, int generation, int asker) {
  const wire::Descriptor connection = wire::connect_packets(name, kAnswers);
  VaultRequest request;
  request.kind = VaultRequestKind::inventory;
  request.generation = generation;
  request.asker = asker;
  ask(name, connection.get(), request);
  std::vector<VaultItem> items;
  for (;;) {
    wire::Descriptor none;
    const Answer answer = hear(name, connection.get(), none);
    items.insert(items.end(), answer.items, answer.items + answer.head.items);
    if (answer.head.kind == VaultReplyKind::done) return items;
  }
}

UniqueFd fetch_deposit(const std::string& name, int generation, const VaultItem& item) {
  VaultRequest request;
  request.kind = VaultRequestKind::fetch;
  request.generation = generation;
  request.holder = item.holder;
  request.rank = item.rank;
  request.unit = item.unit;
  request.slot = item.slot;
  return fetch(name, request);
}

void discard_state(const std::string& name, int generation) {
  const wire::Descriptor connection = wire::connect_packets(name, kAnswers);
  VaultRequest request;
  request.kind = VaultRequestKind::discard;
  request.generation = generation;
  ask(name, connection.get(), request);
  wire::Descriptor none;
  hear(name, connection.get(), none);
}

UniqueFd fetch_marks(const std::string& name, int generation, int holder) {
  VaultRequest request;
  request.kind = VaultRequestKind::fetch;
  request.generation = generation;
  request.holder = holder;
  request.slot = wire::kVaultMarksSlot;
  return fetch(name, request);
}

}  // namespace espalier::torchrt
