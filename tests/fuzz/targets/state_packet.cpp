// Packets to the socket that hands out a rank's state, and its answers. The first byte: to whom the packet goes.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "planner/core/error.hpp"
#include "planner/wire/packet_socket.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"
#include "torchrt/handoff/state_socket.hpp"

namespace espalier::fuzz {
namespace {

std::string own_name() { return "espalier-fuzz-state-" + std::to_string(::getpid()); }

void to_server(std::string_view input) {
  torchrt::StateServer server(own_name());
  const torchrt::UniqueFd memory(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  server.offer({3, -1}, memory.get(), 128);
  server.mark(7);
  const wire::Descriptor connection = wire::connect_packets(own_name(), std::chrono::milliseconds(2000));
  wire::send_packet(connection.get(), input.data(), input.size());
  ::shutdown(connection.get(), SHUT_WR);
  char reply[64];
  wire::Descriptor fd;
  while (wire::receive_packet(connection.get(), reply, sizeof reply, fd) > 0) {
  }
}

void to_client(std::string_view input) {
  const wire::Descriptor listener = wire::listen_packets(own_name());
  ::fcntl(listener.get(), F_SETFL, 0);
  std::thread server([&listener, input] {
    const wire::Descriptor connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const bool carries = !input.empty() && (input.front() & 1) != 0;
    const std::string_view packet = input.substr(std::min<std::size_t>(1, input.size()));
    wire::send_packet(connection.get(), packet.data(), packet.size(), carries ? listener.get() : -1);
  });
  try {
    const torchrt::FetchedState state = torchrt::fetch_state(own_name(), {3, -1});
    require(static_cast<bool>(state.fd));
  } catch (const Error&) {
  }
  server.join();
}

}  // namespace

void state_packet(std::string_view input) {
  if (input.empty()) return;
  const bool client = (input.front() & 1) != 0;
  input.remove_prefix(1);
  client ? to_client(input) : to_server(input);
}

}  // namespace espalier::fuzz
