// Packets to a vault, and a vault's answers to a worker. The first byte of the input says to whom the packets go; then
// each packet has a byte before it: whether it carries a descriptor. A packet has the size of a request, and the last
// one what is left.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "launcher/node/vault.hpp"
#include "planner/core/error.hpp"
#include "planner/wire/packet_socket.hpp"
#include "tests/fuzz/targets.hpp"
#include "torchrt/recovery/vault_client.hpp"

namespace espalier::fuzz {
namespace {

constexpr std::chrono::milliseconds kWait{2000};
constexpr std::size_t kMostPackets = 64;

std::string own_name() { return "espalier-fuzz-vault-" + std::to_string(::getpid()); }

wire::Descriptor sealed_memory() {
  wire::Descriptor memory(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(memory && ::ftruncate(memory.get(), sizeof(wire::VaultMarks) + 64) == 0);
  ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  return memory;
}

// A vault kills depositors of generations before the one that asks, and the depositor is this process. So nobody asks
// for a generation above those of depositors.
void spare_this_process(std::string& packet) {
  wire::VaultRequest request;
  if (packet.size() != sizeof request) return;
  std::memcpy(&request, packet.data(), sizeof request);
  if (request.kind == wire::VaultRequestKind::hello) request.generation |= 64;
  if (request.generation < 0) request.generation = 64;
  request.asker &= 63;
  std::memcpy(packet.data(), &request, sizeof request);
}

void to_vault(std::string_view input) {
  launcher::Vault vault(own_name());
  const wire::Descriptor connection = wire::connect_packets(own_name(), kWait);
  for (std::size_t count = 0; !input.empty() && count < kMostPackets; ++count) {
    const bool carries = (input.front() & 1) != 0;
    input.remove_prefix(1);
    std::string packet(input.substr(0, sizeof(wire::VaultRequest)));
    input.remove_prefix(packet.size());
    if (packet.empty()) break;
    spare_this_process(packet);
    const wire::Descriptor memory = carries ? sealed_memory() : wire::Descriptor();
    if (!wire::send_packet(connection.get(), packet.data(), packet.size(), carries ? memory.get() : -1)) return;
  }
  // The vault has handled all packets when it has closed, or answered the last.
  ::shutdown(connection.get(), SHUT_WR);
  char answer[8192];
  wire::Descriptor any;
  while (wire::receive_packet(connection.get(), answer, sizeof answer, any) > 0) {
  }
}

// Sends the input as answers of a vault, until the worker has read enough of it.
void to_worker(std::string_view input) {
  const wire::Descriptor listener = wire::listen_packets(own_name());
  ::fcntl(listener.get(), F_SETFL, 0);
  std::thread server([&listener, input] {
    const wire::Descriptor connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string_view rest = input;
    for (std::size_t count = 0; !rest.empty() && count < kMostPackets; ++count) {
      const auto flags = static_cast<unsigned char>(rest.front());
      rest.remove_prefix(1);
      const std::size_t items = (flags >> 1) % 8;
      const std::string packet(rest.substr(0, sizeof(wire::VaultReply) + items * sizeof(wire::VaultItem)));
      rest.remove_prefix(packet.size());
      const wire::Descriptor memory = (flags & 1) != 0 ? sealed_memory() : wire::Descriptor();
      if (packet.empty() ||
          !wire::send_packet(connection.get(), packet.data(), packet.size(), memory ? memory.get() : -1))
        return;
    }
  });
  try {
    const auto items = torchrt::take_inventory(own_name(), 1, 2);
    require(items.size() <= input.size());
  } catch (const Error&) {
  }
  server.join();
}

}  // namespace

void vault_packet(std::string_view input) {
  if (input.empty()) return;
  const bool worker = (input.front() & 1) != 0;
  input.remove_prefix(1);
  worker ? to_worker(input) : to_vault(input);
}

}  // namespace espalier::fuzz
