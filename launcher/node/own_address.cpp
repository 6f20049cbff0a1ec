#include "launcher/node/own_address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <random>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {
namespace {

// Launchers listen from 20000 on (launcher_ports).
constexpr int kFirst = 10000, kCount = 10000, kTries = 200;

// On all addresses of both families, as PyTorch's store listens; of IPv4 alone where the node has no IPv6.
bool is_unused(int port) {
  const wire::Descriptor both(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (both) {
    const int off = 0;
    ::setsockopt(both.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<std::uint16_t>(port));
    if (::bind(both.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0) return true;
    if (errno == EADDRINUSE) return false;
  }
  const wire::Descriptor four(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<std::uint16_t>(port));
  return four && ::bind(four.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
}

}  // namespace

std::string own_address(const std::string& network, const std::string& node) {
  const auto slash = network.find('/');
  in_addr wanted{};
  int bits = 0;
  if (slash == std::string::npos || ::inet_pton(AF_INET, network.substr(0, slash).c_str(), &wanted) != 1) return node;
  std::from_chars(network.data() + slash + 1, network.data() + network.size(), bits);
  const std::uint32_t mask = bits <= 0 ? 0 : htonl(~std::uint32_t{0} << (32 - std::min(bits, 32)));
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return node;
  std::string address = node;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    const auto& own = reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr;
    if ((own.s_addr & mask) != (wanted.s_addr & mask)) continue;
    char text[INET_ADDRSTRLEN];
    if (::inet_ntop(AF_INET, &own, text, sizeof text) != nullptr) address = text;
    break;
  }
  ::freeifaddrs(list);
  return address;
}

int unused_port() {
  std::random_device random;
  std::uniform_int_distribution<int> any(kFirst, kFirst + kCount - 1);
  for (int i = 0; i < kTries; ++i)
    if (const int port = any(random); is_unused(port)) return port;
  throw Error("no free TCP port between " + std::to_string(kFirst) + " and " + std::to_string(kFirst + kCount - 1));
}

}  // namespace espalier::launcher
